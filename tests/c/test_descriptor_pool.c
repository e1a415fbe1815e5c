/* Handles whose descriptors are closed above a limit, and opened again by their paths. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/descriptor_pool.h"
#include "temporary.h"
#include "test.h"

/* ---- a pool over the real environment, of which calls can fail ---- */

typedef struct faulty {
    sgs_env env; /* first: its functions are handed it */
    int64_t limit;
    _Atomic int syncs;
    int failing_syncs; /* of the next ones */
    int sync_error;    /* errno of those; 0 = none is told */
    int failing_opens; /* with `open_error` */
    int failing_directory_opens;
    int failing_lists;
    int open_error;
    int failing_infos; /* of open files, and of names: with EIO */
    int failing_infos_at;
    int failing_unlinks;    /* with EIO */
    int allocations_before; /* those that fail */
    int failing_allocations;
    uint64_t device, inode;       /* of everything; 0 = the truth */
    int64_t born_ns;              /* of everything; -1 = the truth */
    _Atomic int64_t births_asked; /* threads ask at once */
    /* called once, from the next open of a file or sync of a directory: what another thread does at that moment */
    void (*meanwhile)(void *context);
    void *context;
} faulty;

typedef struct fixture {
    temporary place;
    faulty base;
    sgs_descriptor_pool pool;
    const sgs_env *env;
    int directory;
    sgs_error err;
} fixture;

static faulty *faulty_of(const sgs_env *env) { return (faulty *)(uintptr_t)env; }

static int64_t limit_of_faulty(const sgs_env *env) { return faulty_of(env)->limit; }

static void do_meanwhile(faulty *base)
{
    void (*const meanwhile)(void *context) = base->meanwhile;
    if (meanwhile == NULL)
        return;
    base->meanwhile = NULL;
    meanwhile(base->context);
}

static sgs_status fail_sync(const sgs_env *env, const char *name, sgs_error *err)
{
    faulty *base = faulty_of(env);
    base->syncs += 1;
    if (base->failing_syncs == 0)
        return SGS_OK;
    base->failing_syncs -= 1;
    sgs_fail(err, SGS_FSYNC_FAILED, "planted");
    err->os_error = base->sync_error;
    return sgs_fail_in_file(err, name);
}

static sgs_status sync_data(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    SGS_TRY(fail_sync(env, name, err));
    return sgs_env_posix()->sync_data(sgs_env_posix(), fd, name, barrier, err);
}

static sgs_status sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err)
{
    do_meanwhile(faulty_of(env));
    SGS_TRY(fail_sync(env, ".", err));
    return sgs_env_posix()->sync_directory(sgs_env_posix(), fd, barrier, err);
}

static sgs_status fail_open(const faulty *base, int *left, sgs_error *err)
{
    if (*left == 0)
        return SGS_OK;
    *left -= 1;
    sgs_fail(err, SGS_RESOURCE, "planted");
    err->os_error = base->open_error;
    return SGS_RESOURCE;
}

static sgs_status open_directory(const sgs_env *env, int parent, const char *path, int *fd, sgs_error *err)
{
    SGS_TRY(fail_open(faulty_of(env), &faulty_of(env)->failing_directory_opens, err));
    return sgs_env_posix()->open_directory(sgs_env_posix(), parent, path, fd, err);
}

static sgs_status list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err)
{
    SGS_TRY(fail_open(faulty_of(env), &faulty_of(env)->failing_lists, err));
    return sgs_env_posix()->list_directory(sgs_env_posix(), fd, visit, context, err);
}

static sgs_status open_file(const sgs_env *env, int directory, const char *name, sgs_open_mode mode, int *fd,
                            sgs_error *err)
{
    do_meanwhile(faulty_of(env));
    SGS_TRY(fail_open(faulty_of(env), &faulty_of(env)->failing_opens, err));
    return sgs_env_posix()->open_file(sgs_env_posix(), directory, name, mode, fd, err);
}

static sgs_status unlink_file(const sgs_env *env, int directory, const char *name, sgs_error *err)
{
    if (faulty_of(env)->failing_unlinks > 0) {
        faulty_of(env)->failing_unlinks -= 1;
        return sgs_fail(err, SGS_WRITE_IO, "planted");
    }
    return sgs_env_posix()->unlink(sgs_env_posix(), directory, name, err);
}

static void *allocate(const sgs_env *env, size_t size)
{
    if (faulty_of(env)->allocations_before > 0) {
        faulty_of(env)->allocations_before -= 1;
    } else if (faulty_of(env)->failing_allocations > 0) {
        faulty_of(env)->failing_allocations -= 1;
        return NULL;
    }
    return malloc(size);
}

static sgs_status fail_info(int *left, const char *name, sgs_error *err)
{
    if (*left == 0)
        return SGS_OK;
    *left -= 1;
    sgs_fail(err, SGS_READ_IO, "planted");
    return sgs_fail_in_file(err, name);
}

static sgs_status file_info_at(const sgs_env *env, int directory, const char *name, sgs_file_info *info, sgs_error *err)
{
    SGS_TRY(fail_info(&faulty_of(env)->failing_infos_at, name, err));
    return sgs_env_posix()->file_info_at(sgs_env_posix(), directory, name, info, err);
}

static sgs_status file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    SGS_TRY(fail_info(&faulty_of(env)->failing_infos, name, err));
    SGS_TRY(sgs_env_posix()->file_info(sgs_env_posix(), fd, name, info, err));
    info->device = faulty_of(env)->device != 0 ? faulty_of(env)->device : info->device;
    info->inode = faulty_of(env)->inode != 0 ? faulty_of(env)->inode : info->inode;
    return SGS_OK;
}

static int64_t birth_ns(const sgs_env *env, int fd)
{
    const int64_t planted = faulty_of(env)->born_ns;
    faulty_of(env)->births_asked += 1;
    return planted >= 0 ? planted : sgs_env_posix()->birth_ns(sgs_env_posix(), fd);
}

static void begin(fixture *f, int64_t limit)
{
    f->place = temporary_open();
    f->base =
        (faulty){ .env = *sgs_env_posix(), .limit = 2 * limit, .born_ns = -1, .open_error = EMFILE, .sync_error = EIO };
    f->base.env.file_info = file_info;
    f->base.env.file_info_at = file_info_at;
    f->base.env.list_directory = list_directory;
    f->base.env.birth_ns = birth_ns;
    f->base.env.descriptor_limit = limit_of_faulty;
    f->base.env.sync_data = sync_data;
    f->base.env.sync_directory = sync_directory;
    f->base.env.open_file = open_file;
    f->base.env.open_directory = open_directory;
    f->base.env.unlink = unlink_file;
    f->base.env.allocate = allocate;
    sgs_descriptor_pool_init(&f->pool, &f->base.env);
    f->env = &f->pool.env;
    f->directory = -1;
    REQUIRE_OK(f->env->open_directory(f->env, SGS_CWD, f->place.path, &f->directory, &f->err), &f->err);
}

static void end(fixture *f)
{
    EXPECT_OK(f->env->close(f->env, f->directory, ".", &f->err), &f->err);
    temporary_close(&f->place);
    uint32_t open_count;
    uint64_t evictions;
    sgs_descriptor_pool_count(&f->pool, &open_count, &evictions);
    EXPECT_EQ_I64(open_count, 0);
    for (int i = 0; i < SGS_POOL_CHUNKS; ++i)
        free(f->pool.chunks[i]);
}

static uint32_t open_count(fixture *f)
{
    uint32_t count;
    uint64_t evictions;
    sgs_descriptor_pool_count(&f->pool, &count, &evictions);
    return count;
}

static int make(fixture *f, const char *name, const char *content)
{
    int fd = -1;
    if (content != NULL)
        temporary_write(&f->place, name, content, strlen(content));
    const sgs_open_mode mode = content != NULL ? SGS_OPEN_WRITE : SGS_OPEN_CREATE;
    EXPECT_OK(f->env->open_file(f->env, f->directory, name, mode, &fd, &f->err), &f->err);
    return fd;
}

static bool reads(fixture *f, int fd, const char *content)
{
    char data[64] = { 0 };
    size_t got = 0;
    if (f->env->read_at(f->env, fd, "", data, sizeof data - 1, 0, &got, &f->err) != SGS_OK)
        return false;
    return got == strlen(content) && memcmp(data, content, got) == 0;
}

static void write_to(fixture *f, int fd, const char *content)
{
    const sgs_slice slice = { (const uint8_t *)content, strlen(content) };
    int64_t written;
    EXPECT_OK(f->env->write_at(f->env, fd, "", &slice, 1, 0, &written, &f->err), &f->err);
}

static void close_file(fixture *f, int fd) { EXPECT_OK(f->env->close(f->env, fd, "", &f->err), &f->err); }

/* Let everything go that may. */
static void evict_all(fixture *f)
{
    sgs_descriptor_pool_limit(&f->pool, 1);
    int fd = -1;
    EXPECT_OK(f->env->open_directory(f->env, SGS_CWD, f->place.path, &fd, &f->err), &f->err);
    close_file(f, fd);
    sgs_descriptor_pool_limit(&f->pool, 0);
}

/* ---- the limit ---- */

TEST(no_more_are_open_than_the_limit_says_and_all_can_be_used)
{
    enum { FILES = 60, LIMIT = 10 };
    fixture f;
    int fds[FILES];
    char name[32];
    begin(&f, LIMIT);
    for (int i = 0; i < FILES; ++i) {
        snprintf(name, sizeof name, "file-%d", i);
        fds[i] = make(&f, name, name);
        EXPECT_TRUE(fds[i] >= SGS_FIRST_POOLED_HANDLE);
        EXPECT_TRUE(open_count(&f) <= LIMIT);
    }
    for (int round = 0; round < 2; ++round)
        for (int i = 0; i < FILES; ++i) {
            snprintf(name, sizeof name, "file-%d", i);
            EXPECT_TRUE(reads(&f, fds[i], name));
            EXPECT_TRUE(open_count(&f) <= LIMIT);
        }
    for (int i = 0; i < FILES; ++i)
        close_file(&f, fds[i]);
    end(&f);
}

TEST(the_limit_is_asked_for_again_and_may_fall)
{
    enum { FILES = 40 };
    fixture f;
    int fds[FILES];
    char name[32];
    begin(&f, 100);
    for (int i = 0; i < FILES; ++i) {
        snprintf(name, sizeof name, "file-%d", i);
        fds[i] = make(&f, name, name);
    }
    EXPECT_EQ_I64(open_count(&f), FILES + 1);
    f.base.limit = 0; /* there are eight at least */
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fds[3], "file-3"));
    EXPECT_TRUE(open_count(&f) <= 8);
    for (int i = 0; i < FILES; ++i)
        close_file(&f, fds[i]);
    end(&f);
}

TEST(where_the_process_has_none_left_one_is_given_back)
{
    fixture f;
    begin(&f, 100);
    const int first = make(&f, "first", "1");
    const int second = make(&f, "second", "2");
    f.base.failing_opens = 1;
    const int third = make(&f, "third", "3");
    EXPECT_EQ_I64(open_count(&f), 3); /* one of four is closed */
    EXPECT_TRUE(reads(&f, first, "1"));
    EXPECT_TRUE(reads(&f, second, "2"));
    EXPECT_TRUE(reads(&f, third, "3"));
    evict_all(&f);
    f.base.failing_opens = 10;
    EXPECT_EQ_I64(f.env->open_file(f.env, f.directory, "first", SGS_OPEN_READ, &(int){ 0 }, &f.err), SGS_RESOURCE);
    f.base.failing_opens = 0;
    close_file(&f, first);
    close_file(&f, second);
    close_file(&f, third);
    end(&f);
}

static sgs_status count_name(void *context, const char *name, sgs_error *err)
{
    (void)name;
    (void)err;
    *(int *)context += 1;
    return SGS_OK;
}

/* Whatever needs a descriptor tries again once one was given back, also where the system has none left. */
TEST(every_open_tries_again_when_one_was_given_back)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    for (int of_system = 0; of_system < 2; ++of_system) {
        int names = 0, directory = -1;
        f.base.open_error = of_system == 1 ? ENFILE : EMFILE;
        EXPECT_TRUE(reads(&f, fd, "1"));
        f.base.failing_lists = 1;
        EXPECT_OK(f.env->list_directory(f.env, f.directory, count_name, &names, &f.err), &f.err);
        EXPECT_EQ_I64(names, 1);
        EXPECT_TRUE(reads(&f, fd, "1"));
        f.base.failing_directory_opens = 1;
        EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &directory, &f.err), &f.err);
        EXPECT_EQ_I64(f.base.failing_lists + f.base.failing_directory_opens, 0);
        close_file(&f, directory);
    }
    evict_all(&f);
    f.base.failing_directory_opens = 10; /* and says so where none can be */
    EXPECT_STATUS(f.env->list_directory(f.env, f.directory, count_name, &(int){ 0 }, &f.err), SGS_RESOURCE);
    f.base.failing_directory_opens = 0;
    close_file(&f, fd);
    end(&f);
}

/* Memory of the kernel is no descriptor: nothing is closed for it. */
TEST(another_resource_that_is_missing_takes_no_descriptor)
{
    fixture f;
    int fd = -1;
    uint32_t count;
    uint64_t before, after;
    begin(&f, 100);
    const int first = make(&f, "first", "1");
    sgs_descriptor_pool_count(&f.pool, &count, &before);
    f.base.open_error = ENOMEM;
    f.base.failing_opens = 1;
    EXPECT_STATUS(f.env->open_file(f.env, f.directory, "first", SGS_OPEN_READ, &fd, &f.err), SGS_RESOURCE);
    EXPECT_EQ_I64(f.base.failing_opens, 0);
    sgs_descriptor_pool_count(&f.pool, &count, &after);
    EXPECT_EQ_U64(after, before);
    evict_all(&f);
    f.base.failing_opens = 1;
    EXPECT_TRUE(!reads(&f, first, "1"));
    EXPECT_STATUS(f.err.status, SGS_RESOURCE);
    EXPECT_TRUE(reads(&f, first, "1"));
    close_file(&f, first);
    end(&f);
}

TEST(a_file_that_says_nothing_of_itself_is_not_opened)
{
    fixture f;
    int fd = -1;
    begin(&f, 100);
    const int first = make(&f, "first", "1");
    f.base.failing_infos = 1;
    EXPECT_STATUS(f.env->open_file(f.env, f.directory, "first", SGS_OPEN_READ, &fd, &f.err), SGS_READ_IO);
    EXPECT_TEXT(f.err.file, "first");
    EXPECT_EQ_I64(open_count(&f), 2);
    evict_all(&f);
    sgs_file_info info;
    EXPECT_OK(f.env->file_info_at(f.env, f.directory, "first", &info, &f.err),
              &f.err); /* the directory is open again */
    f.base.failing_infos = 1;
    EXPECT_TRUE(!reads(&f, first, "1")); /* is it the same? */
    EXPECT_STATUS(f.err.status, SGS_READ_IO);
    EXPECT_EQ_I64(open_count(&f), 1);
    EXPECT_TRUE(reads(&f, first, "1"));
    close_file(&f, first);
    end(&f);
}

TEST(what_is_no_handle_passes_through)
{
    fixture f;
    begin(&f, 10);
    int fd = -1;
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, ".", &fd, &f.err), &f.err); /* another one after a chdir */
    EXPECT_TRUE(fd < SGS_FIRST_POOLED_HANDLE);
    EXPECT_TRUE(f.env->sync_directory(f.env, fd, SGS_BARRIER(CLOSED_NAMES), &f.err) == SGS_OK);
    close_file(&f, fd);
    EXPECT_OK(f.env->open_directory(f.env, f.directory, ".", &fd, &f.err), &f.err); /* its path is not known */
    EXPECT_TRUE(fd < SGS_FIRST_POOLED_HANDLE);
    close_file(&f, fd);
    temporary_write(&f.place, "a", "x", 1);
    EXPECT_OK(f.env->open_file(f.env, f.place.fd, "a", SGS_OPEN_WRITE, &fd, &f.err), &f.err);
    EXPECT_TRUE(fd < SGS_FIRST_POOLED_HANDLE);
    f.env->note_owner(f.env, fd, NULL, NULL);
    EXPECT_OK(f.env->rename(f.env, f.place.fd, "a", "b", &f.err), &f.err);
    EXPECT_OK(f.env->lock(f.env, fd, "b", SGS_LOCK_EXCLUSIVE, &f.err), &f.err);
    EXPECT_OK(f.env->unlock(f.env, fd, "b", &f.err), &f.err);
    EXPECT_OK(f.env->unlink(f.env, f.place.fd, "b", &f.err), &f.err);
    write_to(&f, fd, "y");
    EXPECT_TRUE(reads(&f, fd, "y"));
    close_file(&f, fd);
    end(&f);
}

TEST(every_call_finds_what_was_closed)
{
    fixture f;
    sgs_file_info info;
    bool is_network;
    void *address;
    sgs_transfer transfer;
    int pipes[2];
    begin(&f, 100);
    const int fd = make(&f, "a", "twelve bytes");
    const sgs_env *env = f.env;
    REQUIRE_TRUE(pipe(pipes) == 0);
#define AGAIN(call)              \
    do {                         \
        evict_all(&f);           \
        EXPECT_OK(call, &f.err); \
    } while (0)
    AGAIN(env->file_info(env, fd, "a", &info, &f.err));
    AGAIN(env->file_info_at(env, f.directory, "a", &info, &f.err));
    AGAIN(env->file_info(env, f.directory, ".", &info, &f.err));
    AGAIN(env->set_modified_at(env, f.directory, "a", 1000, &f.err));
    close_file(&f, make(&f, "b", ""));
    AGAIN(env->make_read_only_at(env, f.directory, "b", &f.err));
    AGAIN(env->allocate_space(env, fd, "a", 4096, &f.err));
    AGAIN(env->truncate(env, fd, "a", 12, &f.err));
    AGAIN(env->sync_data(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err));
    AGAIN(env->sync_file(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err));
    AGAIN(env->sync_directory(env, f.directory, SGS_BARRIER(APPENDED_NAMES), &f.err));
    AGAIN(env->is_network_file_system(env, f.directory, &is_network, &f.err));
    AGAIN(env->send_file(env, fd, "a", 0, 12, pipes[1], &transfer, &f.err));
    AGAIN(env->make_directory(env, f.directory, "inner", &f.err));
    AGAIN(env->remove_directory(env, f.directory, "inner", &f.err));
    AGAIN(env->map(env, fd, "a", 4096, true, &address, &f.err));
    evict_all(&f);
    EXPECT_TRUE(memcmp(address, "twelve bytes", 12) == 0);
    env->unmap(env, address, 4096);
    evict_all(&f);
    env->drop_cache(env, fd, 0, 0);
    evict_all(&f);
    env->read_ahead(env, fd, 0, 0);
    EXPECT_TRUE(reads(&f, fd, "twelve bytes"));
    close(pipes[0]);
    close(pipes[1]);
    close_file(&f, fd);
    end(&f);
}

TEST(every_call_says_that_it_cannot_open_again)
{
    fixture f;
    sgs_file_info info;
    bool is_network;
    void *address;
    sgs_transfer transfer;
    int64_t written = 7;
    size_t got;
    int made;
    const sgs_slice nothing = { (const uint8_t *)"", 0 };
    begin(&f, 100);
    const int fd = make(&f, "a", "twelve bytes");
    const sgs_env *env = f.env;
    char moved[300];
    snprintf(moved, sizeof moved, "%s.moved", f.place.path);
    evict_all(&f);
    REQUIRE_TRUE(rename(f.place.path, moved) == 0);
#define NOT_FOUND(call) EXPECT_EQ_I64(call, SGS_NOT_FOUND)
    NOT_FOUND(env->file_info(env, fd, "a", &info, &f.err));
    NOT_FOUND(env->file_info_at(env, f.directory, "a", &info, &f.err));
    NOT_FOUND(env->set_modified_at(env, f.directory, "a", 1000, &f.err));
    NOT_FOUND(env->make_read_only_at(env, f.directory, "a", &f.err));
    NOT_FOUND(env->allocate_space(env, fd, "a", 4096, &f.err));
    NOT_FOUND(env->truncate(env, fd, "a", 12, &f.err));
    NOT_FOUND(env->sync_data(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err));
    NOT_FOUND(env->sync_directory(env, f.directory, SGS_BARRIER(APPENDED_NAMES), &f.err));
    NOT_FOUND(env->is_network_file_system(env, f.directory, &is_network, &f.err));
    NOT_FOUND(env->send_file(env, fd, "a", 0, 12, 1, &transfer, &f.err));
    NOT_FOUND(env->make_directory(env, f.directory, "inner", &f.err));
    NOT_FOUND(env->remove_directory(env, f.directory, "inner", &f.err));
    NOT_FOUND(env->open_directory(env, f.directory, "inner", &made, &f.err));
    NOT_FOUND(env->list_directory(env, f.directory, NULL, NULL, &f.err));
    NOT_FOUND(env->open_file(env, f.directory, "a", SGS_OPEN_READ, &made, &f.err));
    NOT_FOUND(env->rename(env, f.directory, "a", "b", &f.err));
    NOT_FOUND(env->unlink(env, f.directory, "a", &f.err));
    NOT_FOUND(env->map(env, fd, "a", 4096, true, &address, &f.err));
    NOT_FOUND(env->lock(env, fd, "a", SGS_LOCK_SHARED, &f.err));
    NOT_FOUND(env->unlock(env, fd, "a", &f.err));
    NOT_FOUND(env->read_at(env, fd, "a", NULL, 0, 0, &got, &f.err));
    NOT_FOUND(env->write_at(env, fd, "a", &nothing, 1, 0, &written, &f.err));
    EXPECT_EQ_I64(written, 0);
    env->drop_cache(env, fd, 0, 0);
    env->read_ahead(env, fd, 0, 0);
    REQUIRE_TRUE(rename(moved, f.place.path) == 0);
    EXPECT_TRUE(reads(&f, fd, "twelve bytes"));
    close_file(&f, fd);
    end(&f);
}

/* ---- what stands at a path ---- */

TEST(another_directory_at_the_path_is_an_error_of_its_own)
{
    fixture f;
    sgs_file_info info;
    char moved[300];
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    snprintf(moved, sizeof moved, "%s.moved", f.place.path);
    evict_all(&f);
    REQUIRE_TRUE(rename(f.place.path, moved) == 0);
    int other = -1;
    EXPECT_OK(f.env->make_directory(f.env, SGS_CWD, f.place.path, &f.err), &f.err);
    EXPECT_EQ_I64(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), SGS_DIRECTORY_REPLACED);
    EXPECT_EQ_I64(f.env->file_info(f.env, fd, "a", &info, &f.err), SGS_DIRECTORY_REPLACED);
    EXPECT_TRUE(strcmp(f.err.file, f.place.path) == 0);
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &other, &f.err), &f.err); /* a new one is fine */
    close_file(&f, other);
    REQUIRE_TRUE(rmdir(f.place.path) == 0);
    REQUIRE_TRUE(rename(moved, f.place.path) == 0);
    EXPECT_TRUE(reads(&f, fd, "1")); /* it came back */
    close_file(&f, fd);
    end(&f);
}

TEST(another_file_of_the_name_is_not_the_one_that_was_opened)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "old");
    temporary_write(&f.place, "b", "new", 3);
    REQUIRE_TRUE(renameat(f.place.fd, "b", f.place.fd, "a") == 0); /* another process did */
    EXPECT_TRUE(reads(&f, fd, "old"));
    evict_all(&f);
    EXPECT_TRUE(!reads(&f, fd, "new"));
    EXPECT_EQ_I64(f.err.status, SGS_NOT_FOUND);
    close_file(&f, fd);
    end(&f);

    begin(&f, 100);
    const int moved = make(&f, "a", "old");
    sgs_file_info info;
    evict_all(&f);
    EXPECT_OK(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), &f.err);
    f.base.device = info.device + 1; /* another file system is mounted there, and has the same inode */
    EXPECT_TRUE(!reads(&f, moved, "old"));
    EXPECT_EQ_I64(f.err.status, SGS_NOT_FOUND);
    f.base.device = 0;
    EXPECT_TRUE(reads(&f, moved, "old"));
    close_file(&f, moved);
    end(&f);
}

/* Three calls of the system for a small file that is read and closed. */
TEST(the_birth_is_asked_once_and_only_of_what_the_pool_closes)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    close_file(&f, make(&f, "b", "2"));
    EXPECT_EQ_I64(f.base.births_asked, 0);
    f.base.born_ns = 100;
    evict_all(&f);
    EXPECT_EQ_I64(f.base.births_asked, 2); /* of the file and its directory */
    EXPECT_TRUE(reads(&f, fd, "1"));
    EXPECT_EQ_I64(f.base.births_asked, 4); /* is it the same? */
    evict_all(&f);
    EXPECT_EQ_I64(f.base.births_asked, 4);
    close_file(&f, fd);
    end(&f);
}

/* ext4 gives the inode of what was removed to the next that is made. */
TEST(another_one_that_got_the_inode_is_told_by_its_birth)
{
    fixture f;
    sgs_file_info info;
    char moved[300];
    begin(&f, 100);
    close_file(&f, f.directory);
    f.base.inode = 7;
    f.base.born_ns = 100;
    REQUIRE_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &f.directory, &f.err), &f.err);
    const int fd = make(&f, "a", "1");
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    evict_all(&f);
    f.base.born_ns = 101;
    EXPECT_TRUE(!reads(&f, fd, "1"));
    EXPECT_EQ_I64(f.err.status, SGS_DIRECTORY_REPLACED);
    EXPECT_EQ_I64(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), SGS_DIRECTORY_REPLACED);
    f.base.born_ns = 100; /* the directory is there again, and open */
    EXPECT_OK(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), &f.err);
    f.base.born_ns = 101;
    EXPECT_TRUE(!reads(&f, fd, "1"));
    EXPECT_EQ_I64(f.err.status, SGS_NOT_FOUND);
    f.base.born_ns = 0; /* nobody can tell */
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, fd);

    f.base.inode = 0; /* and by the system's word */
    f.base.born_ns = -1;
    int inner = -1;
    snprintf(moved, sizeof moved, "%s/inner", f.place.path);
    for (int turn = 0; turn < 8; ++turn) { /* until the inode is the same, where it ever is */
        REQUIRE_OK(f.env->make_directory(f.env, SGS_CWD, moved, &f.err), &f.err);
        REQUIRE_OK(f.env->open_directory(f.env, SGS_CWD, moved, &inner, &f.err), &f.err);
        evict_all(&f);
        REQUIRE_TRUE(rmdir(moved) == 0);
        usleep(20000); /* beyond a tick of the file system's clock */
        REQUIRE_OK(f.env->make_directory(f.env, SGS_CWD, moved, &f.err), &f.err);
        EXPECT_EQ_I64(f.env->file_info(f.env, inner, ".", &info, &f.err), SGS_DIRECTORY_REPLACED);
        close_file(&f, inner);
        REQUIRE_TRUE(rmdir(moved) == 0);
    }
    end(&f);
}

TEST(a_file_is_followed_when_it_is_renamed_here)
{
    fixture f;
    int again = -1;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    const int replaced = make(&f, "b", "2");
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &again, &f.err), &f.err);
    EXPECT_OK(f.env->rename(f.env, again, "a", "b", &f.err), &f.err); /* by another handle of the directory */
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    EXPECT_TRUE(reads(&f, replaced, "2")); /* which nothing would find again: it stayed open */
    EXPECT_EQ_I64(f.env->rename(f.env, again, "a", "c", &f.err), SGS_NOT_FOUND);
    f.base.failing_allocations = 1; /* the new name cannot be kept */
    EXPECT_OK(f.env->rename(f.env, again, "b", "c", &f.err), &f.err);
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, fd);
    close_file(&f, replaced);
    close_file(&f, again);
    end(&f);
}

TEST(a_directory_is_followed_when_it_is_renamed_here)
{
    fixture f;
    char path[300];
    int inner = -1, fd = -1;
    begin(&f, 100);
    snprintf(path, sizeof path, "%s/t-0", f.place.path);
    EXPECT_OK(f.env->make_directory(f.env, f.directory, "t-0", &f.err), &f.err);
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, path, &inner, &f.err), &f.err);
    EXPECT_OK(f.env->open_file(f.env, inner, "a", SGS_OPEN_CREATE, &fd, &f.err), &f.err);
    write_to(&f, fd, "1");
    EXPECT_OK(f.env->rename(f.env, f.directory, "t-0", "t-0-delete", &f.err), &f.err);
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    int other = -1;
    EXPECT_OK(f.env->open_file(f.env, inner, "b", SGS_OPEN_CREATE, &other, &f.err), &f.err);
    close_file(&f, inner); /* before its files */
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, other);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, fd);
    end(&f);
}

/* Whether it was a directory cannot be told: files of that name are followed. */
TEST(a_file_is_followed_when_nothing_is_said_of_what_was_renamed)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    f.base.failing_infos_at = 1;
    EXPECT_OK(f.env->rename(f.env, f.directory, "a", "b", &f.err), &f.err);
    EXPECT_EQ_I64(f.base.failing_infos_at, 0);
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, fd);
    end(&f);
}

/* A path has 4095 bytes at most. A handle whose new path would be longer keeps the old one, where nothing is any more. */
TEST(a_directory_whose_new_path_is_too_long_is_not_found_again)
{
    fixture f;
    sgs_file_info info;
    char path[300], longest[4090];
    int inner = -1, outer = -1;
    begin(&f, 100);
    snprintf(path, sizeof path, "%s/inner", f.place.path);
    memcpy(longest, f.place.path, strlen(f.place.path));
    for (size_t at = strlen(f.place.path); at < sizeof longest; ++at)
        longest[at] = '/';
    longest[sizeof longest - 1] = '\0';
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, longest, &outer, &f.err), &f.err);
    EXPECT_OK(f.env->make_directory(f.env, f.directory, "inner", &f.err), &f.err);
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, path, &inner, &f.err), &f.err);
    EXPECT_OK(f.env->rename(f.env, outer, "inner", "renamed", &f.err), &f.err);
    EXPECT_OK(f.env->file_info(f.env, inner, ".", &info, &f.err), &f.err);
    evict_all(&f);
    EXPECT_STATUS(f.env->file_info(f.env, inner, ".", &info, &f.err), SGS_NOT_FOUND);
    EXPECT_OK(f.env->rename(f.env, f.directory, "renamed", "inner", &f.err), &f.err);
    EXPECT_OK(f.env->file_info(f.env, inner, ".", &info, &f.err), &f.err);
    close_file(&f, inner);
    close_file(&f, outer);
    end(&f);
}

/* Its descriptor was given back before: it has nothing to be kept by. */
TEST(a_closed_file_that_is_unlinked_is_not_found_again)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    evict_all(&f);
    EXPECT_OK(f.env->unlink(f.env, f.directory, "a", &f.err), &f.err);
    EXPECT_TRUE(!reads(&f, fd, "1"));
    EXPECT_STATUS(f.err.status, SGS_NOT_FOUND);
    close_file(&f, fd);
    end(&f);
}

TEST(an_unlinked_file_stays_open)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    f.base.failing_unlinks = 1;
    EXPECT_EQ_I64(f.env->unlink(f.env, f.directory, "a", &f.err), SGS_WRITE_IO);
    evict_all(&f); /* it still has its name */
    EXPECT_TRUE(reads(&f, fd, "1"));
    EXPECT_OK(f.env->unlink(f.env, f.directory, "a", &f.err), &f.err);
    evict_all(&f);
    EXPECT_TRUE(reads(&f, fd, "1"));
    close_file(&f, fd);
    end(&f);
}

TEST(a_lock_stays)
{
    fixture f;
    int other = -1;
    begin(&f, 100);
    const int fd = make(&f, "lock", "");
    EXPECT_OK(f.env->lock(f.env, fd, "lock", SGS_LOCK_EXCLUSIVE, &f.err), &f.err);
    EXPECT_EQ_I64(open_count(&f), 1); /* it does not count */
    f.base.failing_unlinks = 1;
    EXPECT_EQ_I64(f.env->unlink(f.env, f.directory, "lock", &f.err), SGS_WRITE_IO);
    EXPECT_EQ_I64(open_count(&f), 1); /* nor does it after that */
    evict_all(&f);
    EXPECT_OK(f.env->open_file(f.env, f.directory, "lock", SGS_OPEN_WRITE, &other, &f.err), &f.err);
    EXPECT_EQ_I64(f.env->lock(f.env, other, "lock", SGS_LOCK_EXCLUSIVE, &f.err), SGS_LOCKED);
    EXPECT_OK(f.env->unlock(f.env, fd, "lock", &f.err), &f.err);
    EXPECT_OK(f.env->lock(f.env, other, "lock", SGS_LOCK_EXCLUSIVE, &f.err), &f.err);
    close_file(&f, fd);
    close_file(&f, other);
    end(&f);
}

/* ---- what was written ---- */

TEST(what_was_written_is_synced_before_it_is_closed)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    evict_all(&f);
    EXPECT_EQ_I64(f.base.syncs, 0);
    write_to(&f, fd, "2");
    evict_all(&f);
    EXPECT_EQ_I64(f.base.syncs, 1);
    EXPECT_TRUE(reads(&f, fd, "2"));
    evict_all(&f);
    EXPECT_EQ_I64(f.base.syncs, 1);
    write_to(&f, fd, "3");
    EXPECT_OK(f.env->sync_data(f.env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err), &f.err);
    evict_all(&f); /* by its owner, already */
    EXPECT_EQ_I64(f.base.syncs, 2);
    EXPECT_OK(f.env->unlink(f.env, f.directory, "b", &f.err) == SGS_NOT_FOUND ? SGS_OK : SGS_INTERNAL, &f.err);
    evict_all(&f); /* a name may have changed */
    EXPECT_EQ_I64(f.base.syncs, 3);
    close_file(&f, fd);
    end(&f);
}

TEST(a_failed_sync_is_the_answer_to_every_later_one)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    write_to(&f, fd, "2");
    f.base.failing_syncs = 1;
    evict_all(&f);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ_I64(f.env->sync_data(f.env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err), SGS_FSYNC_FAILED);
        EXPECT_EQ_I64(f.err.os_error, EIO);
        evict_all(&f);
    }
    EXPECT_EQ_I64(f.base.syncs, 1);
    EXPECT_TRUE(reads(&f, fd, "2"));
    f.base.failing_syncs = 1;
    const int other = make(&f, "b", "1");
    EXPECT_EQ_I64(f.env->sync_data(f.env, other, "b", SGS_BARRIER(APPENDED_RECORDS), &f.err), SGS_FSYNC_FAILED);
    evict_all(&f); /* its caller knows: the pool tries again, and keeps no failure of its own */
    EXPECT_EQ_I64(f.base.syncs, 3);
    EXPECT_OK(f.env->sync_data(f.env, other, "b", SGS_BARRIER(APPENDED_RECORDS), &f.err), &f.err);
    close_file(&f, fd);
    close_file(&f, other);
    end(&f);
}

TEST(a_failed_sync_without_an_errno_is_an_error_of_the_device)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    write_to(&f, fd, "2");
    f.base.failing_syncs = 1;
    f.base.sync_error = 0;
    evict_all(&f);
    EXPECT_EQ_I64(f.env->sync_data(f.env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err), SGS_FSYNC_FAILED);
    EXPECT_EQ_I64(f.err.os_error, EIO);
    close_file(&f, fd);
    end(&f);
}

/* [DUR-35] The kernel has told the pool, and tells no descriptor that is opened later. A file that is made in its place is
 * another one, with the same inode too. */
TEST(a_failed_sync_is_known_beyond_the_close)
{
    fixture f;
    begin(&f, 100);
    int fd = make(&f, "a", "1");
    write_to(&f, fd, "2");
    f.base.failing_syncs = 1;
    evict_all(&f);
    close_file(&f, fd);
    static const sgs_open_mode modes[] = { SGS_OPEN_WRITE, SGS_OPEN_WRITE_OR_CREATE, SGS_OPEN_WRITE };
    for (int i = 0; i < 3; ++i) {
        REQUIRE_OK(f.env->open_file(f.env, f.directory, "a", modes[i], &fd, &f.err), &f.err);
        EXPECT_STATUS(f.env->sync_data(f.env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &f.err), SGS_FSYNC_FAILED);
        EXPECT_EQ_I64(f.err.os_error, EIO);
        EXPECT_STATUS(f.env->sync_file(f.env, fd, "a", SGS_BARRIER(INDEXES), &f.err), SGS_FSYNC_FAILED);
        close_file(&f, fd);
    }
    EXPECT_EQ_I64(f.base.syncs, 1);
    REQUIRE_OK(f.env->open_file(f.env, f.directory, "a", SGS_OPEN_READ, &fd, &f.err), &f.err);
    evict_all(&f); /* a reader's goes, as others do */
    EXPECT_EQ_I64(open_count(&f), 0);
    EXPECT_TRUE(reads(&f, fd, "2"));
    close_file(&f, fd);

    const int other = make(&f, "b", "1");
    EXPECT_OK(f.env->sync_data(f.env, other, "b", SGS_BARRIER(APPENDED_RECORDS), &f.err), &f.err);
    close_file(&f, other);
    end(&f);
}

TEST(a_file_that_got_the_inode_of_one_whose_sync_failed_is_another_one)
{
    fixture f;
    begin(&f, 100);
    f.base.inode = 77; /* of both files, and no time of birth */
    f.base.born_ns = 0;
    int fd = make(&f, "a", "1");
    write_to(&f, fd, "2");
    f.base.failing_syncs = 1;
    evict_all(&f);
    close_file(&f, fd);
    f.base.inode = 0;
    sgs_file_info info;
    EXPECT_OK(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), &f.err); /* the directory is open again */
    f.base.inode = 77;
    for (int i = 0; i < 2; ++i) {
        REQUIRE_OK(f.env->open_file(f.env, f.directory, "b", i == 0 ? SGS_OPEN_CREATE : SGS_OPEN_WRITE, &fd, &f.err),
                   &f.err);
        EXPECT_OK(f.env->sync_data(f.env, fd, "b", SGS_BARRIER(APPENDED_RECORDS), &f.err), &f.err);
        close_file(&f, fd);
    }
    end(&f);
}

static void close_the_directory(void *context)
{
    fixture *f = context;
    sgs_error ignored;
    (void)f->env->close(f->env, f->directory, ".", &ignored);
    f->directory = -1;
}

/* Another thread closes the directory while this one opens a file in it again: its descriptor stays until that is done. */
TEST(a_directory_that_files_need_is_closed_with_the_last_of_them)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    evict_all(&f);
    f.base.meanwhile = close_the_directory;
    f.base.context = &f;
    EXPECT_TRUE(reads(&f, fd, "1"));
    EXPECT_EQ_I64(f.directory, -1);
    EXPECT_TRUE(reads(&f, fd, "1"));
    evict_all(&f);
    EXPECT_EQ_I64(open_count(&f), 0); /* it may go before, and comes back */
    EXPECT_TRUE(reads(&f, fd, "1"));
    EXPECT_EQ_I64(open_count(&f), 2);
    close_file(&f, fd);
    EXPECT_EQ_I64(open_count(&f), 0);
    REQUIRE_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &f.directory, &f.err), &f.err);
    end(&f);
}

typedef struct closing {
    fixture *fixture;
    int fd;
} closing;

static void close_a_file(void *context)
{
    const closing *of = context;
    close_file(of->fixture, of->fd);
}

/* The close of a file waits for no sync of the directory that it is in. */
TEST(a_file_is_closed_while_its_directory_is_synced_for_the_pool)
{
    fixture f;
    begin(&f, 100);
    closing of = { .fixture = &f, .fd = make(&f, "a", "1") };
    EXPECT_OK(f.env->unlink(f.env, f.directory, "a", &f.err), &f.err); /* that is to be synced */
    f.base.meanwhile = close_a_file;
    f.base.context = &of;
    (void)alarm(60); /* else it waits for itself */
    evict_all(&f);
    (void)alarm(0);
    EXPECT_TRUE(f.base.meanwhile == NULL);
    EXPECT_EQ_I64(f.base.syncs, 1);
    end(&f);
}

typedef struct owner {
    fixture *fixture;
    int calls;
    sgs_status answer;
} owner;

static sgs_status sync_owned(void *context, int fd, sgs_error *err)
{
    owner *of = context;
    fixture *f = of->fixture;
    of->calls += 1;
    if (of->answer != SGS_OK)
        return sgs_fail(err, of->answer, "planted");
    return f->env->sync_data(f->env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), err);
}

TEST(an_owner_syncs_his_file_himself)
{
    fixture f;
    begin(&f, 100);
    owner of = { .fixture = &f, .answer = SGS_LOCKED };
    const int fd = make(&f, "a", "1");
    f.env->note_owner(f.env, fd, sync_owned, &of);
    evict_all(&f);
    EXPECT_EQ_I64(of.calls, 0); /* there is nothing to sync */
    write_to(&f, fd, "2");
    evict_all(&f); /* he does it this moment: it stays open */
    EXPECT_TRUE(of.calls > 0);
    EXPECT_EQ_I64(open_count(&f), 1);
    of = (owner){ .fixture = &f };
    evict_all(&f);
    EXPECT_EQ_I64(of.calls, 1);
    EXPECT_EQ_I64(open_count(&f), 0);
    write_to(&f, fd, "3");
    of = (owner){ .fixture = &f, .answer = SGS_FSYNC_FAILED };
    evict_all(&f);
    evict_all(&f); /* nor is it tried again */
    EXPECT_EQ_I64(of.calls, 1);
    EXPECT_TRUE(reads(&f, fd, "3"));
    close_file(&f, fd);
    EXPECT_EQ_I64(of.calls, 1);
    end(&f);
}

typedef struct nest {
    fixture *fixture;
    int depth, deepest, calls;
} nest;

/* As a segment whose sync fails: it leaves a mark, for which the pool needs room. */
static sgs_status sync_and_mark(void *context, int fd, sgs_error *err)
{
    nest *of = context;
    fixture *f = of->fixture;
    sgs_error ignored;
    int mark = -1;
    (void)fd;
    of->calls += 1;
    of->depth += 1;
    of->deepest = of->depth > of->deepest ? of->depth : of->deepest;
    EXPECT_OK(f->env->open_file(f->env, f->directory, "mark", SGS_OPEN_WRITE_OR_CREATE, &mark, &ignored), &ignored);
    EXPECT_OK(f->env->close(f->env, mark, "mark", &ignored), &ignored);
    of->depth -= 1;
    return sgs_fail(err, SGS_FSYNC_FAILED, "planted");
}

/* Of a disk that fails, with a million of open files, the stack would not hold it. */
TEST(a_sync_for_the_pool_is_never_inside_another)
{
    enum { FILES = 40, LIMIT = 10 };
    fixture f;
    int fds[FILES];
    char name[32];
    begin(&f, 1000);
    nest of = { .fixture = &f };
    for (int i = 0; i < FILES; ++i) {
        snprintf(name, sizeof name, "file-%d", i);
        fds[i] = make(&f, name, name);
        f.env->note_owner(f.env, fds[i], sync_and_mark, &of);
        write_to(&f, fds[i], "x");
    }
    f.base.limit = 2 * LIMIT;
    const int one = make(&f, "one", "1");
    EXPECT_EQ_I64(of.deepest, 1);
    EXPECT_TRUE(of.calls > 0 && of.calls <= FILES);
    for (int i = 0; i < FILES; ++i)
        close_file(&f, fds[i]);
    close_file(&f, one);
    end(&f);
}

/* A directory is opened again, and room for it is made by a sync that leaves its mark in that very directory: the thread
 * waited for itself. */
TEST(a_directory_that_comes_back_takes_the_mark_of_a_sync_that_made_room_for_it)
{
    for (int by_limit = 0; by_limit < 2; ++by_limit) {
        fixture f;
        sgs_file_info info;
        begin(&f, 1000);
        nest of = { .fixture = &f };
        const int fd = make(&f, "a", "1");
        write_to(&f, fd, "2");
        f.env->note_owner(f.env, fd, sync_and_mark, &of);
        sgs_descriptor_pool_limit(&f.pool, 2); /* lets the directory go: it is clean */
        EXPECT_EQ_I64(open_count(&f), 1);
        f.pool.fixed_limit = by_limit ? 1 : 1000;
        f.base.failing_directory_opens = by_limit ? 0 : 1;
        alarm(60);
        EXPECT_OK(f.env->file_info_at(f.env, f.directory, "a", &info, &f.err), &f.err);
        alarm(0);
        EXPECT_EQ_I64(of.calls, 1);
        EXPECT_OK(f.env->file_info_at(f.env, f.directory, "mark", &info, &f.err), &f.err);
        close_file(&f, fd);
        end(&f);
    }
}

/* ---- memory, forks, threads ---- */

TEST(without_memory_nothing_stays_open)
{
    fixture f;
    int fd = -1;
    begin(&f, 100);
    temporary_write(&f.place, "a", "1", 1);
    f.base.failing_allocations = 1;
    EXPECT_EQ_I64(f.env->open_file(f.env, f.directory, "a", SGS_OPEN_READ, &fd, &f.err), SGS_RESOURCE);
    EXPECT_EQ_I64(open_count(&f), 1);
    end(&f);

    f.place = temporary_open();
    sgs_descriptor_pool_init(&f.pool, &f.base.env); /* which has no entry yet */
    f.base.allocations_before = 1;
    f.base.failing_allocations = 1;
    EXPECT_STATUS(f.env->open_directory(f.env, SGS_CWD, f.place.path, &f.directory, &f.err), SGS_RESOURCE);
    EXPECT_EQ_I64(f.base.failing_allocations, 0);
    EXPECT_OK(f.env->open_directory(f.env, SGS_CWD, f.place.path, &f.directory, &f.err), &f.err);
    end(&f);

    f.place = temporary_open();
    sgs_descriptor_pool_init(&f.pool, &f.base.env);
    const char *path = f.place.path;
    f.base.failing_allocations = 0;
    int before = dup(0);
    close(before);
    char longer[5000];
    memset(longer, '/', sizeof longer);
    memcpy(longer + sizeof longer - strlen(path) - 1, path, strlen(path) + 1);
    EXPECT_TRUE(f.env->open_directory(f.env, SGS_CWD, longer, &fd, &f.err) != SGS_OK);
    int after = dup(0);
    close(after);
    EXPECT_EQ_I64(after, before);
    temporary_close(&f.place);
}

TEST(a_child_of_a_fork_may_close_what_it_has_of_its_parent)
{
    fixture f;
    begin(&f, 100);
    const int fd = make(&f, "a", "1");
    write_to(&f, fd, "2");
    sgs_descriptor_pool_before_fork(&f.pool);
    sgs_descriptor_pool_in_parent(&f.pool);
    EXPECT_TRUE(reads(&f, fd, "2"));
    sgs_descriptor_pool_before_fork(&f.pool);
    sgs_descriptor_pool_in_child(&f.pool); /* as if it were one */
    evict_all(&f);
    EXPECT_EQ_I64(f.base.syncs, 0); /* that is the parent's business */
    close_file(&f, fd);
    end(&f);
}

enum { THREADS = 4, SHARED_FILES = 24, TURNS = 2000 };

typedef struct worker {
    fixture *fixture;
    const int *fds;
    unsigned number;
    int failures;
} worker;

static void *work(void *context)
{
    worker *w = context;
    const sgs_env *env = w->fixture->env;
    sgs_error err;
    for (unsigned turn = 0; turn < TURNS; ++turn) {
        const unsigned file = (turn * 7 + w->number * 5) % SHARED_FILES;
        uint32_t stored = 0;
        size_t got;
        int64_t written;
        const uint32_t mine = turn;
        const sgs_slice slice = { (const uint8_t *)&mine, sizeof mine };
        const int64_t place = (int64_t)(w->number * sizeof mine); /* of each file, its own word */
        w->failures += env->write_at(env, w->fds[file], "", &slice, 1, place, &written, &err) != SGS_OK;
        w->failures += env->read_at(env, w->fds[file], "", &stored, sizeof stored, place, &got, &err) != SGS_OK;
        w->failures += got != sizeof stored || stored != mine;
        if (turn % 16 == 0)
            w->failures += env->sync_data(env, w->fds[file], "", SGS_BARRIER(APPENDED_RECORDS), &err) != SGS_OK;
        if (turn % 64 == w->number) {
            int fd = -1;
            char from[32], to[32];
            snprintf(from, sizeof from, "own-%u", w->number);
            snprintf(to, sizeof to, "moved-%u", w->number);
            w->failures +=
                env->open_file(env, w->fixture->directory, from, SGS_OPEN_WRITE_OR_CREATE, &fd, &err) != SGS_OK;
            w->failures += env->rename(env, w->fixture->directory, from, to, &err) != SGS_OK;
            w->failures += env->truncate(env, fd, to, turn, &err) != SGS_OK;
            w->failures += env->close(env, fd, to, &err) != SGS_OK;
        }
    }
    return NULL;
}

TEST(threads_share_few_descriptors)
{
    fixture f;
    int fds[SHARED_FILES];
    pthread_t threads[THREADS];
    worker workers[THREADS];
    char name[32];
    begin(&f, 8);
    for (int i = 0; i < SHARED_FILES; ++i) {
        snprintf(name, sizeof name, "file-%d", i);
        fds[i] = make(&f, name, "");
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        workers[i] = (worker){ .fixture = &f, .fds = fds, .number = i };
        REQUIRE_TRUE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
        EXPECT_EQ_I64(workers[i].failures, 0);
    }
    uint32_t count;
    uint64_t evictions;
    sgs_descriptor_pool_count(&f.pool, &count, &evictions);
    EXPECT_TRUE(count <= 8 + THREADS);
    EXPECT_TRUE(evictions > TURNS);
    for (int i = 0; i < SHARED_FILES; ++i)
        close_file(&f, fds[i]);
    end(&f);
}

TEST_MAIN()
