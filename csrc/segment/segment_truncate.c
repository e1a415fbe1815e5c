/* segment_truncate.c - the batch that holds an offset goes, with all behind it [SEG-24..SEG-26]. */
#include "segment/log_segment_internal.h"

/* [DUR-16, DUR-17] the .log first, and on disk before anything else happens */
static sgs_status cut_log(sgs_log_segment *segment, int32_t position, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    const int32_t before = sgs_log_segment_size(segment);
    char name[SGS_SEGMENT_NAME_BYTES];
    int fd;
    sgs_status status = sgs_segment_descriptor(segment, &fd, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    SGS_EXPECT(position >= 0 && position < before); /* a cut makes nothing longer */
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 1);
    atomic_store_explicit(&segment->size, position, memory_order_release); /* no new reader goes beyond it */
    status = env->truncate(env, fd, name, position, err);
    if (status != SGS_OK) {
        atomic_store_explicit(&segment->size, before, memory_order_release);
        return status;
    }
    segment->next_offset = SGS_NEXT_OFFSET_UNKNOWN;
    sgs_segment_forget_headers(segment);
    return sgs_segment_sync_cut(segment, fd, name, SGS_BARRIER(TRUNCATION_CUT), err);
}

/* A file with one slot of zeros would be an entry to another process that reads beside us: (0, base offset) is one, and (0, 0)
 * [DUR-80]. In memory what was cut off is in the file still. */
static void hide_cut_entries(const sgs_log_segment *segment, sgs_segment_file kind, sgs_abstract_index *index)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_error ignored; /* a look-up beside us may keep the file's length; then only verify speaks of it */
    sgs_segment_name(segment, kind, name);
    sgs_abstract_index_settle_file(index, segment->context->env, name);
    if (sgs_abstract_index_entries(index) != 0 || index->file.length != index->entry_size)
        return;
    (void)sgs_abstract_index_trim(index, segment->context->env, name, &ignored);
}

/* [SEG-24.2, SEG-24.3] */
static sgs_status truncate_indexes(sgs_log_segment *segment, int64_t offset, sgs_error *err)
{
    sgs_status status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_OK)
        status = sgs_offset_index_truncate_to(&segment->offset_index, offset, err);
    if (status == SGS_OK)
        status = sgs_time_index_truncate_to(&segment->time_index, offset, err);
    if (status == SGS_OK && !segment->context->kafka_profile) {
        hide_cut_entries(segment, SGS_FILE_INDEX, &segment->offset_index.base);
        hide_cut_entries(segment, SGS_FILE_TIMEINDEX, &segment->time_index.base);
    }
    return status == SGS_OK ? sgs_log_segment_prepare_for_appends(segment, err) : status;
}

/* The .log, what is known of its first batch, and the indexes. */
static sgs_status cut(sgs_log_segment *segment, int64_t offset, const sgs_segment_fetch *batch, sgs_error *err)
{
    if (batch->found)
        SGS_TRY(cut_log(segment, batch->position, err));
    if (sgs_log_segment_size(segment) == 0) {
        atomic_store_explicit(&segment->created_ms, segment->context->env->wall_clock_ms(segment->context->env),
                              memory_order_relaxed);
        atomic_store_explicit(&segment->first_batch_timestamp, INT64_MIN, memory_order_relaxed);
    }
    SGS_EXPECT(sgs_log_segment_size(segment) > 0 || !batch->found || batch->position == 0);
    segment->bytes_since_last_index_entry = 0;
    const sgs_status status = truncate_indexes(segment, offset, err);
    if (status == SGS_OK || segment->context->kafka_profile || status == SGS_INTERNAL) /* [DUR-44] */
        return status;
    sgs_segment_note_damage(segment); /* the records are cut: that is what was asked for [DUR-8] */
    segment->sealed = false;
    return SGS_OK;
}

sgs_status sgs_log_segment_truncate_to(sgs_log_segment *segment, int64_t offset, int32_t *bytes_cut, sgs_error *err)
{
    const bool kafka_profile = segment->context->kafka_profile;
    sgs_segment_fetch batch;
    sgs_timestamp_offset largest;
    bool is_partial = false;
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK)
        status = sgs_log_segment_translate_offset(segment, offset, 0, -1, &batch, err);
    if (status != SGS_OK)
        return status;
    const int32_t size = sgs_log_segment_size(segment);
    const bool was_known = sgs_segment_recall_max_timestamp(segment, &largest);
    SGS_EXPECT(!batch.found || (batch.position >= 0 && batch.position < size));
    sgs_segment_begin_cut(segment);
    sgs_segment_forget_max_timestamp(segment);
    status = cut(segment, offset, &batch, err);
    sgs_segment_end_cut(segment);
    if (status != SGS_OK) {
        if (was_known)
            sgs_segment_set_max_timestamp(segment, largest);
        return status;
    }
    /* Kafka asks for it here, so that it is known from now on: of a segment that nobody has asked yet it believes the last
     * entry that is left for one moment only, and reads the headers behind it [SEG-24.7]. */
    if (!was_known && kafka_profile)
        status = sgs_log_segment_max_timestamp(segment, &largest, &is_partial, err);
    if (status == SGS_OK && (was_known || kafka_profile)) {
        if (largest.timestamp >= 0)
            status = sgs_segment_find_largest_timestamp(segment, &largest, &is_partial, err);
        if (status == SGS_OK && !is_partial)
            sgs_segment_set_max_timestamp(segment, largest);
    }
    SGS_EXPECT(status != SGS_OK || sgs_log_segment_size(segment) == (batch.found ? batch.position : size));
    SGS_EXPECT(status != SGS_OK || !batch.found || segment->next_offset == SGS_NEXT_OFFSET_UNKNOWN);
    if (status == SGS_OK)
        *bytes_cut = batch.found ? size - batch.position : 0;
    return status;
}
