/* Handing a file's bytes to sockets, pipes and files: one step takes what the destination takes, and says why no more. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "io/env.h"
#include "temporary.h"
#include "test.h"

enum { FILE_BYTES = 1000003, PIPE_BYTES = 65536 };

static const sgs_env *env;
static temporary directory;
static sgs_error err;
static uint8_t *content;
static int file;

static void begin(void)
{
    env = sgs_env_posix();
    directory = temporary_open();
    content = malloc(FILE_BYTES);
    for (int i = 0; i < FILE_BYTES; ++i)
        content[i] = (uint8_t)(i * 31 >> 3);
    temporary_write(&directory, "a.log", content, FILE_BYTES);
    (void)signal(SIGPIPE, SIG_IGN); /* as Python does */
    file = -1;
    EXPECT_OK(env->open_file(env, directory.fd, "a.log", SGS_OPEN_READ, &file, &err), &err);
}

static void end(void)
{
    EXPECT_OK(env->close(env, file, "a.log", &err), &err);
    free(content);
    temporary_close(&directory);
}

static sgs_transfer step(int64_t position, size_t size, int destination)
{
    sgs_transfer transfer = { 77, true, true };
    EXPECT_OK(env->send_file(env, file, "a.log", position, size, destination, &transfer, &err), &err);
    return transfer;
}

typedef struct drain { /* reads a descriptor to its end */
    int fd;
    int delay_us;
    size_t size;
    uint8_t *bytes;
    pthread_t thread;
} drain;

static void *drain_all(void *argument)
{
    drain *self = argument;
    ssize_t got;
    sigset_t all; /* signals are for the thread that sends */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    (void)usleep((useconds_t)self->delay_us);
    while ((got = read(self->fd, self->bytes + self->size, FILE_BYTES - self->size)) > 0)
        self->size += (size_t)got;
    return NULL;
}

static drain *drain_start(int fd, int delay_us)
{
    drain *self = calloc(1, sizeof *self);
    self->fd = fd;
    self->delay_us = delay_us;
    self->bytes = malloc(FILE_BYTES);
    EXPECT_EQ_I64(pthread_create(&self->thread, NULL, drain_all, self), 0);
    return self;
}

/* Everything from `position` on arrived, and nothing else. */
static void drain_end(drain *self, int64_t position, size_t size)
{
    EXPECT_EQ_I64(pthread_join(self->thread, NULL), 0);
    EXPECT_EQ_I64(self->size, size);
    EXPECT_MEM(self->bytes, content + position, size);
    (void)close(self->fd);
    free(self->bytes);
    free(self);
}

/* Steps until all is sent. @return how many there were */
static int send_all(int64_t position, size_t size, int destination)
{
    size_t sent = 0;
    int steps = 0;
    for (; sent < size; ++steps) {
        const sgs_transfer transfer = step(position + (int64_t)sent, size - sent, destination);
        if (transfer.sent == 0 && !transfer.interrupted)
            break;
        sent += transfer.sent;
    }
    EXPECT_EQ_I64(sent, size);
    return steps;
}

TEST(a_blocking_socket_and_a_pipe_take_everything)
{
    begin();
    int pair[2];
    REQUIRE_EQ_I64(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    drain *reader = drain_start(pair[1], 0);
    (void)send_all(1234, FILE_BYTES - 1234, pair[0]);
    (void)close(pair[0]);
    drain_end(reader, 1234, FILE_BYTES - 1234);
    REQUIRE_EQ_I64(pipe(pair), 0);
    reader = drain_start(pair[0], 0);
    (void)send_all(7, 500000, pair[1]);
    (void)close(pair[1]);
    drain_end(reader, 7, 500000);
    EXPECT_EQ_I64(lseek(file, 0, SEEK_CUR), 0); /* others read by position meanwhile */
    end();
}

TEST(a_full_pipe_that_does_not_wait_says_so)
{
    begin();
    int pair[2];
    REQUIRE_EQ_I64(pipe2(pair, O_NONBLOCK), 0);
    size_t sent = 0;
    sgs_transfer transfer;
    do {
        transfer = step((int64_t)sent, FILE_BYTES - sent, pair[1]);
        sent += transfer.sent;
    } while (transfer.sent > 0);
    EXPECT_TRUE(transfer.would_block && !transfer.interrupted);
    EXPECT_TRUE(sent > 0 && sent <= PIPE_BYTES);
    uint8_t *arrived = malloc(FILE_BYTES);
    EXPECT_EQ_I64(read(pair[0], arrived, FILE_BYTES), sent);
    EXPECT_MEM(arrived, content, sent);
    EXPECT_TRUE(step((int64_t)sent, 4096, pair[1]).sent > 0); /* there is room again */
    free(arrived);
    (void)close(pair[0]);
    (void)close(pair[1]);
    end();
}

TEST(a_peer_that_is_gone_is_an_error_of_the_destination)
{
    begin();
    int pair[2];
    sgs_transfer transfer;
    REQUIRE_EQ_I64(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    (void)close(pair[1]);
    EXPECT_STATUS(env->send_file(env, file, "a.log", 5, 100, pair[0], &transfer, &err), SGS_SEND_FAILED);
    EXPECT_EQ_I64(err.os_error, EPIPE);
    EXPECT_TEXT(err.file, "a.log");
    EXPECT_EQ_I64(err.position, 5);
    (void)close(pair[0]);
    EXPECT_STATUS(env->send_file(env, file, "a.log", 0, 100, pair[0], &transfer, &err), SGS_SEND_FAILED);
    EXPECT_EQ_I64(err.os_error, EBADF);
    REQUIRE_EQ_I64(pipe(pair), 0);
    EXPECT_STATUS(env->send_file(env, file, "a.log", 0, 100, pair[0], &transfer, &err), SGS_SEND_FAILED);
    EXPECT_EQ_I64(err.os_error, EBADF); /* the reading end */
    (void)close(pair[0]);
    (void)close(pair[1]);
    end();
}

TEST(a_file_takes_bytes_where_it_stands_and_so_does_one_that_appends)
{
    /* sendfile refuses the second one: its bytes are copied */
    begin();
    uint8_t *found = malloc(FILE_BYTES);
    temporary_write(&directory, "plain", "xyz", 3);
    temporary_write(&directory, "appends", "xyz", 3);
    const int plain = openat(directory.fd, "plain", O_WRONLY);
    const int appends = openat(directory.fd, "appends", O_WRONLY | O_APPEND);
    EXPECT_EQ_I64(lseek(plain, 3, SEEK_SET), 3);
    (void)send_all(1, 100000, plain);
    (void)send_all(1, 100000, appends);
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ_I64(temporary_read(&directory, i == 0 ? "plain" : "appends", found, FILE_BYTES), 100003);
        EXPECT_MEM(found, "xyz", 3);
        EXPECT_MEM(found + 3, content + 1, 100000);
    }
    (void)close(plain);
    (void)close(appends);
    const int full = open("/dev/full", O_WRONLY | O_APPEND);
    if (full >= 0) {
        sgs_transfer transfer;
        EXPECT_STATUS(env->send_file(env, file, "a.log", 0, 100, full, &transfer, &err), SGS_SEND_FAILED);
        EXPECT_EQ_I64(err.os_error, ENOSPC); /* not of the log's disk */
        (void)close(full);
    }
    free(found);
    end();
}

TEST(the_end_of_the_file_is_nothing_sent_and_no_reason)
{
    begin();
    int pair[2];
    REQUIRE_EQ_I64(pipe(pair), 0);
    temporary_write(&directory, "appended", "", 0);
    const int appends = openat(directory.fd, "appended", O_WRONLY | O_APPEND);
    EXPECT_EQ_I64(step(FILE_BYTES - 10, 4096, pair[1]).sent, 10);
    for (int i = 0; i < 2; ++i) {
        const sgs_transfer transfer = step(FILE_BYTES, 4096, i == 0 ? pair[1] : appends);
        EXPECT_TRUE(transfer.sent == 0 && !transfer.would_block && !transfer.interrupted);
    }
    (void)close(appends);
    (void)close(pair[0]);
    (void)close(pair[1]);
    end();
}

static void on_alarm(int number) { (void)number; }

/* A peer that reads late keeps a step waiting: a signal ends it, with or without progress, and nothing is sent twice. */
TEST(a_signal_ends_a_step_and_no_byte_is_lost)
{
    begin();
    int pair[2];
    int interrupts = 0;
    size_t sent = 0;
    REQUIRE_EQ_I64(pipe(pair), 0);
    const struct sigaction action = { .sa_handler = on_alarm }; /* without SA_RESTART */
    struct sigaction before;
    REQUIRE_EQ_I64(sigaction(SIGALRM, &action, &before), 0);
    drain *reader = drain_start(pair[0], 50000);
    const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
    REQUIRE_EQ_I64(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (sent < FILE_BYTES) {
        const sgs_transfer transfer = step((int64_t)sent, FILE_BYTES - sent, pair[1]);
        interrupts += transfer.interrupted;
        EXPECT_TRUE(transfer.sent > 0 || transfer.interrupted);
        sent += transfer.sent;
    }
    const struct itimerval never = { { 0, 0 }, { 0, 0 } };
    REQUIRE_EQ_I64(setitimer(ITIMER_REAL, &never, NULL), 0);
    (void)close(pair[1]);
    drain_end(reader, 0, FILE_BYTES);
    REQUIRE_EQ_I64(sigaction(SIGALRM, &before, NULL), 0);
    EXPECT_TRUE(interrupts > 0); /* the reader slept for 50 ms */
    end();
}

TEST_MAIN()
