/* The names in a partition directory, which anybody may have made: whatever they are, each is a file of a segment or kept as
 * it is, and the rows ascend. [DUR-98]
 * INPUT   names, each with its NUL.   ORACLE  the name that the library writes for what was parsed. */
#include "segment/segment_listing.h"

#include <string.h>

#include "fuzz/fuzz_input.h"

static const char *extension_of(int kind)
{
    static const char *const extensions[] = { ".log", ".index", ".timeindex", ".txnindex", ".snapshot" };
    return extensions[kind];
}

/* What was parsed is written again as it stood there; a name that is not parsed is not one that could be written. */
static void check_name(const char *name)
{
    int64_t base_offset = -1;
    int kind = -1;
    const bool parsed = sgs_segment_parse_name(name, &base_offset, &kind);
    char written[SGS_SEGMENT_NAME_BYTES];
    if (!parsed) {
        FUZZ_CHECK(base_offset == -1 && kind == -1);
        return;
    }
    FUZZ_CHECK(base_offset >= 0 && kind >= 0 && kind < SGS_LISTED_KINDS);
    sgs_segment_file_name(base_offset, SGS_FILE_LOG, SGS_SUFFIX_NONE, written);
    memcpy(strchr(written, '.'), extension_of(kind), strlen(extension_of(kind)) + 1);
    FUZZ_CHECK(strcmp(written, name) == 0);
}

static size_t rows_with(const sgs_segment_listing *listing, int64_t *bits)
{
    size_t count;
    const sgs_listed_segment *rows = sgs_segment_listing_rows(listing, &count);
    for (size_t i = 0; i < count; ++i) {
        FUZZ_CHECK(rows[i].base_offset >= 0 && rows[i].kinds > 0 && rows[i].kinds < 1U << SGS_LISTED_KINDS);
        FUZZ_CHECK(i == 0 || rows[i - 1].base_offset < rows[i].base_offset);
        for (int kind = 0; kind < SGS_LISTED_KINDS; ++kind)
            *bits += rows[i].kinds >> kind & 1;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sgs_segment_listing listing;
    sgs_error err;
    int64_t parsed = 0;
    size_t others = 0;
    sgs_segment_listing_init(&listing, sgs_env_memory(sgs_env_posix()));
    for (size_t at = 0; at < size;) {
        const uint8_t *const end = memchr(data + at, 0, size - at);
        if (end == NULL)
            break; /* a name always has its NUL */
        const char *const name = (const char *)data + at;
        int64_t base_offset;
        int kind;
        check_name(name);
        FUZZ_CHECK(sgs_segment_listing_add(&listing, name, &err) == SGS_OK);
        if (sgs_segment_parse_name(name, &base_offset, &kind))
            ++parsed;
        else
            others += strlen(name) + 1;
        at = (size_t)(end - data) + 1;
    }
    FUZZ_CHECK(sgs_segment_listing_sort(&listing, &err) == SGS_OK);
    int64_t bits = 0;
    FUZZ_CHECK((rows_with(&listing, &bits) == 0) == (parsed == 0));
    FUZZ_CHECK(bits <= parsed && listing.others.size == others);
    sgs_segment_listing_deinit(&listing);
    return 0;
}
