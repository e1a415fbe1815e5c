/* segment_sync.c - the one place where a .log is synced [DUR-35, DUR-36].
 *
 * A sync that fails is told once: the kernel may count the pages as clean then, though they are not on the disk, and every
 * later sync succeeds, in other processes too, until a reboot or a rewrite. So it leaves a file in the directory that tells
 * the next open. The file needs no sync itself: it is seen as long as those pages are. */
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

sgs_status sgs_segment_sync(sgs_log_segment *segment, int fd, const char *name, sgs_segment_sync_kind kind,
                            sgs_barrier barrier, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    const sgs_status status = kind == SGS_SYNC_DATA ? env->sync_data(env, fd, name, barrier, err)
                                                    : env->sync_file(env, fd, name, barrier, err);
    if (status != SGS_OK) {
        atomic_store_explicit(&segment->poisoned, true, memory_order_relaxed); /* never retried */
        leave_mark(segment->context);
    }
    return status;
}
