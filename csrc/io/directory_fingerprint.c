/* directory_fingerprint.c - names, kinds, sizes, times and small contents of a directory, as one number. */
#include "io/directory_fingerprint.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

enum { FACTS_BYTES = 3 * 8 + 1 }; /* size, inode, time of change, kind */

static sgs_status take_name(void *context, const char *name, sgs_error *err)
{
    return sgs_buffer_append(context, name, strlen(name) + 1, err);
}

/* `*crc` goes on over the bytes of a small file. */
static sgs_status add_content(const sgs_env *env, int directory_fd, const char *name, size_t size, uint32_t *crc,
                              sgs_error *err)
{
    uint8_t content[SGS_FINGERPRINT_CONTENT_BYTES];
    size_t got = 0;
    SGS_EXPECT(size <= sizeof content);
    sgs_error second;
    int fd = -1;
    SGS_TRY(env->open_file(env, directory_fd, name, SGS_OPEN_READ, &fd, err));
    const sgs_status status = env->read_at(env, fd, name, content, size, 0, &got, err);
    (void)env->close(env, fd, name, &second); /* was only read */
    if (status == SGS_OK)
        *crc = sgs_crc32c(*crc, content, got);
    return status;
}

static sgs_status fingerprint_of(const sgs_env *env, int directory_fd, const char *name, uint32_t *crc, sgs_error *err)
{
    uint8_t facts[FACTS_BYTES];
    sgs_file_info info;
    SGS_TRY(env->file_info_at(env, directory_fd, name, &info, err));
    sgs_store_be64(facts, (uint64_t)info.size);
    sgs_store_be64(facts + 8, info.inode);
    sgs_store_be64(facts + 16, (uint64_t)info.changed_ns);
    facts[24] = (uint8_t)(info.is_directory | info.is_regular << 1);
    *crc = sgs_crc32c(sgs_crc32c(0, name, strlen(name) + 1), facts, sizeof facts);
    const bool is_small = info.is_regular && info.size > 0 && info.size <= SGS_FINGERPRINT_CONTENT_BYTES;
    return is_small ? add_content(env, directory_fd, name, (size_t)info.size, crc, err) : SGS_OK;
}

sgs_status sgs_directory_fingerprint(const sgs_env *env, int directory_fd, const char *except, int64_t *out,
                                     sgs_error *err)
{
    sgs_buffer names; /* listed first: the environment may list again from the start when it lacks a descriptor */
    sgs_buffer_init(&names, sgs_env_memory(env));
    sgs_status status = env->list_directory(env, directory_fd, &take_name, &names, err);
    int64_t sum = 0; /* of at most a million checksums */
    for (size_t at = 0; status == SGS_OK && at < names.size;) {
        const char *name = (const char *)names.data + at;
        uint32_t crc = 0;
        if (strcmp(name, except) != 0)
            status = fingerprint_of(env, directory_fd, name, &crc, err);
        SGS_EXPECT(sum <= INT64_MAX - crc);
        sum += crc;
        at += strlen(name) + 1;
    }
    sgs_buffer_deinit(&names);
    if (status == SGS_OK)
        *out = sum;
    return status;
}
