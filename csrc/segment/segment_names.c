/* segment_names.c - file names of a segment [format.md 16.1]. Made for every call that needs one, so it has to be quick. */
#include <string.h>

#include "segment/log_segment.h"

enum { OFFSET_DIGITS = 20 };

static const char *const kinds[] = { ".log", ".index", ".timeindex", ".txnindex" };
static const char *const suffixes[] = { "", ".deleted", ".cleaned", ".swap" };
_Static_assert(sizeof kinds / sizeof kinds[0] == SGS_FILE_COUNT, "one extension a file");
_Static_assert(OFFSET_DIGITS + sizeof ".timeindex" + sizeof ".deleted" <= SGS_SEGMENT_NAME_BYTES,
               "the longest name fits");

void sgs_segment_file_name(int64_t base_offset, sgs_segment_file kind, sgs_segment_suffix suffix,
                           char name[SGS_SEGMENT_NAME_BYTES])
{
    SGS_EXPECT(base_offset >= 0);
    uint64_t rest = (uint64_t)base_offset;
    memset(name, '0', OFFSET_DIGITS);
    for (int i = OFFSET_DIGITS - 1; rest > 0; --i) {
        name[i] = (char)('0' + rest % 10);
        rest /= 10;
    }
    const size_t kind_size = strlen(kinds[kind]);
    memcpy(name + OFFSET_DIGITS, kinds[kind], kind_size);
    memcpy(name + OFFSET_DIGITS + kind_size, suffixes[suffix], strlen(suffixes[suffix]) + 1);
}
