/* segment_files.c - rename and delete the files of a segment [SEG-54..SEG-56]. */
#include "segment/log_segment_internal.h"

/* An index that was never loaded, or never needed, has no file [LZY-3]. To Kafka a loaded one must have it; to us an index
 * is derived, and a missing one is made again [DUR-8]. A .log that is gone counts as deleted [DUR-132]. */
static bool may_be_missing(sgs_log_segment *segment, sgs_segment_file kind, sgs_segment_suffix suffix)
{
    if (!segment->context->kafka_profile)
        return kind != SGS_FILE_LOG || suffix == SGS_SUFFIX_DELETED;
    if (kind == SGS_FILE_LOG)
        return false;
    return !(kind == SGS_FILE_INDEX && atomic_load_explicit(&segment->offset_index_loaded, memory_order_relaxed)) &&
           !(kind == SGS_FILE_TIMEINDEX && atomic_load_explicit(&segment->time_index_loaded, memory_order_relaxed));
}

sgs_status sgs_log_segment_change_suffix(sgs_log_segment *segment, sgs_segment_suffix suffix, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    const sgs_env *env = context->env;
    const sgs_segment_suffix old = (sgs_segment_suffix)atomic_load_explicit(&segment->suffix, memory_order_relaxed);
    if (!context->writable) {
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment is open for reading only");
        return sgs_segment_fail_in_log(segment, err);
    }
    if (old == suffix)
        return SGS_OK;
    sgs_status status = SGS_OK;
    sgs_segment_take_turn(&segment->files_turn); /* nobody opens a file by its old name meanwhile */
    for (int i = 0; status == SGS_OK && i < SGS_FILE_COUNT; ++i) {
        /* the .log is the last of its group on the way to .swap, the commit of a compaction [DUR-20], else the first */
        const sgs_segment_file kind = (sgs_segment_file)(suffix == SGS_SUFFIX_SWAP ? (i + 1) % SGS_FILE_COUNT : i);
        char from[SGS_SEGMENT_NAME_BYTES];
        char to[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_file_name(segment->base_offset, kind, old, from);
        sgs_segment_file_name(segment->base_offset, kind, suffix, to);
        status = env->rename(env, context->directory_fd, from, to, err);
        if (status == SGS_NOT_FOUND && may_be_missing(segment, kind, suffix))
            status = SGS_OK;
    }
    SGS_EXPECT(sgs_is_held(&segment->files_turn));
    if (status == SGS_OK)
        atomic_store_explicit(&segment->suffix, (uint8_t)suffix, memory_order_relaxed);
    sgs_segment_forget_headers(segment); /* another may take the name */
    sgs_segment_end_turn(&segment->files_turn);
    return status;
}

sgs_status sgs_log_segment_delete_files(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    const sgs_env *env = context->env;
    sgs_status first = SGS_OK;
    if (!context->writable) {
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment is open for reading only");
        return sgs_segment_fail_in_log(segment, err);
    }
    sgs_segment_take_turn(&segment->files_turn);
    segment->deleted = true;
    sgs_segment_forget_headers(segment);
    for (int i = 0; i < SGS_FILE_COUNT; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_error later;
        sgs_segment_name(segment, (sgs_segment_file)i, name);
        const sgs_status status = env->unlink(env, context->directory_fd, name, &later);
        if (status != SGS_OK && status != SGS_NOT_FOUND && first == SGS_OK) {
            first = status;
            *err = later;
        }
    }
    SGS_EXPECT(first == SGS_OK || first == err->status);
    sgs_segment_end_turn(&segment->files_turn);
    return first;
}

sgs_status sgs_log_segment_give_up_indexes(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    static const sgs_segment_file kinds[] = { SGS_FILE_INDEX, SGS_FILE_TIMEINDEX };
    SGS_TRY(sgs_log_segment_release(segment, err));
    SGS_EXPECT(!segment->offset_index.base.is_open && !segment->time_index.base.is_open);
    sgs_segment_note_damage(segment); /* what is made in their place is empty */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_name(segment, kinds[i], name);
        const sgs_status status = context->env->unlink(context->env, context->directory_fd, name, err);
        if (status != SGS_OK && status != SGS_NOT_FOUND)
            return status;
    }
    return SGS_OK;
}
