/* segment_lifecycle.c - open for appends, seal, flush, close [SEG-50..SEG-53, LDR-8].
 *
 * Indexes are derived: what goes wrong with them marks them as damaged, and seal and close make them anew [DUR-8, DUR-25].
 * What goes wrong with the .log is an error, and a sync that failed ends all writing [DUR-35]. */
#include "segment/log_segment_internal.h"

/* ---- active or not ---- */

/* A maximum that was lowered below what is used: Kafka cuts and fails, here the index just is full [IDX-9]. */
static uint32_t full_size(const sgs_log_segment *segment, const sgs_abstract_index *index)
{
    const uint32_t wanted = segment->context->max_index_bytes;
    const uint32_t used = sgs_abstract_index_entries(index) * index->entry_size;
    return wanted > used || segment->context->kafka_profile ? wanted : used;
}

sgs_status sgs_log_segment_prepare_for_appends(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    char name[SGS_SEGMENT_NAME_BYTES];
    bool changed;
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK)
        status = sgs_segment_load_indexes(segment, err);
    if (status != SGS_OK)
        return status;
    sgs_abstract_index *offsets = &segment->offset_index.base;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    status = sgs_abstract_index_resize(offsets, context->env, name, full_size(segment, offsets), &changed, err);
    if (status != SGS_OK)
        return status;
    sgs_abstract_index *times = &segment->time_index.base;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    status = sgs_abstract_index_resize(times, context->env, name, full_size(segment, times), &changed, err);
    SGS_EXPECT(status != SGS_OK || (offsets->is_open && times->is_open));
    SGS_EXPECT(status != SGS_OK || sgs_abstract_index_entries(offsets) <= offsets->max_entries);
    if (status == SGS_OK)
        segment->sealed = false;
    return status;
}

static bool indexes_need_rebuild(const sgs_log_segment *segment)
{
    return segment->offset_index.base.is_stale || segment->time_index.base.is_stale ||
           sgs_log_segment_index_damaged(segment);
}

/* The records lose nothing: an index that failed is made anew later, or removed [DUR-25, DUR-41]. But a broken invariant is
 * told [DUR-44]. */
static sgs_status without_index(sgs_log_segment *segment, sgs_status status)
{
    if (status != SGS_OK)
        sgs_segment_note_damage(segment);
    return status == SGS_INTERNAL ? status : SGS_OK;
}

/* The final time-index entry [SEG-50]. A time index without a free slot or block goes without it, and is stale then. None is
 * made of a partial maximum: look-ups would pass over later times in front of it [DUR-79]. */
static sgs_status append_final_time_entry(sgs_log_segment *segment, sgs_error *err)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_timestamp_offset largest;
    bool is_partial;
    const sgs_status status = sgs_log_segment_max_timestamp(segment, &largest, &is_partial, err);
    if (status != SGS_OK || is_partial)
        return status;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    SGS_EXPECT(segment->time_index.base.is_open);
    const sgs_status appended = sgs_time_index_maybe_append(&segment->time_index, segment->context->env, name,
                                                            largest.timestamp, largest.offset, true, err);
    return appended == SGS_ILLEGAL_ARGUMENT ? SGS_OK : without_index(segment, appended);
}

static void note_first(sgs_status *first, sgs_error *err, sgs_status status, const sgs_error *later)
{
    if (*first != SGS_OK || status == SGS_OK)
        return;
    SGS_EXPECT(later->status == status);
    *first = status;
    *err = *later;
}

static sgs_status trim_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_status first = SGS_OK;
    sgs_error later;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    note_first(&first, err, sgs_abstract_index_trim(&segment->offset_index.base, env, name, &later), &later);
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    note_first(&first, err, sgs_abstract_index_trim(&segment->time_index.base, env, name, &later), &later);
    return first;
}

/* A preallocated .log ends at its logical size. */
static sgs_status trim_log(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_file_info info;
    int fd;
    if (!segment->context->preallocate)
        return SGS_OK;
    sgs_status status = sgs_segment_descriptor(segment, &fd, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    const int32_t size = sgs_log_segment_size(segment);
    status = env->file_info(env, fd, name, &info, err);
    if (status != SGS_OK || info.size <= size)
        return status;
    atomic_store_explicit(&segment->needs_sync, true, memory_order_relaxed);
    return env->truncate(env, fd, name, size, err);
}

sgs_status sgs_log_segment_on_become_inactive(sgs_log_segment *segment, sgs_error *err)
{
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK)
        status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_OK)
        status = append_final_time_entry(segment, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 0);
    if (indexes_need_rebuild(segment)) /* and once more at close, if that fails */
        SGS_TRY(without_index(segment, sgs_segment_rebuild_indexes(segment, err)));
    SGS_TRY(without_index(segment, trim_indexes(segment, err)));
    status = trim_log(segment, err);
    if (status == SGS_OK) /* else it may be tried again, and takes appends until then */
        segment->sealed = true;
    return status;
}

/* ---- to disk ---- */

static sgs_status flush_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_status first = SGS_OK;
    sgs_error later;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    note_first(&first, err, sgs_abstract_index_flush(&segment->offset_index.base, env, name, &later), &later);
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    note_first(&first, err, sgs_abstract_index_flush(&segment->time_index.base, env, name, &later), &later);
    return first;
}

static sgs_status sync_log(sgs_log_segment *segment, sgs_barrier barrier, sgs_error *err)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    int fd;
    SGS_TRY(sgs_segment_descriptor(segment, &fd, err));
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    return sgs_segment_sync_data(segment, fd, name, barrier, err);
}

sgs_status sgs_log_segment_flush(sgs_log_segment *segment, bool indexes, sgs_barrier barrier, sgs_error *err)
{
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK)
        status = sync_log(segment, barrier, err);
    if (status != SGS_OK || !indexes)
        return status;
    status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_OK)
        status = flush_indexes(segment, err);
    return segment->context->kafka_profile ? status : without_index(segment, status);
}

/* ---- the end ---- */

static sgs_status close_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_status first = SGS_OK;
    sgs_error later;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    note_first(&first, err, sgs_abstract_index_close(&segment->offset_index.base, env, name, &later), &later);
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    note_first(&first, err, sgs_abstract_index_close(&segment->time_index.base, env, name, &later), &later);
    SGS_EXPECT(!segment->offset_index.base.is_open && !segment->time_index.base.is_open);
    return first;
}

/* Nothing is written. */
static void close_indexes_as_they_are(sgs_log_segment *segment)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    sgs_abstract_index_close_handler(&segment->offset_index.base, env, name);
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    sgs_abstract_index_close_handler(&segment->time_index.base, env, name);
}

sgs_status sgs_log_segment_release(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_error later;
    if ((segment->context->writable && indexes_need_rebuild(segment)) ||
        sgs_log_segment_unflushed_records(segment) > 0 ||
        atomic_load_explicit(&segment->poisoned, memory_order_relaxed)) {
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment has something to write yet");
        return sgs_segment_fail_in_log(segment, err);
    }
    sgs_status first = SGS_OK;
    sgs_segment_take_turn(&segment->files_turn);
    sgs_status status = close_indexes(segment, &later);
    if (!segment->context->kafka_profile)
        status = without_index(segment, status);
    note_first(&first, err, status, &later);
    atomic_store_explicit(&segment->offset_index_loaded, false, memory_order_release);
    atomic_store_explicit(&segment->time_index_loaded, false, memory_order_release);
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    const int fd = atomic_exchange_explicit(&segment->fd, -1, memory_order_acq_rel);
    if (fd >= 0)
        note_first(&first, err, env->close(env, fd, name, &later), &later);
    sgs_segment_end_turn(&segment->files_turn);
    return first;
}

void sgs_log_segment_close_quietly(sgs_log_segment *segment)
{
    if (segment == NULL)
        return;
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_error ignored;
    close_indexes_as_they_are(segment);
    const int fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    if (fd >= 0)
        (void)env->close(env, fd, name, &ignored);
    env->release(env, segment);
}

/* An index that could not be made right must not be believed: without it the next open makes it anew [DUR-25]. */
static sgs_status remove_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    const sgs_segment_file kinds[] = { SGS_FILE_INDEX, SGS_FILE_TIMEINDEX };
    sgs_status first = SGS_OK;
    for (int i = 0; i < 2; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_error later;
        sgs_segment_name(segment, kinds[i], name);
        const sgs_status status = env->unlink(env, segment->context->directory_fd, name, &later);
        if (status != SGS_NOT_FOUND)
            note_first(&first, err, status, &later);
    }
    return first;
}

/* Whatever it is that keeps an index from being right: the records can be closed without it [DUR-8]. Kafka fails, and a broken
 * invariant is told [DUR-44]. */
static bool gives_up_indexes(const sgs_log_segment *segment, sgs_status status, sgs_status *first, sgs_error *err,
                             const sgs_error *later)
{
    const bool given_up = status != SGS_OK && !segment->context->kafka_profile;
    if (!given_up || status == SGS_INTERNAL)
        note_first(first, err, status, later);
    return given_up;
}

static sgs_status finish_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const bool were_open = segment->offset_index.base.is_open || segment->time_index.base.is_open;
    sgs_error later;
    sgs_status first = SGS_OK;
    if (segment->time_index.base.is_open && atomic_load_explicit(&segment->has_max_timestamp, memory_order_relaxed))
        first = append_final_time_entry(segment, err);
    const bool rebuild = indexes_need_rebuild(segment);
    sgs_status status = rebuild ? sgs_segment_rebuild_indexes(segment, &later) : SGS_OK;
    bool given_up = status != SGS_OK;
    if (status == SGS_INTERNAL)
        note_first(&first, err, status, &later);
    if (!given_up && (were_open || rebuild)) {
        status = trim_indexes(segment, &later);
        if (status == SGS_OK)
            status = flush_indexes(segment, &later);
        given_up = gives_up_indexes(segment, status, &first, err, &later);
    }
    if (!given_up)
        given_up = gives_up_indexes(segment, close_indexes(segment, &later), &first, err, &later);
    if (given_up) {
        close_indexes_as_they_are(segment);
        note_first(&first, err, remove_indexes(segment, &later), &later);
    }
    SGS_EXPECT(!segment->offset_index.base.is_open && !segment->time_index.base.is_open);
    return first;
}

sgs_status sgs_log_segment_close(sgs_log_segment *segment, sgs_error *err)
{
    if (segment == NULL)
        return SGS_OK;
    if (!segment->context->writable || segment->deleted ||
        atomic_load_explicit(&segment->poisoned, memory_order_relaxed)) {
        sgs_log_segment_close_quietly(segment); /* no write after a failed one [DUR-38] */
        return SGS_OK;
    }
    const sgs_env *env = segment->context->env;
    sgs_error later;
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 0); /* nobody is inside */
    sgs_status first = finish_indexes(segment, err);
    const int fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    if (fd >= 0) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_name(segment, SGS_FILE_LOG, name);
        note_first(&first, err, trim_log(segment, &later), &later);
        if (atomic_load_explicit(&segment->needs_sync, memory_order_relaxed))
            note_first(&first, err, sync_log(segment, SGS_BARRIER(CLOSED_RECORDS), &later), &later);
        note_first(&first, err, env->close(env, fd, name, &later), &later);
    }
    SGS_EXPECT(!sgs_is_held(&segment->files_turn) && !sgs_is_held(&segment->sync_turn));
    SGS_EXPECT(!sgs_is_held(&segment->guard));
    env->release(env, segment);
    return first;
}
