/* segment_sync.c - the one place where a .log is synced [DUR-35, DUR-36].
 *
 * A sync that fails is told once: the kernel may count the pages as clean then, though they are not on the disk, and every
 * later sync succeeds, in other processes too, until a reboot or a rewrite. So it leaves a file in the directory that tells
 * the next open. The file needs no sync itself: it is seen as long as those pages are.
 *
 * Of two syncs of one descriptor side by side only one is told, and the other one would call durable what is not. So there
 * is one at a time, and who comes behind one that failed finds the segment poisoned. Who waits sleeps: a sync takes long.
 * Two that counted the same records would also take them off twice. */
#include "segment/log_segment_internal.h"

static void leave_mark(const sgs_segment_context *context)
{
    const sgs_env *env = context->env;
    sgs_error ignored; /* the caller reports the failure of the sync */
    int fd;
    if (context->kafka_profile) /* no file but Kafka's [DUR-62] */
        return;
    if (env->open_file(env, context->directory_fd, SGS_SYNC_FAILED_MARK, SGS_OPEN_WRITE_OR_CREATE, &fd, &ignored) ==
        SGS_OK)
        (void)env->close(env, fd, SGS_SYNC_FAILED_MARK, &ignored);
}

void sgs_segment_poison(sgs_log_segment *segment)
{
    bool *const writing_ended = segment->context->writing_ended;
    SGS_EXPECT(segment->context->writable);
    atomic_store_explicit(&segment->poisoned, true, memory_order_relaxed);
    if (writing_ended != NULL && atomic_load_explicit(&segment->suffix, memory_order_relaxed) != SGS_SUFFIX_CLEANED)
        __atomic_store_n(writing_ended, true, __ATOMIC_RELEASE); /* Python has it as a plain bool */
}

static sgs_status check_not_poisoned(const sgs_log_segment *segment, const char *name, sgs_error *err)
{
    if (!atomic_load_explicit(&segment->poisoned, memory_order_relaxed))
        return SGS_OK;
    sgs_fail(err, SGS_FSYNC_FAILED, "a sync or a cut failed before, and is not tried again"); /* never retried */
    return sgs_fail_in_file(err, name);
}

static sgs_status note_failure(sgs_log_segment *segment, sgs_status status)
{
    SGS_EXPECT(sgs_is_held(&segment->sync_turn));
    if (status != SGS_OK && status != SGS_RESOURCE) { /* without a descriptor nothing was tried [DUR-31] */
        sgs_segment_poison(segment);
        leave_mark(segment->context);
    }
    return status;
}

sgs_status sgs_segment_sync_cut(sgs_log_segment *segment, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    sgs_segment_take_turn(&segment->sync_turn);
    sgs_status status = check_not_poisoned(segment, name, err);
    if (status == SGS_OK)
        status = note_failure(segment, env->sync_file(env, fd, name, barrier, err));
    sgs_segment_end_turn(&segment->sync_turn);
    return status;
}

/* In its turn. */
static sgs_status sync_data(sgs_log_segment *segment, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    SGS_EXPECT(sgs_is_held(&segment->sync_turn) && fd >= 0);
    /* What is appended from here on may miss this sync: it stays counted and keeps the flag up. */
    const int64_t records = atomic_load_explicit(&segment->unflushed_records, memory_order_acquire);
    atomic_store_explicit(&segment->needs_sync, false, memory_order_seq_cst);
    int64_t left = 0;
    sgs_status status = check_not_poisoned(segment, name, err);
    if (status == SGS_OK)
        status = note_failure(segment, env->sync_data(env, fd, name, barrier, err));
    if (status == SGS_OK)
        left = atomic_fetch_sub_explicit(&segment->unflushed_records, records, memory_order_relaxed) - records;
    else
        atomic_store_explicit(&segment->needs_sync, true, memory_order_relaxed);
    SGS_EXPECT(records >= 0 && left >= 0); /* nobody else takes any off */
    return status;
}

sgs_status sgs_segment_sync_data(sgs_log_segment *segment, int fd, const char *name, sgs_barrier barrier,
                                 sgs_error *err)
{
    sgs_segment_take_turn(&segment->sync_turn);
    const sgs_status status = sync_data(segment, fd, name, barrier, err);
    sgs_segment_end_turn(&segment->sync_turn);
    return status;
}

/* Nobody waits here: who syncs may be waiting for the descriptor of another segment. */
static sgs_status sync_before_eviction(void *owner, int fd, sgs_error *err)
{
    sgs_log_segment *segment = owner;
    char name[SGS_SEGMENT_NAME_BYTES];
    if (atomic_flag_test_and_set_explicit(&segment->sync_turn, memory_order_acquire))
        return sgs_fail(err, SGS_LOCKED, "the segment is being synced");
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    const sgs_status status = sync_data(segment, fd, name, SGS_BARRIER(CLOSED_RECORDS), err);
    sgs_segment_end_turn(&segment->sync_turn);
    return status;
}

void sgs_segment_own_descriptor(sgs_log_segment *segment, int fd)
{
    const sgs_env *env = segment->context->env;
    SGS_EXPECT(fd >= 0);
    if (env->note_owner != NULL && segment->context->writable)
        env->note_owner(env, fd, sync_before_eviction, segment);
}
