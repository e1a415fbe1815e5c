/* small_log_recovery.c - the end of a small log that was not closed; see small_log.h.
 *
 * Nothing is changed before it is known where the log ends [DUR-57]: what lies below the recovery point and cannot be read is
 * damage, and refused; the same above it is the tail, and goes. */
#include <inttypes.h>

#include "small_files.h"
#include "small_log.h"

enum { PIECE_BYTES = 4096 };

/* How the segments of a log end, as a look at them has found it. */
typedef struct log_plan {
    size_t first, end; /* segments that are recovered; those from `end` on are set aside */
    int64_t next_offset;
    int64_t cut_at[SMALL_LOG_SEGMENTS_MAX]; /* its file has more than what is good, which goes; or SGS_CUT_NOWHERE */
    sgs_scan_options how[SMALL_LOG_SEGMENTS_MAX];
} log_plan;

static sgs_status is_zero_from(const small_log *log, const sgs_log_segment *segment, int64_t position, bool *is_zero,
                               sgs_error *err)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    uint8_t piece[PIECE_BYTES];
    size_t got = 1;
    int fd;
    sgs_segment_file_name(sgs_log_segment_base_offset(segment), SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
    SGS_TRY(log->env->open_file(log->env, log->context.directory_fd, name, SGS_OPEN_READ, &fd, err));
    sgs_status status = SGS_OK;
    *is_zero = true;
    while (status == SGS_OK && *is_zero && got > 0) {
        status = log->env->read_at(log->env, fd, name, piece, sizeof piece, position, &got, err);
        for (size_t i = 0; status == SGS_OK && i < got; ++i)
            *is_zero = *is_zero && piece[i] == 0;
        position += (int64_t)got;
    }
    sgs_error ignored;
    (void)log->env->close(log->env, fd, name, &ignored);
    return status;
}

static sgs_scan_options how_to_scan(const small_log *log, int64_t base_offset, int64_t next_offset, int32_t epoch)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_crc = true;
    options.check_order = true;
    options.check_epochs = true;
    options.contiguous = log->contiguous_from >= 0 && base_offset >= log->contiguous_from;
    options.segment_base_offset = base_offset;
    options.expected_offset = next_offset > base_offset ? next_offset : base_offset;
    options.previous_epoch = epoch;
    return options;
}

/* Segments below the recovery point: ends and beginnings fit [DUR-51, DUR-54].
 * @param cut_at  of each: room that was given to it lies behind its records there; a crash undid the trim of the roll */
static sgs_status check_sealed(const small_log *log, size_t end, int64_t *cut_at, sgs_error *err)
{
    for (size_t i = 0; i < end; ++i) {
        int64_t next_offset;
        bool ends_clean, is_padded = false;
        const int64_t following = sgs_log_segment_base_offset(log->segments[i + 1]);
        SGS_TRY(sgs_log_segment_read_next_offset(log->segments[i], &next_offset, &ends_clean, err));
        if (!ends_clean && next_offset == following) {
            sgs_scan_options options;
            sgs_scan_result result;
            sgs_scan_options_default(&options, SGS_SCAN_FILE);
            options.check_crc = true; /* what is cut is no batch, and behind all of them [DUR-51] */
            options.expected_offset = sgs_log_segment_base_offset(log->segments[i]);
            SGS_TRY(sgs_log_segment_scan(log->segments[i], &options, 0, -1, NULL, &result, err));
            SGS_TRY(is_zero_from(log, log->segments[i], result.valid_bytes, &is_padded, err));
            cut_at[i] = result.valid_bytes;
        }
        if (!ends_clean && !is_padded)
            return sgs_fail(err, SGS_CORRUPT_LOG, "segment %zu ends in bytes that are no batch", i);
        const int64_t required = next_offset > log->contiguous_from ? next_offset : log->contiguous_from;
        if (next_offset > following || (log->contiguous_from >= 0 && following > required))
            return sgs_fail(err, SGS_CORRUPT_LOG, "segment %zu ends at %" PRId64 ", the next begins at %" PRId64, i,
                            next_offset, following);
    }
    return SGS_OK;
}

/* Scan up to the end of the log; changes nothing. */
static sgs_status decide(const small_log *log, log_plan *plan, sgs_error *err)
{
    int32_t epoch = -1;
    bool is_over = false;
    plan->next_offset = sgs_log_segment_base_offset(log->segments[plan->first]);
    plan->end = plan->first;
    while (!is_over && plan->end < log->segments_count) {
        const size_t i = plan->end;
        sgs_log_segment *segment = log->segments[i];
        sgs_scan_result result;
        const int64_t base = sgs_log_segment_base_offset(segment);
        const int64_t following = i + 1 < log->segments_count ? sgs_log_segment_base_offset(log->segments[i + 1]) : -1;
        if (i > plan->first && log->contiguous_from >= 0 && base > plan->next_offset && base > log->contiguous_from)
            break; /* what lies behind a gap is not used [DUR-54] */
        plan->how[i] = how_to_scan(log, base, plan->next_offset, epoch);
        SGS_TRY(sgs_log_segment_scan(segment, &plan->how[i], 0, -1, NULL, &result, err));
        const bool is_cut = result.stop != SGS_SCAN_COMPLETE;
        plan->cut_at[i] = is_cut ? result.valid_bytes : SGS_CUT_NOWHERE;
        plan->next_offset = result.next_offset > base ? result.next_offset : base;
        epoch = result.last_epoch;
        is_over = following >= 0 && plan->next_offset > following;
        bool is_padded = false;
        if (is_cut && following == plan->next_offset)
            SGS_TRY(is_zero_from(log, segment, result.valid_bytes, &is_padded, err));
        is_over = is_over || (is_cut && !is_padded);
        ++plan->end;
    }
    if (small_log_lacks_records_from(log, plan->next_offset))
        return sgs_fail(err, SGS_CORRUPT_LOG, "the log ends at %" PRId64 ", records up to %" PRId64 " had been synced",
                        plan->next_offset, log->recovery_point - 1);
    return SGS_OK;
}

/* May be repeated after a crash at any point [DUR-56]. */
static sgs_status act(small_log *log, const log_plan *plan, sgs_error *err)
{
    sgs_recovery recovery;
    for (size_t i = 0; i < plan->first; ++i) {
        sgs_scan_options how = how_to_scan(log, sgs_log_segment_base_offset(log->segments[i]), -1, -1);
        if (plan->cut_at[i] != SGS_CUT_NOWHERE)
            SGS_TRY(sgs_log_segment_recover(log->segments[i], &how, plan->cut_at[i], NULL, &recovery, err));
    }
    const bool has_later = plan->end < log->segments_count;
    while (log->segments_count > plan->end) /* the highest first: what is left is a prefix */
        SGS_TRY(small_log_delete_segment(log->segments[--log->segments_count], err));
    if (has_later)
        SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(RECOVERY_SET_ASIDE), err));
    for (size_t i = plan->first; i < plan->end; ++i) {
        sgs_scan_options how = plan->how[i];
        how.check_crc = plan->cut_at[i] != SGS_CUT_NOWHERE; /* all checksums of a whole one fit */
        SGS_TRY(sgs_log_segment_recover(log->segments[i], &how, plan->cut_at[i], NULL, &recovery, err));
    }
    return SGS_OK;
}

/* A power cut takes nothing of what this open shows; it is written again before the first change, behind a sync that failed
 * at once [DUR-36]. */
static sgs_status bring_to_disk(small_log *log, size_t first, sgs_error *err)
{
    const int64_t point = log->recovery_point < 0 || log->is_marked ? 0 : log->recovery_point;
    first = log->is_marked ? 0 : first;
    log->is_settled = true;
    for (size_t i = first; i < log->segments_count; ++i) {
        int32_t position;
        SGS_TRY(small_log_position_of(log->segments[i], point, &position, err));
        if (position < sgs_log_segment_size(log->segments[i]) && log->is_marked)
            SGS_TRY(sgs_log_segment_rewrite(log->segments[i], position, err));
        else if (position < sgs_log_segment_size(log->segments[i]))
            log->is_settled = false;
    }
    for (size_t i = first; i < log->segments_count; ++i)
        SGS_TRY(sgs_log_segment_flush(log->segments[i], true, SGS_BARRIER(RECOVERY_RECORDS), err));
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(RECOVERY_NAMES), err));
    if (!log->is_marked)
        return SGS_OK;
    log->is_marked = false;
    return small_file_remove(log->env, log->context.directory_fd, SGS_SYNC_FAILED_MARK, NULL, err);
}

sgs_status small_log_recover(small_log *log, sgs_error *err)
{
    log_plan plan = { .first = small_log_floor(log, small_log_safe_below(log)) };
    for (size_t i = 0; i < SMALL_LOG_SEGMENTS_MAX; ++i)
        plan.cut_at[i] = SGS_CUT_NOWHERE;
    SGS_TRY(check_sealed(log, plan.first, plan.cut_at, err));
    SGS_TRY(decide(log, &plan, err));
    SGS_TRY(act(log, &plan, err));
    SGS_TRY(bring_to_disk(log, plan.first, err));
    log->log_end = plan.next_offset;
    return SGS_OK;
}
