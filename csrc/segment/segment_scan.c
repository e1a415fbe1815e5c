/* segment_scan.c - a segment's batches through a bounded window [DUR-61].
 *
 * The window is small enough to stay in the cache between the copy from the page cache and the CRC over it, and grows only
 * for a batch that is larger. Without the CRC nothing but headers is looked at: those of large batches are read one by one. */
#include <string.h>

#include "segment/log_segment_internal.h"

enum {
    WINDOW_BYTES = 1024 * 1024,
    LARGE_WINDOW_BYTES = 2 * WINDOW_BYTES, /* when batches take a good part of the window; else most of it is moved */
    HEADERS_WINDOW_BYTES = 64 * 1024,      /* of batches that are small */
    LEAP_BYTES = 4096                      /* to copy so much costs more than another call of the system */
};

typedef struct scanner {
    sgs_log_segment *segment;
    sgs_buffer window; /* holds [position, position + window.size) of the file */
    int64_t position;
    int64_t end_position;
    size_t window_bytes;
    bool headers_only;
    bool leaps; /* the last batch reached far beyond the window */
} scanner;

/* Read on, until the window is full or the end is in it; at least `needed` bytes are there afterwards. */
static sgs_status fill_window(scanner *self, size_t needed, sgs_error *err)
{
    SGS_EXPECT(self->position <= self->end_position);
    SGS_EXPECT((int64_t)self->window.size <= self->end_position - self->position);
    if (self->headers_only)
        self->window_bytes = self->leaps ? needed : HEADERS_WINDOW_BYTES;
    else if (needed > self->window_bytes / 2 && self->window_bytes < LARGE_WINDOW_BYTES)
        self->window_bytes = LARGE_WINDOW_BYTES;
    const size_t target = needed > self->window_bytes ? needed : self->window_bytes;
    const int64_t left = self->end_position - self->position;
    const size_t wanted = (uint64_t)left < target ? (size_t)left : target;
    if (wanted <= self->window.size)
        return SGS_OK;
    const size_t more = wanted - self->window.size;
    sgs_status status = sgs_buffer_reserve(&self->window, more, err);
    if (status == SGS_OK)
        status = sgs_segment_read_exactly(self->segment, self->window.data + self->window.size, more,
                                          self->position + (int64_t)self->window.size, err);
    if (status == SGS_OK)
        self->window.size += more;
    SGS_EXPECT(status != SGS_OK || self->window.size >= (needed < (uint64_t)left ? needed : (size_t)left));
    return status;
}

/* Forget what the scan has taken, keep the batch that has begun. */
static void move_window(scanner *self, int64_t position)
{
    SGS_EXPECT(position >= self->position && position <= self->end_position);
    size_t taken = (size_t)(position - self->position);
    self->leaps = taken >= self->window.size + LEAP_BYTES;
    if (taken > self->window.size) {
        SGS_EXPECT(self->headers_only);
        taken = self->window.size;
    }
    self->window.size -= taken;
    if (taken > 0 && self->window.size > 0)
        memmove(self->window.data, self->window.data + taken, self->window.size);
    self->position = position;
}

static sgs_status scan_windows(scanner *self, sgs_batch_scan *scan, sgs_batch_table *table, bool keep_rows,
                               sgs_rows_visitor visit, void *context, sgs_error *err)
{
    size_t needed = 0;
    do {
        sgs_status status = fill_window(self, needed, err);
        if (status != SGS_OK)
            return status;
        const size_t before = table == NULL ? 0 : sgs_batch_table_count(table);
        SGS_EXPECT(scan->result.valid_bytes == self->position);
        status =
            sgs_batch_scan_feed(scan, self->window.data, self->window.size, self->end_position, table, &needed, err);
        if (status == SGS_OK && visit != NULL)
            status = visit(context, sgs_batch_table_rows(table) + before, sgs_batch_table_count(table) - before, err);
        if (status != SGS_OK)
            return status;
        if (table != NULL && !keep_rows)
            sgs_buffer_clear(&table->rows);
        move_window(self, scan->result.valid_bytes);
    } while (needed > 0);
    return SGS_OK;
}

sgs_status sgs_segment_scan_rows(sgs_log_segment *segment, const sgs_scan_options *options, int64_t start_position,
                                 int64_t end_position, sgs_batch_table *table, sgs_rows_visitor visit, void *context,
                                 sgs_scan_result *result, sgs_error *err)
{
    const sgs_memory memory = sgs_env_memory(segment->context->env);
    const int64_t size = sgs_log_segment_size(segment);
    const int64_t end = end_position < 0 ? size : end_position;
    if (start_position < 0 || start_position > end || end > size) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the range [%lld, %lld) is not inside the segment's %lld bytes",
                 (long long)start_position, (long long)end, (long long)size);
        return sgs_segment_fail_in_log(segment, err);
    }
    scanner self = {
        .segment = segment,
        .position = start_position,
        .end_position = end,
        .window_bytes = WINDOW_BYTES,
        .headers_only = !options->check_crc,
    };
    sgs_batch_table own; /* rows of one window, for the visitor alone */
    sgs_batch_scan scan;
    sgs_buffer_init(&self.window, memory);
    sgs_batch_table_init(&own, memory);
    sgs_batch_scan_start(&scan, options, start_position);
    sgs_batch_table *rows = table == NULL && visit != NULL ? &own : table;
    const sgs_status status = scan_windows(&self, &scan, rows, table != NULL, visit, context, err);
    sgs_batch_table_deinit(&own);
    sgs_buffer_deinit(&self.window);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(scan.result.valid_bytes >= start_position && scan.result.valid_bytes <= end);
    if (scan.result.stop == SGS_SCAN_CORRUPT || scan.result.stop == SGS_SCAN_ORDER)
        (void)sgs_segment_fail_in_log(segment, &scan.result.why);
    *result = scan.result;
    return SGS_OK;
}

sgs_status sgs_log_segment_scan(sgs_log_segment *segment, const sgs_scan_options *options, int64_t start_position,
                                int64_t end_position, sgs_batch_table *table, sgs_scan_result *result, sgs_error *err)
{
    return sgs_segment_scan_rows(segment, options, start_position, end_position, table, NULL, NULL, result, err);
}

sgs_status sgs_log_segment_drop_cache(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    int fd;
    const sgs_status status = sgs_segment_descriptor(segment, &fd, err);
    if (status == SGS_OK)
        env->drop_cache(env, fd, 0, 0); /* all of it */
    return status;
}
