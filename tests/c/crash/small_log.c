/* small_log.c - the changes of a small log; see small_log.h. */
#include "small_log.h"

#include "record/record_batch.h"
#include "small_files.h"

size_t small_log_floor(const small_log *log, int64_t offset)
{
    size_t found = 0;
    for (size_t i = 1; i < log->segments_count; ++i)
        if (sgs_log_segment_base_offset(log->segments[i]) <= offset)
            found = i;
    return found;
}

sgs_status small_log_position_of(sgs_log_segment *segment, int64_t offset, int32_t *position, sgs_error *err)
{
    sgs_segment_fetch batch;
    *position = 0;
    if (offset <= sgs_log_segment_base_offset(segment))
        return SGS_OK;
    SGS_TRY(sgs_log_segment_translate_offset(segment, offset, 0, -1, &batch, err));
    *position = batch.found ? batch.position : sgs_log_segment_size(segment);
    return SGS_OK;
}

sgs_status small_log_sync_directory(const small_log *log, sgs_barrier barrier, sgs_error *err)
{
    return log->env->sync_directory(log->env, log->context.directory_fd, barrier, err);
}

static sgs_status sync_names(small_log *log, sgs_error *err)
{
    if (!log->has_new_names)
        return SGS_OK;
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(APPENDED_NAMES), err));
    log->has_new_names = false;
    return SGS_OK;
}

static sgs_status write_number(const small_log *log, const small_file *file, int64_t number, sgs_error *err)
{
    return small_file_write(log->env, log->context.directory_fd, file, number, err);
}

/* ---- to disk ---- */

/* Segments from `begin` up to `end`, in ascending order [DUR-13]. */
static sgs_status sync_segments(small_log *log, int64_t begin, int64_t end, sgs_barrier barrier, sgs_error *err)
{
    for (size_t i = small_log_floor(log, begin); i < log->segments_count; ++i) {
        if (sgs_log_segment_base_offset(log->segments[i]) >= end && i > 0)
            break;
        SGS_TRY(sgs_log_segment_flush(log->segments[i], i + 1 < log->segments_count, barrier, err));
    }
    return sync_names(log, err);
}

static sgs_status write_recovery_point(small_log *log, sgs_error *err)
{
    const int64_t point = log->durable == log->hole_end ? log->hole_start : log->durable;
    if (point <= log->recovery_point)
        return SGS_OK;
    SGS_TRY(sync_names(log, err)); /* an empty segment may be all that says where the log ends */
    SGS_TRY(write_number(log, &small_recovery_point, point, err));
    log->recovery_point = point;
    return SGS_OK;
}

/* Nothing of a roll that failed stays behind, nor comes back beside what is appended to the segment before it [DUR-30]. */
static sgs_status undo_roll(small_log *log, sgs_error *err)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    if (log->rolling_to < 0)
        return SGS_OK;
    sgs_segment_file_name(log->rolling_to, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
    SGS_TRY(small_file_remove(log->env, log->context.directory_fd, name, NULL, err));
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(ROLL_UNDONE), err));
    log->rolling_to = -1;
    return SGS_OK;
}

/* Write again what an unclean stop left: a clean page may not be on the disk [DUR-36]. */
static sgs_status settle(small_log *log, sgs_error *err)
{
    if (log->is_poisoned)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "an append that failed could not be taken back");
    SGS_TRY(undo_roll(log, err));
    if (log->is_settled)
        return SGS_OK;
    const int64_t point = log->recovery_point < 0 ? 0 : log->recovery_point;
    for (size_t i = small_log_floor(log, point); i < log->segments_count; ++i) {
        int32_t position;
        SGS_TRY(small_log_position_of(log->segments[i], point, &position, err));
        if (position < sgs_log_segment_size(log->segments[i]))
            SGS_TRY(sgs_log_segment_rewrite(log->segments[i], position, err));
        SGS_TRY(sgs_log_segment_flush(log->segments[i], true, SGS_BARRIER(RECOVERY_RECORDS), err));
    }
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(RECOVERY_NAMES), err));
    log->durable = log->log_end;
    log->is_settled = true;
    return write_recovery_point(log, err);
}

sgs_status small_log_flush(small_log *log, sgs_error *err)
{
    SGS_TRY(settle(log, err));
    if (log->durable < log->log_end)
        SGS_TRY(sync_segments(log, log->durable, INT64_MAX, SGS_BARRIER(APPENDED_RECORDS), err));
    log->durable = log->log_end;
    return sync_names(log, err);
}

static sgs_status unlink_doomed(small_log *log, sgs_error *err)
{
    while (log->doomed_count > 0) {
        sgs_log_segment *segment = log->doomed[--log->doomed_count];
        const sgs_status status = sgs_log_segment_delete_files(segment, err);
        sgs_log_segment_close_quietly(segment);
        SGS_TRY(status);
    }
    return SGS_OK;
}

sgs_status small_log_background(small_log *log, sgs_error *err)
{
    SGS_TRY(settle(log, err));
    const int64_t sealed_end = sgs_log_segment_base_offset(small_log_active(log));
    if (sealed_end > log->durable) {
        SGS_TRY(sync_segments(log, log->durable, sealed_end, SGS_BARRIER(APPENDED_RECORDS), err));
        log->durable = sealed_end;
    }
    SGS_TRY(write_recovery_point(log, err));
    return unlink_doomed(log, err);
}

/* ---- append and roll ---- */

sgs_status small_log_create_segment(small_log *log, int64_t base_offset, sgs_log_segment **created, sgs_error *err)
{
    static const sgs_segment_file kinds[] = { SGS_FILE_INDEX, SGS_FILE_TIMEINDEX, SGS_FILE_TXNINDEX };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_file_name(base_offset, kinds[i], SGS_SUFFIX_NONE, name);
        SGS_TRY(small_file_remove(log->env, log->context.directory_fd, name, NULL, err));
    }
    log->has_new_names = true;
    return sgs_log_segment_open(&log->context, base_offset, SGS_SUFFIX_NONE, true, created, err);
}

static sgs_status roll(small_log *log, sgs_error *err)
{
    sgs_log_segment *sealed = small_log_active(log), *created;
    if (sgs_log_segment_base_offset(sealed) == log->log_end) /* empty, and begins there already */
        return sgs_log_segment_prepare_for_appends(sealed, err);
    if (log->segments_count == SMALL_LOG_SEGMENTS_MAX)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "too many segments for a small log");
    log->rolling_to = log->log_end;
    SGS_TRY(small_log_create_segment(log, log->log_end, &created, err));
    log->rolling_to = -1;
    log->segments[log->segments_count++] = created;
    return sgs_log_segment_on_become_inactive(sealed, err);
}

sgs_status small_log_roll(small_log *log, sgs_error *err)
{
    SGS_TRY(settle(log, err));
    return roll(log, err);
}

sgs_status small_log_append(small_log *log, const uint8_t *batch, size_t size, sgs_error *err)
{
    sgs_batch_header row;
    bool is_full;
    const sgs_slice slice = { batch, size };
    SGS_TRY(settle(log, err));
    SGS_TRY(sgs_batch_header_load(batch, size, 0, &row, err));
    SGS_TRY(sgs_log_segment_indexes_full(small_log_active(log), &is_full, err));
    const int32_t present = sgs_log_segment_size(small_log_active(log));
    if (present > 0 && (is_full || (size_t)present + size > log->settings->segment_bytes))
        SGS_TRY(roll(log, err));
    SGS_TRY(sgs_log_segment_append(small_log_active(log), &slice, 1, &row, 1, &log->is_poisoned, err));
    log->log_end = row.last_offset + 1;
    return log->settings->sync ? small_log_flush(log, err) : SGS_OK;
}

/* ---- truncate and delete ---- */

static void forget(small_log *log, size_t at)
{
    --log->segments_count;
    for (size_t i = at; i < log->segments_count; ++i)
        log->segments[i] = log->segments[i + 1];
}

/* Out of the log, and of its names: the segments [first, end), the highest or the lowest first. */
static sgs_status take_out(small_log *log, size_t first, size_t end, bool highest_first, sgs_barrier barrier,
                           sgs_error *err)
{
    /* The renames may reach the disk in any order: where no recovery would see that one in the midst is missing, each waits
     * for the one before. */
    const bool one_by_one = highest_first && first > 0 && first < end &&
                            sgs_log_segment_base_offset(log->segments[first]) < log->contiguous_from;
    for (size_t i = first; i < end; ++i) {
        const size_t at = highest_first ? first + end - 1 - i : first;
        sgs_log_segment *segment = log->segments[at];
        if (one_by_one && i > first)
            SGS_TRY(small_log_sync_directory(log, barrier, err));
        if (log->doomed_count == SMALL_LOG_SEGMENTS_MAX)
            return sgs_fail(err, SGS_LIMIT_EXCEEDED, "too many segments for a small log");
        SGS_TRY(sgs_log_segment_change_suffix(segment, SGS_SUFFIX_DELETED, err));
        log->doomed[log->doomed_count++] = segment;
        forget(log, at);
    }
    return end > first ? small_log_sync_directory(log, barrier, err) : SGS_OK;
}

static sgs_status lower_recovery_point(small_log *log, int64_t offset, sgs_error *err)
{
    if (log->recovery_point > offset) {
        SGS_TRY(write_number(log, &small_recovery_point, offset, err));
        log->recovery_point = offset;
    }
    if (log->durable > offset)
        log->durable = offset;
    return SGS_OK;
}

static sgs_status write_contiguous_from(small_log *log, int64_t offset, sgs_error *err)
{
    if (offset == log->contiguous_from)
        return SGS_OK;
    SGS_TRY(write_number(log, &small_contiguous_from, offset, err));
    log->contiguous_from = offset;
    return SGS_OK;
}

/* The next offset of the records that a truncation leaves: below `offset` where that lies inside a batch. */
static sgs_status end_of_data_below(const small_log *log, int64_t offset, int64_t *end, sgs_error *err)
{
    sgs_log_segment *segment = log->segments[small_log_floor(log, offset)];
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_segment_fetch cut;
    bool ends_clean;
    SGS_TRY(sgs_log_segment_translate_offset(segment, offset, 0, -1, &cut, err));
    if (!cut.found)
        return sgs_log_segment_read_next_offset(segment, end, &ends_clean, err);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_crc = false;
    options.expected_offset = sgs_log_segment_base_offset(segment);
    SGS_TRY(sgs_log_segment_scan(segment, &options, 0, cut.position, NULL, &result, err));
    *end = result.next_offset;
    return SGS_OK;
}

sgs_status small_log_truncate_to(small_log *log, int64_t offset, sgs_error *err)
{
    int64_t kept_end;
    int32_t bytes_cut;
    if (offset >= log->log_end)
        return SGS_OK;
    if (offset < sgs_log_segment_base_offset(log->segments[0]))
        return small_log_truncate_fully(log, offset, err);
    SGS_TRY(settle(log, err));
    SGS_TRY(end_of_data_below(log, offset, &kept_end, err));
    if (log->durable < offset)
        SGS_TRY(sync_segments(log, log->durable, offset, SGS_BARRIER(TRUNCATION_KEEPS), err));
    SGS_TRY(lower_recovery_point(log, offset < kept_end ? offset : kept_end, err)); /* [DUR-16] in this order */
    if (kept_end != offset && offset > log->contiguous_from)
        SGS_TRY(write_contiguous_from(log, offset, err));
    const bool goes_back = offset < log->log_start;
    if (goes_back)
        SGS_TRY(small_file_prepare(log->env, log->context.directory_fd, &small_log_start, offset, err));
    log->hole_start = kept_end;
    log->hole_end = offset;
    const size_t first_removed = small_log_floor(log, offset) + 1, end = log->segments_count;
    SGS_TRY(take_out(log, first_removed, end, true, SGS_BARRIER(TRUNCATION_NAMES), err));
    SGS_TRY(sgs_log_segment_truncate_to(small_log_active(log), offset, &bytes_cut, err));
    if (goes_back) {
        SGS_TRY(small_file_put(log->env, log->context.directory_fd, &small_log_start, err));
        log->log_start = offset;
    }
    log->log_end = log->durable = offset;
    if (offset < log->contiguous_from) /* holes above it are none any more */
        SGS_TRY(write_contiguous_from(log, offset, err));
    return SGS_OK;
}

sgs_status small_log_truncate_fully(small_log *log, int64_t offset, sgs_error *err)
{
    sgs_log_segment *created;
    const int fd = log->context.directory_fd;
    const bool goes_back = offset < log->log_start;
    SGS_TRY(settle(log, err));
    SGS_TRY(lower_recovery_point(log, goes_back ? offset : log->log_start, err));
    SGS_TRY(write_number(log, &small_emptied_at, offset, err)); /* a crash leaves no .log, and that is no loss then */
    if (offset < log->contiguous_from)
        SGS_TRY(write_contiguous_from(log, offset, err));
    SGS_TRY(small_file_prepare(log->env, fd, &small_log_start, offset, err));
    if (!goes_back)
        SGS_TRY(small_file_put(log->env, fd, &small_log_start, err));
    const size_t count = log->segments_count;
    SGS_TRY(take_out(log, 1, count, true, SGS_BARRIER(EMPTYING_HIGHER),
                     err)); /* while the first is there, what is left up to a gap is a prefix */
    SGS_TRY(take_out(log, 0, 1, true, SGS_BARRIER(EMPTYING_FIRST), err));
    SGS_TRY(small_log_create_segment(log, offset, &created, err));
    log->segments[log->segments_count++] = created;
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(EMPTYING_CREATED), err));
    log->has_new_names = false;
    if (goes_back) /* not before the files are gone: deleted records would come back [DUR-5] */
        SGS_TRY(small_file_put(log->env, fd, &small_log_start, err));
    log->log_start = log->log_end = log->durable = offset;
    SGS_TRY(small_file_remove(log->env, fd, small_emptied_at.name, NULL, err));
    return small_log_sync_directory(log, SGS_BARRIER(LOG_STATE_NAME), err);
}

sgs_status small_log_delete_records(small_log *log, int64_t before_offset, sgs_error *err)
{
    size_t count = 0;
    if (before_offset > log->log_start) {
        SGS_TRY(settle(log, err));
        SGS_TRY(write_number(log, &small_log_start, before_offset, err)); /* [DUR-19] */
        log->log_start = before_offset;
    }
    while (count + 1 < log->segments_count && sgs_log_segment_base_offset(log->segments[count + 1]) <= log->log_start)
        ++count;
    if (count > 0) /* after a crash there is the one behind them */
        SGS_TRY(sync_names(log, err));
    return take_out(log, 0, count, false, SGS_BARRIER(DELETION_NAMES), err);
}

/* ---- the end ---- */

void small_log_abandon(small_log *log)
{
    sgs_error ignored;
    for (size_t i = 0; i < log->segments_count; ++i)
        sgs_log_segment_close_quietly(log->segments[i]);
    for (size_t i = 0; i < log->doomed_count; ++i)
        sgs_log_segment_close_quietly(log->doomed[i]);
    log->segments_count = log->doomed_count = 0;
    (void)log->env->close(log->env, log->context.directory_fd, "log", &ignored);
}

/* [DUR-24] the mark comes last, when every step before it has succeeded */
static sgs_status close_cleanly(small_log *log, sgs_error *err)
{
    int64_t data_end;
    bool ends_clean;
    sgs_log_segment *active = small_log_active(log);
    SGS_TRY(small_log_flush(log, err));
    SGS_TRY(sgs_log_segment_on_become_inactive(active, err));
    SGS_TRY(sgs_log_segment_flush(active, true, SGS_BARRIER(CLOSED_RECORDS), err));
    SGS_TRY(sgs_log_segment_read_next_offset(active, &data_end, &ends_clean, err));
    while (log->segments_count > 0)
        SGS_TRY(sgs_log_segment_close(log->segments[--log->segments_count], err));
    SGS_TRY(unlink_doomed(log, err));
    if (log->recovery_point != data_end)
        SGS_TRY(write_number(log, &small_recovery_point, data_end, err));
    SGS_TRY(write_number(log, &small_log_start, log->log_start, err));
    return write_number(log, &small_clean_end, data_end, err);
}

sgs_status small_log_close(small_log *log, sgs_error *err)
{
    const sgs_status status = close_cleanly(log, err);
    small_log_abandon(log);
    return status;
}
