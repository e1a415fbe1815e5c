#!/bin/sh
# The check of the check: each of these barriers without effect, and a model that promises too much, must be found by the
# exploration of crash images, soon [DUR-110]. Barriers of what the C core's small log does not have are tests/crash's.
# usage: check_faults.sh <explore_crashes>
set -u
explore=$1

must_be_found() {
    output=$("$explore" --images=60000 --length=1 "$1" 2>&1)
    if [ $? -ne 1 ] || ! printf '%s\n' "$output" | grep -q '^FAILED '; then
        printf '%s\n' "$output" "explore_crashes $1 must find something, and did not" >&2
        exit 1
    fi
}

for barrier in APPENDED_RECORDS APPENDED_NAMES TRUNCATION_KEEPS TRUNCATION_NAMES TRUNCATION_CUT EMPTYING_HIGHER EMPTYING_FIRST \
    RECOVERY_RECORDS RECOVERY_NAMES RECOVERY_POINT_NAME LOG_START_CONTENT LOG_START_NAME LOG_STATE_CONTENT LOG_STATE_NAME \
    NEW_DIRECTORY; do
    must_be_found "--without=$barrier"
done
must_be_found --promise-more
echo "explore_crashes finds 15 barriers that do nothing, and a promise too much"
