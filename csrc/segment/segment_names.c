/* segment_names.c - file names of a segment [format.md 16.1]. Made for every call that needs one, so it has to be quick. */
#include <string.h>

#include "segment/log_segment.h"

enum { OFFSET_DIGITS = 20 };

enum { KIND_BYTES = sizeof ".timeindex", SUFFIX_BYTES = sizeof ".deleted" };

/* padded to one size, which is copied whole: calls of strlen cost an append more than the digits do */
static const char kinds[][KIND_BYTES] = { ".log", ".index", ".timeindex", ".txnindex" };
static const uint8_t kind_sizes[] = { sizeof ".log" - 1, sizeof ".index" - 1, sizeof ".timeindex" - 1,
                                      sizeof ".txnindex" - 1 };
static const char suffixes[][SUFFIX_BYTES] = { "", ".deleted", ".cleaned", ".swap" };
_Static_assert(sizeof kinds / sizeof kinds[0] == SGS_FILE_COUNT, "one extension a file");
_Static_assert(sizeof kind_sizes == SGS_FILE_COUNT, "one size a file");
_Static_assert(OFFSET_DIGITS + KIND_BYTES + SUFFIX_BYTES <= SGS_SEGMENT_NAME_BYTES, "the longest name fits");

void sgs_segment_file_name(int64_t base_offset, sgs_segment_file kind, sgs_segment_suffix suffix,
                           char name[SGS_SEGMENT_NAME_BYTES])
{
    SGS_EXPECT(base_offset >= 0);
    SGS_EXPECT((unsigned)kind < SGS_FILE_COUNT);
    SGS_EXPECT((unsigned)suffix < sizeof suffixes / sizeof suffixes[0]);
    uint64_t rest = (uint64_t)base_offset;
    memset(name, '0', OFFSET_DIGITS);
    for (int i = OFFSET_DIGITS - 1; rest > 0; --i) {
        name[i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    memcpy(name + OFFSET_DIGITS, kinds[kind], KIND_BYTES);
    memcpy(name + OFFSET_DIGITS + kind_sizes[kind], suffixes[suffix], SUFFIX_BYTES);
}
