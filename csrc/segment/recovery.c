/* recovery.c - one pass over a segment after an unclean stop [SEG-40, format.md 9.3].
 *
 * Everything is computed before anything is written [DUR-57]: rows, index entries and the place of the cut come out of the
 * scan; then the .log is cut and synced [DUR-17], then the indexes are written. A crash in between leaves work that the next
 * recovery does again, with the same result [DUR-56]. */
#include <inttypes.h>

#include "segment/log_segment_internal.h"

sgs_status sgs_segment_cut_tail(sgs_log_segment *segment, int32_t valid_bytes, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    int fd;
    sgs_status status = sgs_segment_descriptor(segment, &fd, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(valid_bytes >= 0 && valid_bytes < sgs_log_segment_size(segment));
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    sgs_segment_begin_cut(segment);
    status = env->truncate(env, fd, name, valid_bytes, err);
    if (status == SGS_OK) {
        atomic_store_explicit(&segment->size, valid_bytes, memory_order_release);
        sgs_segment_forget_headers(segment);
        segment->next_offset = SGS_NEXT_OFFSET_UNKNOWN;
        if (valid_bytes == 0)
            atomic_store_explicit(&segment->first_batch_timestamp, INT64_MIN, memory_order_relaxed);
    }
    sgs_segment_end_cut(segment);
    return status != SGS_OK ? status : sgs_segment_sync_cut(segment, fd, name, SGS_BARRIER(RECOVERY_CUT), err);
}

static sgs_status write_results(sgs_log_segment *segment, const sgs_index_builder *builder, sgs_recovery *recovery,
                                sgs_error *err)
{
    const int32_t size = sgs_log_segment_size(segment);
    const int32_t valid_bytes = (int32_t)recovery->scan.valid_bytes;
    SGS_EXPECT(recovery->scan.valid_bytes >= 0 && recovery->scan.valid_bytes <= size);
    if (valid_bytes < size) {
        const sgs_status status = sgs_segment_cut_tail(segment, valid_bytes, err);
        if (status != SGS_OK)
            return status;
        recovery->truncated_bytes = size - valid_bytes;
    }
    SGS_EXPECT(sgs_log_segment_size(segment) == valid_bytes); /* entries are written behind the cut [DUR-57] */
    sgs_error ignored; /* derived files never decide whether data is kept [DUR-8, DUR-57]; seal or close tries again */
    recovery->indexes_written = sgs_index_builder_write(builder, segment, &ignored) == SGS_OK;
    sgs_segment_set_max_timestamp(segment, builder->max_timestamp);
    return SGS_OK;
}

sgs_status sgs_log_segment_recover(sgs_log_segment *segment, const sgs_scan_options *options, int64_t cut_at,
                                   sgs_batch_table *table, sgs_recovery *recovery, sgs_error *err)
{
    sgs_index_builder builder;
    sgs_recovery found = { .truncated_bytes = 0 };
    sgs_index_builder_init(&builder, segment);
    sgs_status status = sgs_index_builder_scan(&builder, segment, options, table, &found.scan, err);
    const bool whole = found.scan.stop == SGS_SCAN_COMPLETE;
    const bool is_where = cut_at == SGS_CUT_ANYWHERE || cut_at == found.scan.valid_bytes;
    const bool may_write = whole || (is_where && found.scan.stop != SGS_SCAN_LIMIT);
    if (status == SGS_OK && may_write && segment->context->writable) {
        status = sgs_segment_check_writable(segment, err);
        if (status == SGS_OK)
            status = write_results(segment, &builder, &found, err);
    }
    SGS_EXPECT(status != SGS_OK || may_write || found.truncated_bytes == 0);
    SGS_EXPECT(found.truncated_bytes >= 0);
    sgs_index_builder_deinit(&builder);
    if (status == SGS_OK)
        *recovery = found;
    return status;
}

sgs_status sgs_log_segment_rewrite(sgs_log_segment *segment, int64_t position, sgs_error *err)
{
    enum { WINDOW_BYTES = 1024 * 1024 };
    const sgs_env *env = segment->context->env;
    const int64_t size = sgs_log_segment_size(segment);
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_buffer window;
    int fd;
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK && (position < 0 || position > size)) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "position %" PRId64 " is not inside %" PRId64 " bytes", position, size);
        status = sgs_segment_fail_in_log(segment, err);
    }
    if (status == SGS_OK)
        status = sgs_segment_descriptor(segment, &fd, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    sgs_buffer_init(&window, sgs_env_memory(env));
    status = sgs_buffer_reserve(&window, WINDOW_BYTES, err);
    for (int64_t at = position; status == SGS_OK && at < size; at += WINDOW_BYTES) {
        const size_t part = (size_t)(size - at < WINDOW_BYTES ? size - at : WINDOW_BYTES);
        int64_t written = 0;
        status = sgs_segment_read_exactly(segment, window.data, part, at, err);
        const sgs_slice slice = { .data = window.data, .size = part };
        if (status == SGS_OK)
            status = env->write_at(env, fd, name, &slice, 1, at, &written, err);
        SGS_EXPECT(status != SGS_OK || written == (int64_t)part);
    }
    sgs_buffer_deinit(&window);
    return status == SGS_OK ? sgs_log_segment_flush(segment, false, SGS_BARRIER(RECOVERY_RECORDS), err) : status;
}
