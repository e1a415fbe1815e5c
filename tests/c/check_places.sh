#!/bin/sh
# Whether each call of the environment that csrc makes was failed: as many places as `env->name(` stands in the sources.
#   check_places.sh <what test_failing_calls printed> <csrc>
set -eu
printed=$1
sources=$2
status=0
for call in $(grep -rhoE 'env->[a-z_]+\(' "$sources/index" "$sources/segment" "$sources/io/mapped_file.c" |
    sed 's/env->//; s/(//' | sort -u); do
    case $call in
    release | unmap | wall_clock_ms | note_owner | drop_cache | read_ahead | allocate | reallocate) continue ;; # cannot fail; memory is counted apart
    esac
    expected=$(grep -rhoE "env->$call\\(" "$sources/index" "$sources/segment" "$sources/io/mapped_file.c" | wc -l)
    found=$(awk -v call="$call" '$1 == call { print $2 }' "$printed")
    if [ "${found:-0}" -ne "$expected" ]; then
        echo "$call: ${found:-0} places were failed, csrc has $expected" >&2
        status=1
    fi
done
exit $status
