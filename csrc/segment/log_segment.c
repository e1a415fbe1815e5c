/* log_segment.c - making a segment, what is loaded at first use, and answers from memory [SEG-1..SEG-4]. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

#include "segment/log_segment_internal.h"

enum { LOOK_AGAIN_NS = 50000 };

void sgs_segment_take_turn(atomic_flag *turn)
{
    const struct timespec moment = { .tv_nsec = LOOK_AGAIN_NS };
    while (atomic_flag_test_and_set_explicit(turn, memory_order_acquire))
        (void)thrd_sleep(&moment, NULL);
}

void sgs_segment_end_turn(atomic_flag *turn)
{
    SGS_EXPECT(sgs_is_held(turn));
    atomic_flag_clear_explicit(turn, memory_order_release);
}

void sgs_segment_lock_guard(sgs_log_segment *segment)
{
    while (atomic_flag_test_and_set_explicit(&segment->guard, memory_order_acquire))
        thrd_yield();
}

void sgs_segment_unlock_guard(sgs_log_segment *segment)
{
    SGS_EXPECT(sgs_is_held(&segment->guard));
    atomic_flag_clear_explicit(&segment->guard, memory_order_release);
}

void sgs_segment_name(const sgs_log_segment *segment, sgs_segment_file kind, char name[SGS_SEGMENT_NAME_BYTES])
{
    const uint8_t suffix = atomic_load_explicit(&((sgs_log_segment *)(uintptr_t)segment)->suffix, memory_order_relaxed);
    sgs_segment_file_name(segment->base_offset, kind, (sgs_segment_suffix)suffix, name);
}

sgs_status sgs_segment_fail_in_log(const sgs_log_segment *segment, sgs_error *err)
{
    SGS_EXPECT(err->status != SGS_OK); /* whoever failed has filled it in */
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    return sgs_fail_in_file(err, name);
}

sgs_status sgs_segment_check_writable(const sgs_log_segment *segment, sgs_error *err)
{
    if (!segment->context->writable)
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment is open for reading only");
    else if (atomic_load_explicit(&segment->poisoned, memory_order_relaxed))
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment takes no writes after a cut or a sync that failed");
    else if (segment->deleted)
        sgs_fail(err, SGS_ILLEGAL_STATE, "the segment's files are deleted");
    else
        return SGS_OK;
    return sgs_segment_fail_in_log(segment, err);
}

bool sgs_segment_believes_indexes(const sgs_log_segment *segment)
{
    return segment->context->kafka_profile && segment->context->writable;
}

bool sgs_segment_goes_without_index(sgs_log_segment *segment, uint32_t seen_cuts, sgs_status status)
{
    SGS_EXPECT(status != SGS_OK);
    if (status == SGS_CORRUPT_INDEX || status == SGS_LIMIT_EXCEEDED)
        sgs_segment_suspect_damage(segment, seen_cuts);
    /* what the disk, its rights or something else in its place keeps from being read costs no record [DUR-8] */
    return status == SGS_CORRUPT_INDEX || status == SGS_LIMIT_EXCEEDED || status == SGS_DISK_FULL ||
           status == SGS_PERMISSION || status == SGS_READ_IO || status == SGS_NOT_A_LOG;
}

static sgs_status create_log(const sgs_segment_context *context, const char *name, int *fd, sgs_error *err)
{
    const sgs_env *env = context->env;
    if (!context->writable)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "a segment cannot be created for reading only");
    sgs_status status = env->open_file(env, context->directory_fd, name, SGS_OPEN_CREATE, fd, err);
    if (status != SGS_OK || !context->preallocate || context->segment_bytes <= 0)
        return status;
    status = env->allocate_space(env, *fd, name, context->segment_bytes, err);
    if (status != SGS_OK) { /* nothing of a creation that failed stays behind [DUR-30] */
        sgs_error ignored;
        (void)env->close(env, *fd, name, &ignored);
        (void)env->unlink(env, context->directory_fd, name, &ignored);
    }
    return status;
}

sgs_status sgs_segment_log_size(const sgs_env *env, int directory_fd, const char *name, int32_t *size, sgs_error *err)
{
    sgs_file_info info;
    const sgs_status status = env->file_info_at(env, directory_fd, name, &info, err);
    if (status != SGS_OK)
        return status;
    if (!info.is_regular)
        return sgs_fail_at(err, SGS_NOT_A_LOG, -1, "a regular file", "%s",
                           info.is_directory ? "a directory" : "a link, pipe, socket or device");
    if (info.size > INT32_MAX)
        return sgs_fail_at(err, SGS_LIMIT_EXCEEDED, -1, "at most 2147483647 bytes", "%" PRId64, info.size);
    SGS_EXPECT(info.size >= 0);
    *size = (int32_t)info.size;
    return SGS_OK;
}

static sgs_log_segment *make_segment(const sgs_segment_context *context, int64_t base_offset, sgs_segment_suffix suffix,
                                     int fd, int32_t size, int64_t created_ms)
{
    SGS_EXPECT(base_offset >= 0 && size >= 0);
    sgs_log_segment *made = context->env->allocate(context->env, sizeof *made);
    if (made == NULL)
        return NULL;
    memset(made, 0, sizeof *made);
    made->context = context;
    made->base_offset = base_offset;
    made->next_offset = size == 0 ? base_offset : SGS_NEXT_OFFSET_UNKNOWN;
    atomic_init(&made->suffix, (uint8_t)suffix);
    atomic_flag_clear(&made->guard);
    atomic_flag_clear(&made->files_turn);
    atomic_flag_clear(&made->sync_turn);
    atomic_init(&made->fd, fd);
    atomic_init(&made->size, size);
    atomic_init(&made->created_ms, created_ms);
    atomic_init(&made->first_batch_timestamp, INT64_MIN);
    atomic_init(&made->needs_sync, true);
    return made;
}

sgs_status sgs_log_segment_open(const sgs_segment_context *context, int64_t base_offset, sgs_segment_suffix suffix,
                                bool create, sgs_log_segment **segment, sgs_error *err)
{
    const sgs_env *env = context->env;
    if (base_offset < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "base offset %" PRId64 " is negative", base_offset);
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_file_name(base_offset, SGS_FILE_LOG, suffix, name);
    sgs_log_segment *opened = make_segment(context, base_offset, suffix, -1, 0, env->wall_clock_ms(env));
    if (opened == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory for a segment");

    int fd = -1;
    int32_t size = 0;
    const sgs_status status = create ? create_log(context, name, &fd, err)
                                     : sgs_segment_log_size(env, context->directory_fd, name, &size, err);
    if (status != SGS_OK) {
        env->release(env, opened);
        return sgs_fail_in_file(err, name);
    }
    SGS_EXPECT(create == (fd >= 0) && (!create || size == 0));
    atomic_init(&opened->fd, fd);
    if (create)
        sgs_segment_own_descriptor(opened, fd);
    atomic_init(&opened->size, size);
    opened->next_offset = size == 0 ? base_offset : SGS_NEXT_OFFSET_UNKNOWN;
    if (create)
        sgs_segment_forget_headers(opened); /* of one that had the name */
    *segment = opened;
    return SGS_OK;
}

sgs_status sgs_log_segment_open_sized(const sgs_segment_context *context, int64_t base_offset, int32_t size,
                                      int64_t created_ms, sgs_log_segment **segment, sgs_error *err)
{
    if (base_offset < 0 || size < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "no segment of %" PRId32 " bytes at %" PRId64, size, base_offset);
    *segment = make_segment(context, base_offset, SGS_SUFFIX_NONE, -1, size, created_ms);
    return *segment == NULL ? sgs_fail(err, SGS_RESOURCE, "no memory for a segment") : SGS_OK;
}

/* A reader may have closed the .log, and meanwhile its writer replaced it: bytes have other places there [DUR-77]. */
static sgs_status check_same_file(sgs_log_segment *segment, int fd, const char *name, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    sgs_file_info info;
    const sgs_status status = env->file_info(env, fd, name, &info, err);
    if (status != SGS_OK)
        return status;
    if (segment->inode == 0) {
        segment->device = info.device;
        segment->inode = info.inode;
    }
    if (info.device != segment->device || info.inode != segment->inode)
        return sgs_fail_at(err, SGS_NOT_FOUND, -1, "the file that was read", "another file of its name");
    return SGS_OK;
}

sgs_status sgs_segment_descriptor(sgs_log_segment *segment, int *fd, sgs_error *err)
{
    *fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    if (*fd >= 0)
        return SGS_OK;
    const sgs_segment_context *context = segment->context;
    sgs_status status = SGS_OK;
    sgs_segment_take_turn(&segment->files_turn);
    *fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    if (*fd < 0) {
        char name[SGS_SEGMENT_NAME_BYTES];
        sgs_segment_name(segment, SGS_FILE_LOG, name);
        const sgs_open_mode mode = context->writable ? SGS_OPEN_WRITE : SGS_OPEN_READ;
        status = context->env->open_file(context->env, context->directory_fd, name, mode, fd, err);
        if (status == SGS_OK && !context->writable) {
            status = check_same_file(segment, *fd, name, err);
            if (status != SGS_OK) {
                sgs_error ignored;
                (void)context->env->close(context->env, *fd, name, &ignored);
            }
        }
        if (status == SGS_OK) {
            sgs_segment_own_descriptor(segment, *fd);
            atomic_store_explicit(&segment->fd, *fd, memory_order_release);
        }
    }
    SGS_EXPECT(status != SGS_OK || *fd >= 0);
    sgs_segment_end_turn(&segment->files_turn);
    return status;
}

static sgs_index_options index_options(const sgs_log_segment *segment)
{
    const sgs_segment_context *context = segment->context;
    return (sgs_index_options){
        .max_size_bytes = context->max_index_bytes,
        /* a reader that comes after the deletion must not create files of a segment that is gone */
        .writable = context->writable && !segment->deleted,
        .heap = context->heap_indexes,
        .grow_in_steps = !sgs_segment_believes_indexes(segment),
    };
}

static sgs_status open_index(sgs_log_segment *segment, sgs_segment_file kind, const char *name,
                             const sgs_index_options *options, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    const sgs_env *env = context->env;
    SGS_EXPECT(sgs_is_held(&segment->files_turn));
    SGS_EXPECT(kind == SGS_FILE_INDEX || kind == SGS_FILE_TIMEINDEX);
    SGS_EXPECT(!(kind == SGS_FILE_INDEX ? segment->offset_index.base.is_open : segment->time_index.base.is_open));
    if (kind == SGS_FILE_INDEX)
        return sgs_offset_index_open(&segment->offset_index, env, context->directory_fd, name, segment->base_offset,
                                     options, err);
    return sgs_time_index_open(&segment->time_index, env, context->directory_fd, name, segment->base_offset, options,
                               err);
}

/* An index that the disk does not give out may be the only proof that records are missing: it keeps its bytes under another
 * name, as segstore/log/files/kept_aside.py gives it [DUR-7, DUR-59]. */
static sgs_status keep_aside(const sgs_segment_context *context, const char *name, sgs_error *err)
{
    enum { MOST_NUMBER = 999 };
    const sgs_env *env = context->env;
    char kept[SGS_SEGMENT_NAME_BYTES + sizeof ".quarantine-4294967295"];
    sgs_file_info info;
    sgs_status status = SGS_OK;
    for (unsigned number = 1; status == SGS_OK && number <= MOST_NUMBER; ++number) {
        (void)snprintf(kept, sizeof kept, "%s.quarantine-%u", name, number);
        status = env->file_info_at(env, context->directory_fd, kept, &info, err);
    }
    if (status == SGS_OK)
        return sgs_fail(err, SGS_ALREADY_EXISTS, "%s: %d files are kept already", name, MOST_NUMBER);
    return status == SGS_NOT_FOUND ? env->rename(env, context->directory_fd, name, kept, err) : status;
}

/* A file that no index can be is replaced by an empty one where this handle writes: it is derived, and stops nothing [DUR-8].
 * Seal, close or the open that met it write the entries. Kafka fails [DUR-62]. */
static sgs_status open_or_replace_index(sgs_log_segment *segment, sgs_segment_file kind, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    const sgs_index_options options = index_options(segment);
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_error ignored;
    sgs_segment_name(segment, kind, name);
    const sgs_status status = open_index(segment, kind, name, &options, err);
    const bool is_unreadable = status == SGS_READ_IO || status == SGS_PERMISSION;
    if (!(is_unreadable || status == SGS_LIMIT_EXCEEDED) || !options.writable || context->kafka_profile)
        return status;
    sgs_segment_note_damage(segment);
    const sgs_status gone = is_unreadable ? keep_aside(context, name, &ignored)
                                          : context->env->unlink(context->env, context->directory_fd, name, &ignored);
    if (gone != SGS_OK)
        return status;
    return open_index(segment, kind, name, &options, err);
}

static sgs_status load_index(sgs_log_segment *segment, sgs_segment_file kind, _Atomic bool *loaded, sgs_error *err)
{
    if (atomic_load_explicit(loaded, memory_order_acquire))
        return SGS_OK;
    sgs_status status = SGS_OK;
    sgs_segment_take_turn(&segment->files_turn);
    if (!atomic_load_explicit(loaded, memory_order_relaxed)) {
        status = open_or_replace_index(segment, kind, err);
        const bool is_damaged =
            kind == SGS_FILE_INDEX ? segment->offset_index.base.has_rest : segment->time_index.base.has_rest;
        if (status == SGS_OK && is_damaged)
            sgs_segment_note_damage(segment);
        if (status == SGS_OK)
            atomic_store_explicit(loaded, true, memory_order_release);
    }
    sgs_segment_end_turn(&segment->files_turn);
    return status;
}

sgs_status sgs_log_segment_offset_index(sgs_log_segment *segment, sgs_offset_index **index, sgs_error *err)
{
    *index = &segment->offset_index;
    return load_index(segment, SGS_FILE_INDEX, &segment->offset_index_loaded, err);
}

sgs_status sgs_log_segment_time_index(sgs_log_segment *segment, sgs_time_index **index, sgs_error *err)
{
    *index = &segment->time_index;
    return load_index(segment, SGS_FILE_TIMEINDEX, &segment->time_index_loaded, err);
}

sgs_status sgs_segment_load_indexes(sgs_log_segment *segment, sgs_error *err)
{
    sgs_offset_index *offset_index;
    sgs_time_index *time_index;
    const sgs_status status = sgs_log_segment_offset_index(segment, &offset_index, err);
    return status == SGS_OK ? sgs_log_segment_time_index(segment, &time_index, err) : status;
}

void sgs_segment_forget_headers(const sgs_log_segment *segment)
{
    if (segment->context->headers != NULL)
        sgs_header_view_renew(segment->context->headers);
}

int64_t sgs_log_segment_base_offset(const sgs_log_segment *segment) { return segment->base_offset; }

int32_t sgs_log_segment_size(const sgs_log_segment *segment)
{
    const int32_t size = atomic_load_explicit(&((sgs_log_segment *)(uintptr_t)segment)->size, memory_order_acquire);
    SGS_EXPECT(size >= 0);
    return size;
}

int64_t sgs_log_segment_unflushed_records(const sgs_log_segment *segment)
{
    return atomic_load_explicit(&((sgs_log_segment *)(uintptr_t)segment)->unflushed_records, memory_order_relaxed);
}

int64_t sgs_log_segment_created_ms(const sgs_log_segment *segment)
{
    return atomic_load_explicit(&((sgs_log_segment *)(uintptr_t)segment)->created_ms, memory_order_relaxed);
}

bool sgs_log_segment_index_damaged(const sgs_log_segment *segment)
{
    return atomic_load_explicit(&((sgs_log_segment *)(uintptr_t)segment)->index_damaged, memory_order_relaxed);
}

sgs_status sgs_log_segment_indexes_full(sgs_log_segment *segment, bool *full, sgs_error *err)
{
    const sgs_status status = sgs_segment_load_indexes(segment, err);
    SGS_EXPECT(status != SGS_OK || (segment->offset_index.base.is_open && segment->time_index.base.is_open));
    if (status == SGS_OK)
        *full = sgs_offset_index_is_full(&segment->offset_index) || sgs_time_index_is_full(&segment->time_index);
    return status;
}

sgs_status sgs_log_segment_modified_ms(sgs_log_segment *segment, int64_t *modified_ms, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_file_info info;
    sgs_segment_take_turn(&segment->files_turn); /* the name stands still */
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    const int fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    const sgs_status status = fd >= 0
                                  ? context->env->file_info(context->env, fd, name, &info, err)
                                  : context->env->file_info_at(context->env, context->directory_fd, name, &info, err);
    sgs_segment_end_turn(&segment->files_turn);
    if (status == SGS_OK)
        *modified_ms = info.modified_ms;
    return status;
}

sgs_status sgs_log_segment_is_replaced(sgs_log_segment *segment, bool *replaced, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_file_info opened;
    sgs_file_info named = { 0 };
    sgs_status status = SGS_OK;
    bool differs = false;
    sgs_segment_take_turn(&segment->files_turn); /* the name stands still */
    const int fd = atomic_load_explicit(&segment->fd, memory_order_acquire);
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    if (fd < 0 && segment->inode != 0) { /* it was closed meanwhile */
        status = context->env->file_info_at(context->env, context->directory_fd, name, &named, err);
        differs = status == SGS_OK && (segment->device != named.device || segment->inode != named.inode);
    } else if (fd >= 0) {
        status = context->env->file_info(context->env, fd, name, &opened, err);
        const bool is_gone = status == SGS_NOT_FOUND; /* the environment had closed it, and does not find it again */
        if (status == SGS_OK || is_gone)
            status = context->env->file_info_at(context->env, context->directory_fd, name, &named, err);
        differs = status == SGS_OK && (is_gone || opened.device != named.device || opened.inode != named.inode);
    }
    sgs_segment_end_turn(&segment->files_turn);
    if (status == SGS_OK)
        *replaced = differs;
    return status;
}
