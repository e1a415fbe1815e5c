# check_planted.sh BUILD CORPORA - fuzz_operations must die of each of these barriers when it does nothing, and of a model that
# promises too much; fuzz_directory of two: inputs of their corpora reach them, or mutations of those soon do [DUR-110].
set -u
build=$1
corpora=$2
count=0

must_die() { # TARGET FAULT
    if FUZZ_PLANTED=$2 "$build/fuzz_$1" -runs=30000 -seed=1 -artifact_prefix="$build/planted-" "$corpora/$1" \
        >"$build/planted.txt" 2>&1; then
        echo "fuzz_$1 survived $2" >&2
        exit 1
    fi
    grep -q 'died in execution' "$build/planted.txt" || { cat "$build/planted.txt" >&2; exit 1; }
    count=$((count + 1))
}

must_die operations --promise-more
for barrier in APPENDED_RECORDS APPENDED_NAMES ROLL_UNDONE TRUNCATION_KEEPS TRUNCATION_NAMES TRUNCATION_CUT EMPTYING_HIGHER \
    RECOVERY_RECORDS RECOVERY_NAMES RECOVERY_POINT_NAME LOG_START_CONTENT LOG_START_NAME LOG_STATE_CONTENT LOG_STATE_NAME \
    CLOSED_RECORDS NEW_DIRECTORY; do
    must_die operations "--without=$barrier"
done
must_die directory --without=APPENDED_RECORDS
must_die directory --without=APPENDED_NAMES
rm -f "$build/planted-crash-operations" "$build/planted-crash-directory" "$build/planted.txt"
echo "operations, directory die of $count planted faults, as they must"
