/* A target with four faults, which a pipeline must see: otherwise it sees nothing at all. tests/c/check_canary.sh
 * expects each input but `harmless` to kill it, and a mutation of `harmless` to do so too.
 * INPUT  a word, anything behind it.   ORACLE  none: it must die. */
#include <string.h>

#include "fuzz/fuzz_input.h"
#include "segment/log_segment.h"

static volatile int sink;

static int starts_with(const uint8_t *data, size_t size, const char *word)
{
    return size >= strlen(word) && memcmp(data, word, strlen(word)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (starts_with(data, size, "overread"))
        sink = data[size + (size_t)sink]; /* for ASan: the byte behind the input */
    if (starts_with(data, size, "overflow"))
        sink = INT32_MAX - (int)size + sink + (int)size + (int)size; /* for UBSan */
    if (starts_with(data, size, "assertion")) { /* for the assertions of the core: without them this does no harm */
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_file_name(-1 - (int64_t)sink, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
    }
    sink = 0;
    if (size >= 4 &&
        data[0] == 'f') /* one change after the other away from `harmless`, so that coverage finds the way */
        if (data[1] == 'a')
            FUZZ_CHECK(data[2] != 'l' || data[3] != 'l');
    return 0;
}
