/* test_index_flush.c - when the entries of an index reach its file, and the file the disk. */
#include <errno.h>

#include "index_kit.h"

static const sgs_index_options IN_STEPS = { .max_size_bytes = 10485760, .writable = true, .grow_in_steps = true };
static const sgs_index_options HEAP = { .max_size_bytes = 8000, .writable = true, .grow_in_steps = true, .heap = true };
static const sgs_index_options READ_ONLY = { .max_size_bytes = 10485760, .grow_in_steps = true };

TEST(heap_entries_reach_the_file_at_flush_and_at_close)
{
    fixture f;
    open_fixture(&f, HEAP);
    EXPECT_OK(append(&f, 1), &f.err); /* the first one at once: its block is asked for while there is room */
    EXPECT_EQ_I64(file_size(&f), 8);
    EXPECT_OK(append(&f, 2), &f.err);
    EXPECT_EQ_I64(file_size(&f), 8);
    EXPECT_OK(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_EQ_I64(file_size(&f), 16);
    EXPECT_OK(append(&f, 3), &f.err);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_EQ_I64(file_size(&f), 24);
    REQUIRE_OK(reopen(&f, READ_ONLY), &f.err);
    EXPECT_EQ_I64(entries(&f), 3);
    close_fixture(&f);
}

/* [DUR-25] A file that ends in a part of an entry: the bytes of that part are written again with the entry that takes their
 * place. Of this kind was looked for: the mapped mode (the mapping has what is stored), a cut (it forgets what was written) and
 * a time index (it shares all of this). */
TEST(a_torn_entry_at_the_end_of_a_file_is_overwritten_as_a_whole)
{
    const sgs_index_options modes[] = { HEAP, IN_STEPS };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; ++i) {
        static const uint8_t torn[12] = { 0, 0, 0, 1, 0, 0, 0x10, 0, 0xff, 0xff, 0xff, 0xff };
        uint8_t found[16] = { 0 };
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        temporary_write(&f.directory, NAME, torn, sizeof torn);
        bool changed;
        EXPECT_OK(reopen(&f, modes[i]), &f.err);
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 8000, &changed, &f.err), &f.err);
        EXPECT_OK(append(&f, 2), &f.err);
        EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
        EXPECT_EQ_I64(temporary_read(&f.directory, NAME, found, sizeof found), 16);
        EXPECT_EQ_I64(found[8], 0);
        EXPECT_EQ_I64(found[11], 2);
        close_fixture(&f);
    }
}

/* [IDX-13 of 4.4.0] a segment is flushed again and again: what has not changed costs nothing */
static bool flush_syncs(fixture *f)
{
    const int64_t before = memory_env_calls(&f->memory, "sync_file");
    EXPECT_OK(sgs_abstract_index_flush(&f->index.base, &f->memory.env, NAME, &f->err), &f->err);
    return memory_env_calls(&f->memory, "sync_file") > before;
}

TEST(a_flush_syncs_what_has_changed_since_the_last)
{
    fixture f;
    bool changed;
    open_fixture(&f, IN_STEPS);
    EXPECT_TRUE(flush_syncs(&f)); /* whatever was there when it was opened */
    EXPECT_TRUE(!flush_syncs(&f));
    for (int64_t offset = 1; offset <= 10; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_TRUE(flush_syncs(&f));
    EXPECT_TRUE(!flush_syncs(&f));
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 5, &f.err), &f.err);
    EXPECT_TRUE(flush_syncs(&f));
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 4096, &changed, &f.err), &f.err);
    EXPECT_TRUE(changed); /* what it may become, and not what it is */
    EXPECT_TRUE(!flush_syncs(&f));
    EXPECT_OK(sgs_abstract_index_trim(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_TRUE(sgs_offset_index_is_full(&f.index)); /* [IDX-10] until it is resized */
    EXPECT_TRUE(flush_syncs(&f));
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 4096, &changed, &f.err), &f.err);
    EXPECT_OK(append(&f, 20), &f.err);
    memory_env_fail(&f.memory, "sync_file", 1, EIO);
    EXPECT_STATUS(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), SGS_FSYNC_FAILED);
    EXPECT_TEXT(f.err.file, NAME);
    EXPECT_TRUE(flush_syncs(&f));
    EXPECT_TRUE(!flush_syncs(&f));
    close_fixture(&f);
}

/* [IDX-14, DUR-34] both steps of a close are made, and the first that failed is told */
TEST(a_close_that_fails_tells_the_first_cause)
{
    const struct {
        const char *first, *second;
        sgs_status status;
    } cases[] = { { "truncate", "close", SGS_WRITE_IO }, { "close", "close", SGS_CLOSE_FAILED } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture f;
        open_fixture(&f, IN_STEPS);
        EXPECT_OK(append(&f, 1), &f.err);
        memory_env_fail(&f.memory, cases[i].first, 1, EIO);
        memory_env_fail(&f.memory, cases[i].second, 1, EIO);
        EXPECT_STATUS(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), cases[i].status);
        EXPECT_STATUS(f.err.status, cases[i].status);
        EXPECT_TEXT(f.err.file, NAME);
        EXPECT_TRUE(!f.index.base.is_open);
        EXPECT_TRUE(memory_env_is_balanced(&f.memory));
        close_fixture(&f);
    }
}

TEST_MAIN()
