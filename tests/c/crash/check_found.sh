#!/bin/sh
# Every script that once found something, with its crash and with each seed near it: what was mended stays so, although the
# effects of a script may have moved by some since then [DUR-114].
# usage: check_found.sh <explore_crashes> <found.txt>
set -u
explore=$1
count=0
while IFS='|' read -r settings script crash; do
    case $settings in '#'* | '') continue ;; esac
    seed=${crash##*,}
    effects=${crash%%,*}
    for at in $(seq $((effects - 3)) $((effects + 3))); do
        output=$("$explore" "--settings=$settings" "--script=$script" "--crash=$at,seed,$seed") || {
            printf '%s\n' "$output" "$explore --settings=$settings --script='$script' --crash=$at,seed,$seed" >&2
            exit 1
        }
    done
    count=$((count + 1))
done <"$2"
[ "$count" -gt 0 ] || { echo "$2 has no crash" >&2; exit 1; }
echo "$count crashes that once found something find nothing"
