/* segment_listing.c - one pass over the names of a partition directory, and one over the sizes of its .log files. */
#include "segment/segment_listing.h"

#include <inttypes.h>
#include <string.h>

#include "segment/log_segment_internal.h"

enum {
    OFFSET_DIGITS = 20,
    DIGIT_VALUES = 256, /* of the sort: a byte at a time */
    BITS_OF_DIGIT = 8,
};

static const char *const extensions[SGS_LISTED_KINDS] = { "log", "index", "timeindex", "txnindex", "snapshot" };

/* ---- names ---- */

static bool parse_offset(const char *name, int64_t *offset)
{
    uint64_t value = 0;
    for (int i = 0; i < OFFSET_DIGITS; ++i) {
        const unsigned digit = (unsigned)(unsigned char)name[i] - '0'; /* a NUL, too, is none */
        if (digit > 9 || value > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *offset = (int64_t)value;
    return true;
}

bool sgs_segment_parse_name(const char *name, int64_t *base_offset, int *kind)
{
    int64_t offset;
    if (!parse_offset(name, &offset) || name[OFFSET_DIGITS] != '.')
        return false;
    for (int i = 0; i < SGS_LISTED_KINDS; ++i) {
        if (strcmp(name + OFFSET_DIGITS + 1, extensions[i]) == 0) {
            *base_offset = offset;
            *kind = i;
            return true;
        }
    }
    return false;
}

/* ---- a directory ---- */

void sgs_segment_listing_init(sgs_segment_listing *listing, sgs_memory memory)
{
    sgs_buffer_init(&listing->rows, memory);
    sgs_buffer_init(&listing->others, memory);
}

void sgs_segment_listing_deinit(sgs_segment_listing *listing)
{
    sgs_buffer_deinit(&listing->rows);
    sgs_buffer_deinit(&listing->others);
}

const sgs_listed_segment *sgs_segment_listing_rows(const sgs_segment_listing *listing, size_t *count)
{
    SGS_EXPECT(listing->rows.size % sizeof(sgs_listed_segment) == 0);
    *count = listing->rows.size / sizeof(sgs_listed_segment);
    return (const sgs_listed_segment *)(const void *)listing->rows.data;
}

sgs_status sgs_segment_listing_add(sgs_segment_listing *listing, const char *name, sgs_error *err)
{
    int64_t base_offset;
    int kind;
    if (!sgs_segment_parse_name(name, &base_offset, &kind))
        return sgs_buffer_append(&listing->others, name, strlen(name) + 1, err);
    sgs_listed_segment row;
    memset(&row, 0, sizeof row); /* the bytes between the fields too: rows are copied as they are */
    row.base_offset = base_offset;
    SGS_EXPECT(base_offset >= 0 && kind >= 0 && kind < SGS_LISTED_KINDS);
    row.kinds = 1U << kind;
    return sgs_buffer_append(&listing->rows, &row, sizeof row, err);
}

static sgs_status take_name(void *context, const char *name, sgs_error *err)
{
    return sgs_segment_listing_add(context, name, err);
}

static unsigned digit_of(const sgs_listed_segment *row, unsigned shift)
{
    return (unsigned)((uint64_t)row->base_offset >> shift) % DIGIT_VALUES;
}

/* One stable pass of a radix sort. */
static void distribute(const sgs_listed_segment *from, sgs_listed_segment *to, size_t count, unsigned shift)
{
    size_t starts[DIGIT_VALUES] = { 0 };
    for (size_t i = 0; i < count; ++i)
        ++starts[digit_of(&from[i], shift)];
    size_t before = 0;
    for (int value = 0; value < DIGIT_VALUES; ++value) {
        const size_t of_value = starts[value];
        starts[value] = before;
        before += of_value;
    }
    SGS_EXPECT(before == count);
    for (size_t i = 0; i < count; ++i)
        to[starts[digit_of(&from[i], shift)]++] = from[i];
}

/* A directory gives its names in no order. Bytes in which no two offsets differ, most of them, are left out. */
static void sort_rows(sgs_listed_segment *rows, sgs_listed_segment *scratch, size_t count)
{
    uint64_t differing = 0;
    for (size_t i = 1; i < count; ++i)
        differing |= (uint64_t)rows[i].base_offset ^ (uint64_t)rows[0].base_offset;
    sgs_listed_segment *from = rows;
    sgs_listed_segment *to = scratch;
    for (unsigned shift = 0; shift < 64; shift += BITS_OF_DIGIT) {
        if ((differing >> shift) % DIGIT_VALUES == 0)
            continue;
        distribute(from, to, count, shift);
        sgs_listed_segment *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != rows)
        memcpy(rows, from, count * sizeof *rows);
}

static size_t merge_equal(sgs_listed_segment *rows, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
        SGS_EXPECT(kept == 0 || rows[kept - 1].base_offset <= rows[i].base_offset); /* sorted */
        if (kept > 0 && rows[kept - 1].base_offset == rows[i].base_offset)
            rows[kept - 1].kinds |= rows[i].kinds;
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

sgs_status sgs_segment_listing_sort(sgs_segment_listing *listing, sgs_error *err)
{
    sgs_buffer *rows = &listing->rows;
    const sgs_status status = sgs_buffer_reserve(rows, rows->size, err); /* as much again, to sort */
    if (status != SGS_OK || rows->size == 0)
        return status;
    sgs_listed_segment *first = (sgs_listed_segment *)(void *)rows->data;
    const size_t count = rows->size / sizeof *first;
    SGS_EXPECT(rows->capacity >= 2 * count * sizeof *first);
    sort_rows(first, first + count, count);
    rows->size = merge_equal(first, count) * sizeof *first;
    return SGS_OK;
}

sgs_status sgs_segment_listing_read(sgs_segment_listing *listing, const sgs_env *env, int directory_fd, sgs_error *err)
{
    sgs_buffer_clear(&listing->rows);
    sgs_buffer_clear(&listing->others);
    const sgs_status status = env->list_directory(env, directory_fd, &take_name, listing, err);
    return status == SGS_OK ? sgs_segment_listing_sort(listing, err) : status;
}

/* ---- is there a segment at all ---- */

static sgs_status look_for_log(void *context, const char *name, sgs_error *err)
{
    bool *has_log = context;
    int64_t base_offset;
    int kind;
    if (!sgs_segment_parse_name(name, &base_offset, &kind) || kind != SGS_FILE_LOG)
        return SGS_OK;
    *has_log = true;
    return sgs_fail(err, SGS_ALREADY_EXISTS, "found"); /* ends the listing */
}

sgs_status sgs_segment_listing_has_log(const sgs_env *env, int directory_fd, bool *has_log, sgs_error *err)
{
    *has_log = false;
    const sgs_status status = env->list_directory(env, directory_fd, &look_for_log, has_log, err);
    return *has_log ? SGS_OK : status;
}

/* ---- sizes ---- */

sgs_status sgs_segment_log_sizes(const sgs_env *env, int directory_fd, const int64_t *base_offsets, size_t count,
                                 int32_t *sizes, sgs_error *err)
{
    for (size_t i = 0; i < count; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        if (base_offsets[i] < 0)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "base offset %" PRId64 " is negative", base_offsets[i]);
        sgs_segment_file_name(base_offsets[i], SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
        const sgs_status status = sgs_segment_log_size(env, directory_fd, name, &sizes[i], err);
        if (status == SGS_NOT_FOUND)
            sizes[i] = -1;
        else if (status != SGS_OK)
            return sgs_fail_in_file(err, name);
    }
    return SGS_OK;
}
