# check_canary.sh BUILD CORPUS - fuzz_canary must die on every input but `harmless`, leave that input behind, and be
# brought to die by mutation of `harmless` alone.
set -u
build=$1
corpus=$2
crash=$build/crash-canary

must_die() {
    rm -f "$crash"
    if "$build/fuzz_canary" -artifact_prefix="$build/" "$@" >"$build/canary.txt" 2>&1; then
        echo "the canary survived: $*" >&2
        exit 1
    fi
    if [ ! -f "$crash" ]; then
        echo "the canary died and left no input: $*" >&2
        exit 1
    fi
}

if ! "$build/fuzz_canary" "$corpus/harmless" >/dev/null; then
    echo "the canary died of a harmless input" >&2
    exit 1
fi
count=0
for input in "$corpus"/*; do
    [ "$input" = "$corpus/harmless" ] && continue
    must_die "$input"
    if ! cmp -s "$input" "$crash"; then
        echo "the canary's last input is not what it died of: $input" >&2
        exit 1
    fi
    count=$((count + 1))
done
[ "$count" -ge 4 ] || { echo "the canary's inputs are missing" >&2; exit 1; }
must_die -runs=200000 -seed=1 "$corpus/harmless"
mv "$crash" "$crash-found"
must_die "$crash-found" # what was found is a test from now on
rm -f "$crash" "$crash-found" "$build/canary.txt"
echo "canary               dies of $count inputs and of a mutation, as it must"
