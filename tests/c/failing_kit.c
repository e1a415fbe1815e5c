/* failing_kit.c - what the scenarios of failing_calls.h are made of. */
#include "failing_calls.h"
#include "test.h"

sgs_status failing_append(failing_run *run, int64_t end)
{
    sgs_status status = SGS_OK;
    while (status == SGS_OK && run->acked < end) {
        status = segment_kit_append(&run->kit, run->acked, 1, 10 * run->acked, FAILING_BATCH_BYTES);
        run->acked += status == SGS_OK;
        run->next_least = run->acked;
    }
    return status;
}

void failing_write(failing_run *run, int64_t end)
{
    EXPECT_OK(segment_kit_segment(&run->kit, 0, true), &run->kit.err);
    EXPECT_OK(failing_append(run, end), &run->kit.err);
}

void failing_reopen(failing_run *run)
{
    EXPECT_OK(sgs_log_segment_close(run->kit.segment, &run->kit.err), &run->kit.err);
    run->kit.segment = NULL;
    EXPECT_OK(segment_kit_segment(&run->kit, 0, false), &run->kit.err);
}

void failing_spoil(failing_run *run, sgs_segment_file kind, int64_t position, const void *bytes, size_t size)
{
    const sgs_env *disk = sgs_sim_env(run->disk);
    const sgs_slice slice = { .data = bytes, .size = size };
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_error err;
    int64_t written;
    int fd = -1;
    sgs_segment_file_name(0, kind, SGS_SUFFIX_NONE, name);
    EXPECT_OK(disk->open_file(disk, run->kit.context.directory_fd, name, SGS_OPEN_WRITE_OR_CREATE, &fd, &err), &err);
    EXPECT_OK(disk->write_at(disk, fd, name, &slice, 1, position, &written, &err), &err);
    EXPECT_OK(disk->close(disk, fd, name, &err), &err);
}
