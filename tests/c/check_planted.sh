# check_planted.sh BUILD CORPUS - fuzz_operations must die of each of these barriers when it does nothing, and of a model that
# promises too much: inputs of its corpus reach them, or mutations of those soon do [DUR-110].
set -u
build=$1
corpus=$2
count=0
for planted in --promise-more $(printf -- '--without=%s ' APPENDED_RECORDS APPENDED_NAMES TRUNCATION_KEEPS TRUNCATION_NAMES \
    TRUNCATION_CUT EMPTYING_HIGHER RECOVERY_RECORDS RECOVERY_NAMES RECOVERY_POINT_NAME LOG_START_CONTENT \
    LOG_START_NAME LOG_STATE_CONTENT LOG_STATE_NAME CLOSED_RECORDS NEW_DIRECTORY); do
    if FUZZ_PLANTED=$planted "$build/fuzz_operations" -runs=30000 -seed=1 -artifact_prefix="$build/planted-" "$corpus" \
        >"$build/planted.txt" 2>&1; then
        echo "fuzz_operations survived $planted" >&2
        exit 1
    fi
    grep -q 'died in execution' "$build/planted.txt" || { cat "$build/planted.txt" >&2; exit 1; }
    count=$((count + 1))
done
rm -f "$build/planted-crash-operations" "$build/planted.txt"
echo "operations           dies of $count planted faults, as it must"
