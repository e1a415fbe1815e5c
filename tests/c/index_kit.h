/* index_kit.h - an offset index in a directory of its own, through an env that counts what is given back. */
#ifndef SGS_TESTS_INDEX_KIT_H
#define SGS_TESTS_INDEX_KIT_H

#include "index/offset_index.h"
#include "memory_env.h"
#include "temporary.h"
#include "test.h"

static const char NAME[] = "00000000000000000000.index";
static const sgs_index_options KAFKA = { .max_size_bytes = 10485760, .writable = true };

typedef struct fixture {
    temporary directory;
    memory_env memory;
    sgs_offset_index index;
    sgs_error err;
} fixture;

static inline sgs_status reopen(fixture *f, sgs_index_options options)
{
    return sgs_offset_index_open(&f->index, &f->memory.env, f->directory.fd, NAME, 0, &options, &f->err);
}

static inline void open_fixture(fixture *f, sgs_index_options options)
{
    f->directory = temporary_open();
    memory_env_init(&f->memory, sgs_env_posix());
    EXPECT_OK(reopen(f, options), &f->err);
}

static inline void close_fixture(fixture *f)
{
    EXPECT_EQ_I64(atomic_load(&f->index.base.readers), 0); /* every look-up has left */
    sgs_abstract_index_close_handler(&f->index.base, &f->memory.env, NAME);
    EXPECT_TRUE(memory_env_is_balanced(&f->memory));
    temporary_close(&f->directory);
}

static inline sgs_status append(fixture *f, int64_t offset)
{
    return sgs_offset_index_append(&f->index, &f->memory.env, NAME, offset, (int32_t)offset * 4096, &f->err);
}

static inline int64_t file_size(const fixture *f) { return temporary_read(&f->directory, NAME, NULL, 0); }
static inline uint32_t entries(const fixture *f) { return sgs_abstract_index_entries(&f->index.base); }

#endif
