/* file_records.c - a range of a .log, sent or read by position. */
#include "segment/file_records.h"

#include <inttypes.h>

#include "segment/log_segment_internal.h"

static sgs_status fail_truncated(const sgs_log_segment *segment, int64_t end, int64_t wanted, sgs_error *err)
{
    SGS_EXPECT(end < wanted);
    sgs_fail_at(err, SGS_LOG_TRUNCATED, end, "bytes up to that place", "the end of the file");
    (void)sgs_say(err, "the file ends here: it was truncated, bytes up to %" PRId64 " are wanted", wanted);
    return sgs_segment_fail_in_log(segment, err);
}

/* Whether the range is below the logical size, as it is now [CON-4]. */
static sgs_status check_range(const sgs_log_segment *segment, int64_t position, size_t size, sgs_error *err)
{
    const int64_t end = sgs_log_segment_size(segment);
    if (position < 0 || position > INT32_MAX || size > INT32_MAX) { /* [DUR-97] */
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "no file has %zu bytes from position %" PRId64 " on", size, position);
        return sgs_segment_fail_in_log(segment, err);
    }
    if (position > end || (int64_t)size > end - position)
        return fail_truncated(segment, end, position + (int64_t)size, err);
    return SGS_OK;
}

sgs_status sgs_file_records_write_to(sgs_log_segment *segment, int64_t position, size_t size, int destination,
                                     sgs_transfer *transfer, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    int fd;
    SGS_TRY(check_range(segment, position, size, err));
    SGS_TRY(sgs_segment_descriptor(segment, &fd, err));
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    SGS_TRY(env->send_file(env, fd, name, position, size, destination, transfer, err));
    SGS_EXPECT(transfer->sent <= size);
    if (transfer->sent == 0 && !transfer->would_block && !transfer->interrupted && size > 0)
        return fail_truncated(segment, position, position + (int64_t)size, err);
    return SGS_OK;
}

sgs_status sgs_file_records_read_into(sgs_log_segment *segment, int64_t position, uint8_t *data, size_t size,
                                      sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    size_t got;
    int fd;
    SGS_TRY(check_range(segment, position, size, err));
    SGS_TRY(sgs_segment_descriptor(segment, &fd, err));
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    SGS_TRY(env->read_at(env, fd, name, data, size, position, &got, err));
    SGS_EXPECT(got <= size);
    return got == size ? SGS_OK : fail_truncated(segment, position + (int64_t)got, position + (int64_t)size, err);
}
