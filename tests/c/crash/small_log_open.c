/* small_log_open.c - from what a crash left to a small log; see small_log.h.
 *
 * First what was half done is finished or undone, then the log is read to its end, unless it was closed. */
#include <inttypes.h>
#include <string.h>

#include "segment/segment_listing.h"
#include "small_files.h"
#include "small_log.h"

/* ---- the directory ---- */

static sgs_status open_directory(small_log *log, sgs_error *err)
{
    const sgs_env *env = log->env;
    int *fd = &log->context.directory_fd, root;
    sgs_status status = env->open_directory(env, SGS_CWD, "log", fd, err);
    if (status != SGS_NOT_FOUND)
        return status;
    SGS_TRY(env->make_directory(env, SGS_CWD, "log", err));
    SGS_TRY(env->open_directory(env, SGS_CWD, "/", &root, err));
    status = env->sync_directory(env, root, SGS_BARRIER(NEW_DIRECTORY), err); /* [DUR-11] */
    sgs_error ignored;
    (void)env->close(env, root, "/", &ignored);
    return status == SGS_OK ? env->open_directory(env, SGS_CWD, "log", fd, err) : status;
}

static bool ends_with(const char *name, const char *suffix)
{
    const size_t size = strlen(name), suffix_size = strlen(suffix);
    return size >= suffix_size && strcmp(name + size - suffix_size, suffix) == 0;
}

/* What a crash has left half done [DUR-55]. */
static sgs_status remove_leftovers(const small_log *log, sgs_segment_listing *listing, sgs_error *err)
{
    bool is_changed = false;
    for (size_t at = 0; at < listing->others.size;) {
        const char *name = (const char *)listing->others.data + at;
        at += strlen(name) + 1;
        if (!ends_with(name, ".deleted") && !ends_with(name, ".tmp"))
            continue;
        SGS_TRY(small_file_remove(log->env, log->context.directory_fd, name, NULL, err));
        is_changed = true;
    }
    return is_changed ? small_log_sync_directory(log, SGS_BARRIER(LEFTOVERS_GONE), err) : SGS_OK;
}

static sgs_status open_segments(small_log *log, const sgs_segment_listing *listing, sgs_error *err)
{
    size_t count;
    const sgs_listed_segment *rows = sgs_segment_listing_rows(listing, &count);
    for (size_t i = 0; i < count; ++i) {
        if ((rows[i].kinds & (1U << SGS_FILE_LOG)) == 0)
            continue;
        if (log->segments_count == SMALL_LOG_SEGMENTS_MAX)
            return sgs_fail(err, SGS_LIMIT_EXCEEDED, "too many segments for a small log");
        SGS_TRY(sgs_log_segment_open(&log->context, rows[i].base_offset, SGS_SUFFIX_NONE, false,
                                     &log->segments[log->segments_count], err));
        ++log->segments_count;
    }
    return SGS_OK;
}

static sgs_status remove_lone_indexes(const small_log *log, const sgs_segment_listing *listing, sgs_error *err)
{
    size_t count;
    const sgs_listed_segment *rows = sgs_segment_listing_rows(listing, &count);
    for (size_t i = 0; i < count; ++i) {
        for (int kind = SGS_FILE_INDEX; (rows[i].kinds & (1U << SGS_FILE_LOG)) == 0 && kind < SGS_FILE_COUNT; ++kind) {
            char name[SGS_SEGMENT_NAME_BYTES];
            sgs_segment_file_name(rows[i].base_offset, (sgs_segment_file)kind, SGS_SUFFIX_NONE, name);
            SGS_TRY(small_file_remove(log->env, log->context.directory_fd, name, NULL, err));
        }
    }
    return SGS_OK;
}

sgs_status small_log_delete_segment(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_status status = sgs_log_segment_delete_files(segment, err);
    sgs_log_segment_close_quietly(segment);
    return status;
}

/* The first ones, all of whose records lie below the log start [DUR-18, DUR-19]. */
static sgs_status remove_deleted(small_log *log, sgs_error *err)
{
    const size_t floor = log->segments_count == 0 ? 0 : small_log_floor(log, log->log_start);
    size_t removed = 0;
    sgs_status status = SGS_OK;
    while (status == SGS_OK && removed < floor) {
        int64_t end;
        bool ends_clean;
        const sgs_status read = sgs_log_segment_read_next_offset(log->segments[removed], &end, &ends_clean, err);
        if (read == SGS_RESOURCE || read == SGS_PERMISSION || read == SGS_READ_IO)
            status = read; /* says nothing of what is in the file: nobody may take what is left for damage [DUR-31] */
        if (read != SGS_OK || end > log->log_start)
            break;
        if (removed == 0) /* the names of those behind it may be as new as the crash */
            SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(RECOVERY_NAMES), err));
        status = small_log_delete_segment(log->segments[removed++], err);
    }
    log->segments_count -= removed;
    memmove(log->segments, log->segments + removed, log->segments_count * sizeof log->segments[0]);
    if (status == SGS_OK && removed > 0)
        status = small_log_sync_directory(log, SGS_BARRIER(LEFTOVERS_DELETED), err);
    return status;
}

/* ---- what is missing ---- */

int64_t small_log_safe_below(const small_log *log)
{
    return log->recovery_point < 0 ? log->log_start : log->recovery_point;
}

bool small_log_lacks_records_from(const small_log *log, int64_t end)
{
    return end < log->recovery_point && log->recovery_point > log->log_start;
}

static sgs_status require_begin(const small_log *log, sgs_error *err)
{
    const int64_t begin = log->log_start > log->contiguous_from ? log->log_start : log->contiguous_from;
    if (log->contiguous_from < 0 || begin >= sgs_log_segment_base_offset(log->segments[0]))
        return SGS_OK;
    const bool is_empty = log->segments_count == 1 && sgs_log_segment_size(log->segments[0]) == 0;
    if (is_empty && small_log_safe_below(log) <= begin)
        return SGS_OK; /* emptied to go on above its log start, which was not noted yet [DUR-18] */
    return sgs_fail(err, SGS_CORRUPT_LOG, "records from %" PRId64 " to %" PRId64 " are missing", begin,
                    sgs_log_segment_base_offset(log->segments[0]) - 1);
}

/* ---- the end of the log ---- */

/* Whether the log is as a clean stop has left it [DUR-51]. */
static sgs_status check_clean(small_log *log, int64_t marked_end, sgs_error *err)
{
    int64_t end;
    bool ends_clean;
    if (marked_end < 0)
        return SGS_OK;
    SGS_TRY(sgs_log_segment_read_next_offset(small_log_active(log), &end, &ends_clean, err));
    log->was_clean = ends_clean && end == marked_end && !small_log_lacks_records_from(log, end);
    log->log_end = end;
    return SGS_OK;
}

/* All records lie below the log start, or there are none. The new segment is made first: there is always a .log; but in a
 * log that is being emptied: one that came back would lie beside the new one [DUR-18]. */
static sgs_status start_anew(small_log *log, bool is_being_emptied, sgs_error *err)
{
    sgs_log_segment *created;
    const bool is_new = log->segments_count == 0;
    if (is_new && is_being_emptied)
        SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(EMPTYING_FIRST), err));
    SGS_TRY(small_log_create_segment(log, log->log_start, &created, err));
    log->segments[log->segments_count++] = created;
    SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(RECOVERY_NAMES), err));
    log->has_new_names = false;
    while (log->segments_count > 1) { /* the old ones lie before it, the highest first */
        sgs_log_segment *highest = log->segments[log->segments_count - 2];
        log->segments[log->segments_count - 2] = created;
        --log->segments_count;
        SGS_TRY(small_log_delete_segment(highest, err));
    }
    log->log_end = log->log_start;
    log->is_settled = true;
    return is_new ? SGS_OK : small_log_sync_directory(log, SGS_BARRIER(RECOVERY_SET_ASIDE), err);
}

/* ---- all of it ---- */

static sgs_status read_numbers(small_log *log, int64_t *marked_end, int64_t *emptied_at, sgs_error *err)
{
    const sgs_env *env = log->env;
    const int fd = log->context.directory_fd;
    bool was_clean;
    sgs_file_info mark;
    const sgs_status marked = env->file_info_at(env, fd, SGS_SYNC_FAILED_MARK, &mark, err);
    if (marked != SGS_OK && marked != SGS_NOT_FOUND)
        return marked;
    log->is_marked = marked == SGS_OK;
    SGS_TRY(small_file_read(env, fd, &small_log_start, &log->log_start, err));
    SGS_TRY(small_file_read(env, fd, &small_recovery_point, &log->recovery_point, err));
    SGS_TRY(small_file_read(env, fd, &small_contiguous_from, &log->contiguous_from, err));
    SGS_TRY(small_file_read(env, fd, &small_emptied_at, emptied_at, err));
    SGS_TRY(small_file_read(env, fd, &small_clean_end, marked_end, err));
    if (log->log_start < 0)
        log->log_start = 0;
    SGS_TRY(small_file_remove(env, fd, small_clean_end.name, &was_clean, err)); /* before the first write [DUR-24] */
    if (was_clean && log->is_marked)
        *marked_end = log->recovery_point = -1; /* of somebody who does not know the mark [DUR-36] */
    return was_clean ? small_log_sync_directory(log, SGS_BARRIER(CLEAN_MARKER_GONE), err) : SGS_OK;
}

static sgs_status finish(small_log *log, int64_t emptied_at, sgs_error *err)
{
    const sgs_env *env = log->env;
    const int fd = log->context.directory_fd;
    const int64_t base = sgs_log_segment_base_offset(log->segments[0]);
    SGS_TRY(sgs_log_segment_prepare_for_appends(small_log_active(log), err));
    const int64_t known = log->contiguous_from;
    int64_t contiguous = known < 0 || known > log->log_end ? log->log_end : known;
    if (base > contiguous && base > log->log_start) /* emptied without a log start of its own: no gap from now on */
        contiguous = base;
    if (log->log_start < base)
        log->log_start = base;
    if (contiguous != known)
        SGS_TRY(small_file_write(env, fd, &small_contiguous_from, contiguous, err));
    log->contiguous_from = contiguous;
    if (emptied_at >= 0) {
        SGS_TRY(small_file_remove(env, fd, small_emptied_at.name, NULL, err));
        SGS_TRY(small_log_sync_directory(log, SGS_BARRIER(LOG_STATE_NAME), err));
    }
    const int64_t point = log->recovery_point < 0 ? 0 : log->recovery_point;
    log->durable = log->is_settled ? log->log_end : point > log->log_start ? point : log->log_start;
    if (log->is_settled && log->recovery_point >= 0 && log->recovery_point != log->log_end)
        SGS_TRY(small_file_write(env, fd, &small_recovery_point, log->log_end, err));
    if (log->is_settled)
        log->recovery_point = log->log_end;
    return SGS_OK;
}

static sgs_status load(small_log *log, sgs_segment_listing *listing, sgs_error *err)
{
    const sgs_env *env = log->env;
    const int fd = log->context.directory_fd;
    int64_t marked_end = -1, emptied_at = -1;
    SGS_TRY(read_numbers(log, &marked_end, &emptied_at, err));
    SGS_TRY(sgs_segment_listing_read(listing, env, fd, err));
    SGS_TRY(remove_leftovers(log, listing, err));
    SGS_TRY(open_segments(log, listing, err));
    SGS_TRY(remove_deleted(log, err));
    if (log->segments_count == 0 && emptied_at < 0 && small_log_lacks_records_from(log, log->log_start))
        return sgs_fail(err, SGS_CORRUPT_LOG, "there is no .log, records up to %" PRId64 " had been synced",
                        log->recovery_point - 1);
    if (log->segments_count > 0) {
        SGS_TRY(require_begin(log, err));
        SGS_TRY(check_clean(log, marked_end, err));
        if (!log->was_clean)
            SGS_TRY(small_log_recover(log, err));
    }
    SGS_TRY(remove_lone_indexes(log, listing, err));
    if (log->segments_count == 0 || log->log_end < log->log_start)
        SGS_TRY(start_anew(log, emptied_at >= 0, err));
    return finish(log, emptied_at, err);
}

sgs_status small_log_open(small_log *log, const sgs_env *env, const small_log_settings *settings, sgs_error *err)
{
    *log = (small_log){ .env = env,
                        .settings = settings,
                        .is_settled = true,
                        .hole_start = -1,
                        .hole_end = -1,
                        .rolling_to = -1,
                        .context = {
                            .env = env,
                            .writable = true,
                            .heap_indexes = settings->heap_indexes,
                            .preallocate = settings->preallocate,
                            .index_interval_bytes = settings->interval_bytes,
                            .max_index_bytes = settings->index_bytes,
                            .segment_bytes = (int32_t)settings->segment_bytes,
                            .max_batch_bytes = INT32_MAX,
                        } };
    sgs_segment_listing listing;
    SGS_TRY(open_directory(log, err));
    sgs_segment_listing_init(&listing, sgs_env_memory(env));
    const sgs_status status = load(log, &listing, err);
    sgs_segment_listing_deinit(&listing);
    if (status != SGS_OK)
        small_log_abandon(log);
    return status;
}
