/* env_posix_send.c - the part of env_posix that hands a file's bytes to a socket, a pipe or another file.
 *
 * sendfile does it inside the kernel. Where it cannot (a destination that appends, a file system without it) bytes are copied
 * through a small buffer.
 *
 * SIGNALS  none is touched [DUR-43]: writing to a peer that is gone gives EPIPE where SIGPIPE is ignored, as Python does;
 *          a C program that sends must ignore that signal, or it is killed. */
#ifndef __linux__
#error "env_posix_send.c is written for Linux; another system needs its own implementation of io/env.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/sendfile.h>
#include <unistd.h>

#include "io/env_posix.h"

enum { PIECE_BYTES = 8192 }; /* of the stack [DUR-104] */

/* Nothing went out: what errno says of the destination. */
static sgs_status nothing_sent(sgs_transfer *transfer, const char *name, int64_t position, sgs_error *err)
{
    SGS_EXPECT(transfer->sent == 0);
    if (errno == EAGAIN) /* which is EWOULDBLOCK here */
        transfer->would_block = true;
    else if (errno == EINTR)
        transfer->interrupted = true;
    else if (errno == ENOMEM)
        return sgs_posix_fail_at(err, "send the file", name, SGS_RESOURCE, position);
    else { /* whatever it means for a file of ours: a full disk there is no full disk here */
        (void)sgs_posix_fail_as(err, "send the file", name, SGS_SEND_FAILED);
        err->position = position;
        return err->status;
    }
    return SGS_OK;
}

static sgs_status copy(int fd, const char *name, int64_t position, size_t size, int destination, sgs_transfer *transfer,
                       sgs_error *err)
{
    uint8_t piece[PIECE_BYTES];
    while (transfer->sent < size) {
        const int64_t from = position + (int64_t)transfer->sent;
        const size_t left = size - transfer->sent;
        ssize_t got, put;
        SGS_RETRY(got, pread(fd, piece, left < sizeof piece ? left : sizeof piece, from));
        if (got < 0)
            return sgs_posix_fail_at(err, "read the file", name, SGS_READ_IO, from);
        if (got == 0)
            return SGS_OK;
        put = write(destination, piece, (size_t)got);
        if (put < 0) /* what went out before counts; the next step meets the error again */
            return transfer->sent > 0 ? SGS_OK : nothing_sent(transfer, name, from, err);
        SGS_EXPECT(put <= got && got <= (ssize_t)left);
        transfer->sent += (size_t)put;
        if (put < got)
            return SGS_OK;
    }
    return SGS_OK;
}

sgs_status sgs_posix_send_file(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                               int destination, sgs_transfer *transfer, sgs_error *err)
{
    (void)env;
    off_t from = position;
    *transfer = (sgs_transfer){ .sent = 0 };
    const ssize_t sent = sendfile(destination, fd, &from, size);
    if (sent >= 0) {
        SGS_EXPECT((size_t)sent <= size && from == position + sent);
        transfer->sent = (size_t)sent;
        return SGS_OK;
    }
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
        return copy(fd, name, position, size, destination, transfer, err);
    if (errno == EIO)
        return sgs_posix_fail_at(err, "read the file", name, SGS_READ_IO, position);
    return nothing_sent(transfer, name, position, err);
}
