/* What both indexes share: sizes, steps, trimming, read-only mode, failing disks. */
#include <errno.h>

#include "index/time_index.h"
#include "index_kit.h"

static const sgs_index_options IN_STEPS = { .max_size_bytes = 10485760, .writable = true, .grow_in_steps = true };
static const sgs_index_options READ_ONLY = { .max_size_bytes = 10485760, .grow_in_steps = true };

/* Table T-1 [IDX-1, IDX-3], Kafka's whole size at once and ours in steps */
TEST(preallocated_sizes_are_those_of_table_t1)
{
    const struct {
        uint32_t max_size;
        int64_t offset_size, time_size; /* -1: IllegalArgumentException */
        uint32_t offset_entries, time_entries;
    } table[] = {
        { 10485760, 10485760, 10485756, 1310720, 873813 },
        { 4096, 4096, 4092, 512, 341 },
        { 1000, 1000, 996, 125, 83 },
        { 36, 32, 36, 4, 3 },
        { 12, 8, 12, 1, 1 },
        { 8, 8, -1, 1, 0 },
        { 4, -1, -1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
        for (int kafka = 0; kafka < 2; ++kafka) {
            const temporary directory = temporary_open();
            const sgs_index_options options = {
                .max_size_bytes = table[i].max_size,
                .writable = true,
                .grow_in_steps = kafka == 0,
            };
            const sgs_env *env = sgs_env_posix();
            sgs_offset_index offsets;
            sgs_time_index times;
            sgs_error err;
            const sgs_status one = sgs_offset_index_open(&offsets, env, directory.fd, "o", 0, &options, &err);
            EXPECT_STATUS(one, table[i].offset_size < 0 ? SGS_ILLEGAL_ARGUMENT : SGS_OK);
            if (one == SGS_OK) {
                EXPECT_EQ_I64(offsets.base.max_entries, table[i].offset_entries);
                EXPECT_EQ_I64(temporary_read(&directory, "o", NULL, 0), kafka == 1 ? table[i].offset_size : 0);
            }
            const sgs_status two = sgs_time_index_open(&times, env, directory.fd, "t", 0, &options, &err);
            EXPECT_STATUS(two, table[i].time_size < 0 ? SGS_ILLEGAL_ARGUMENT : SGS_OK);
            if (two == SGS_OK) {
                EXPECT_EQ_I64(times.base.max_entries, table[i].time_entries);
                EXPECT_EQ_I64(temporary_read(&directory, "t", NULL, 0), kafka == 1 ? table[i].time_size : 0);
                if (table[i].max_size == 12)
                    EXPECT_TRUE(sgs_time_index_is_full(&times)); /* every append rolls [TMX-4] */
            }
            sgs_abstract_index_close_handler(&offsets.base, env, "o");
            sgs_abstract_index_close_handler(&times.base, env, "t");
            temporary gone = directory;
            temporary_close(&gone);
        }
    }
}

/* [DUR-25] blocks before bytes, in steps that grow */
TEST(the_file_grows_in_steps_and_is_trimmed_at_close)
{
    fixture f;
    open_fixture(&f, IN_STEPS);
    EXPECT_OK(append(&f, 1), &f.err);
    EXPECT_EQ_I64(file_size(&f), 4096);
    for (int64_t offset = 2; offset <= 513; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_EQ_I64(file_size(&f), 8192);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate_space"), 2);
    for (int64_t offset = 514; offset <= 100000; ++offset)
        append(&f, offset);
    EXPECT_EQ_I64(entries(&f), 100000);
    EXPECT_TRUE(memory_env_calls(&f.memory, "allocate_space") < 24); /* 64 KiB at a time in the end */
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "write_at"), 0);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_EQ_I64(file_size(&f), 800000);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err); /* twice is harmless */
    close_fixture(&f);
}

TEST(a_disk_without_room_makes_the_index_stale_not_the_process_dead)
{
    fixture f;
    open_fixture(&f, IN_STEPS);
    EXPECT_OK(append(&f, 1), &f.err);
    memory_env_fail_always(&f.memory, "allocate_space", 1, ENOSPC);
    for (int64_t offset = 2; offset <= 512; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_TRUE(!f.index.base.is_stale);
    EXPECT_STATUS(append(&f, 513), SGS_DISK_FULL);
    EXPECT_TRUE(f.index.base.is_stale);
    EXPECT_EQ_I64(entries(&f), 512);
    memory_env_heal(&f.memory);
    EXPECT_OK(sgs_abstract_index_reset(&f.index.base, &f.memory.env, NAME, 10485760, &f.err), &f.err);
    EXPECT_TRUE(!f.index.base.is_stale);
    EXPECT_EQ_I64(entries(&f), 0);
    close_fixture(&f);
}

/* [DUR-25, DUR-44] whatever has failed, the index can grow no more; but a broken invariant is told */
TEST(a_step_that_fails_says_that_there_is_no_room)
{
    const struct {
        int os_error;
        sgs_status status;
    } cases[] = { { EIO, SGS_DISK_FULL }, { ENOMEM, SGS_DISK_FULL }, { MEMORY_ENV_BROKEN_INVARIANT, SGS_INTERNAL } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture f;
        open_fixture(&f, IN_STEPS);
        memory_env_fail(&f.memory, "allocate_space", 1, cases[i].os_error);
        EXPECT_STATUS(append(&f, 1), cases[i].status);
        EXPECT_TEXT(f.err.file, NAME);
        EXPECT_TRUE(f.index.base.is_stale);
        EXPECT_EQ_I64(entries(&f), 0);
        close_fixture(&f);
    }
}

/* [DUR-25] a file of Kafka's full size is sparse: a store into a hole of a full disk would be a SIGBUS */
TEST(a_sparse_file_gets_blocks_before_bytes)
{
    fixture f;
    int fd;
    open_fixture(&f, KAFKA);
    const sgs_env *env = &f.memory.env;
    EXPECT_EQ_I64(file_size(&f), 10485760); /* new: not one block for an idle partition, as in a broker's directory */
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate_space"), 0);
    sgs_abstract_index_close_handler(&f.index.base, env, NAME);
    EXPECT_OK(env->open_file(env, f.directory.fd, NAME, SGS_OPEN_WRITE, &fd, &f.err), &f.err);
    EXPECT_OK(env->truncate(env, fd, NAME, 0, &f.err), &f.err);
    EXPECT_OK(env->truncate(env, fd, NAME, 10485760, &f.err), &f.err); /* one hole */
    EXPECT_OK(env->close(env, fd, NAME, &f.err), &f.err);

    EXPECT_OK(reopen(&f, KAFKA), &f.err);
    EXPECT_EQ_I64(entries(&f), 1310720); /* believed to be full [IDX-2] */
    EXPECT_OK(sgs_abstract_index_reset(&f.index.base, env, NAME, 10485760, &f.err), &f.err);
    memory_env_fail_always(&f.memory, "allocate_space", 1, ENOSPC);
    EXPECT_STATUS(append(&f, 1), SGS_DISK_FULL);
    EXPECT_TRUE(f.index.base.is_stale);
    EXPECT_EQ_I64(entries(&f), 0);

    memory_env_heal(&f.memory);
    const int64_t calls = memory_env_calls(&f.memory, "allocate_space");
    for (int64_t offset = 1; offset <= 500000; ++offset) {
        EXPECT_OK(append(&f, offset), &f.err);
        EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate_space") - calls, (offset - 1) / 262144 + 1);
        EXPECT_TRUE(f.index.base.backed_length >= offset * 8);
        EXPECT_EQ_I64(f.index.base.backed_length % (2 << 20), 0); /* no folio has a hole beside a block */
    }
    EXPECT_EQ_I64(file_size(&f), 10485760);
    close_fixture(&f);
}

/* [DUR-71] */
TEST(a_reader_creates_nothing_and_changes_nothing)
{
    fixture f;
    bool changed;
    sgs_offset_position found;
    open_fixture(&f, READ_ONLY);
    EXPECT_TRUE(!temporary_has(&f.directory, NAME));
    EXPECT_EQ_I64(entries(&f), 0);
    EXPECT_OK(sgs_offset_index_lookup(&f.index, 5, &found, &f.err), &f.err);
    EXPECT_EQ_I64(found.position, 0);
    EXPECT_STATUS(append(&f, 1), SGS_CLOSED);
    EXPECT_STATUS(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 80, &changed, &f.err),
                  SGS_ILLEGAL_STATE);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_TRUE(!temporary_has(&f.directory, NAME));

    const uint8_t padded[64] = { 0, 0, 0, 1, 0, 0, 16, 0 };
    temporary_write(&f.directory, NAME, padded, sizeof padded);
    REQUIRE_OK(reopen(&f, READ_ONLY), &f.err);
    EXPECT_EQ_I64(entries(&f), 1);
    EXPECT_OK(sgs_abstract_index_trim(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_EQ_I64(file_size(&f), 64);
    close_fixture(&f);
}

/* [IDX-1, IDX-2] */
TEST(an_existing_empty_file_has_no_slots)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        temporary_write(&f.directory, NAME, "", 0);
        REQUIRE_OK(reopen(&f, kafka == 1 ? KAFKA : IN_STEPS), &f.err);
        EXPECT_EQ_I64(f.index.base.max_entries, 0);
        EXPECT_TRUE(sgs_offset_index_is_full(&f.index));
        bool changed = false;
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 4096, &changed, &f.err), &f.err);
        EXPECT_TRUE(changed);
        EXPECT_OK(append(&f, 3), &f.err);
        close_fixture(&f);
    }
}

/* [IDX-9] where Kafka fails after the cut, nothing is cut */
TEST(a_resize_below_the_used_bytes_is_refused)
{
    fixture f;
    bool changed;
    open_fixture(&f, IN_STEPS);
    for (int64_t offset = 1; offset <= 10; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_STATUS(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 79, &changed, &f.err),
                  SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(entries(&f), 10);
    EXPECT_EQ_I64(file_size(&f), 4096);
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 80, &changed, &f.err), &f.err);
    EXPECT_TRUE(sgs_offset_index_is_full(&f.index));
    EXPECT_EQ_I64(file_size(&f), 80);
    close_fixture(&f);
}

TEST(a_closed_index_refuses_everything_but_closing)
{
    for (int quietly = 0; quietly < 2; ++quietly) {
        fixture f;
        bool changed;
        open_fixture(&f, IN_STEPS);
        if (quietly == 1)
            sgs_abstract_index_close_handler(&f.index.base, &f.memory.env, NAME);
        else
            EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
        EXPECT_STATUS(append(&f, 1), SGS_CLOSED);
        EXPECT_STATUS(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 80, &changed, &f.err), SGS_CLOSED);
        EXPECT_OK(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), &f.err); /* [IDX-13 of 4.4.0] */
        EXPECT_OK(sgs_abstract_index_trim(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);  /* DIFF-18 */
        close_fixture(&f);
    }
}

/* Entries cut off must not come back as entries after a crash [DUR-80]. */
TEST(truncated_entries_are_zero_in_the_file)
{
    const uint8_t zeros[32] = { 0 };
    uint8_t bytes[4096];
    fixture f;
    open_fixture(&f, IN_STEPS);
    for (int64_t offset = 1; offset <= 5; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 2, &f.err), &f.err);
    EXPECT_EQ_I64(entries(&f), 1);
    EXPECT_OK(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_EQ_I64(temporary_read(&f.directory, NAME, bytes, sizeof bytes), 4096);
    EXPECT_MEM(bytes + 8, zeros, 32);
    sgs_abstract_index_close_handler(&f.index.base, &f.memory.env, NAME); /* as a crash leaves it */
    REQUIRE_OK(reopen(&f, IN_STEPS), &f.err);
    EXPECT_EQ_I64(entries(&f), 1);
    close_fixture(&f);
}

TEST(every_failing_call_of_an_open_leaves_nothing_behind)
{
    const char *const calls[] = { "open_file", "file_info", "map", "truncate" };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        memory_env_fail(&f.memory, calls[i], 1, ENOMEM);
        EXPECT_STATUS(reopen(&f, KAFKA), SGS_RESOURCE);
        EXPECT_TRUE(!f.index.base.is_open);
        EXPECT_TRUE(memory_env_is_balanced(&f.memory));
        close_fixture(&f);
    }
}

/* [DUR-25] as long again as the file is, from a page to 64 KiB, and no longer than promised */
TEST(each_step_is_as_long_as_the_file_between_two_bounds)
{
    const struct {
        uint32_t max_size;
        int64_t lengths[7];
    } cases[] = {
        { 10485760, { 4096, 8192, 16384, 32768, 65536, 131072, 196608 } },
        { 12292, { 4096, 8192, 12288 } },
        { 4104, { 4096, 4104 } },
        { 72, { 72 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture f;
        sgs_index_options options = IN_STEPS;
        options.max_size_bytes = cases[i].max_size;
        open_fixture(&f, options);
        for (int step = 0; step < 7 && cases[i].lengths[step] > 0; ++step) {
            while (entries(&f) * 8 < cases[i].lengths[step]) {
                REQUIRE_OK(append(&f, (int64_t)entries(&f) + 1), &f.err);
                EXPECT_EQ_I64(f.index.base.file.length, cases[i].lengths[step]);
            }
        }
        close_fixture(&f);
    }
}

/* [DUR-80] the keys of a file that somebody else writes count as long as they increase, one by one */
TEST(entries_count_up_to_the_first_that_does_not_increase)
{
    const struct {
        int32_t keys[4];
        uint32_t entries;
    } cases[] = {
        { { 1, 5, 7, 9 }, 4 }, { { 1, 5, 3, 9 }, 2 }, { { 1, 5, 5, 9 }, 2 },  { { 1, 5, 7, 0 }, 3 },
        { { 0, 5, 7, 9 }, 4 }, { { 0, 0, 0, 0 }, 0 }, { { 0, -1, 0, 0 }, 0 }, { { 1 << 24, 0, 0, 0 }, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uint8_t file[32] = { 0 };
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        for (int slot = 0; slot < 4; ++slot)
            sgs_store_be_i32(file + 8 * slot, cases[i].keys[slot]);
        temporary_write(&f.directory, NAME, file, sizeof file);
        REQUIRE_OK(reopen(&f, READ_ONLY), &f.err);
        EXPECT_EQ_I64(entries(&f), cases[i].entries);
        close_fixture(&f);
    }
}

/* [IDX-2, DUR-80, DUR-25] padding goes when a writer opens the file; then it is as full as a trimmed one */
TEST(a_file_with_padding_is_full_without_it)
{
    const uint8_t file[80] = { 0, 0, 0, 1, 0, 0, 16, 0 };
    fixture f = { .directory = temporary_open() };
    bool changed;
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, IN_STEPS), &f.err);
    EXPECT_EQ_I64(file_size(&f), 8);
    EXPECT_TRUE(sgs_offset_index_is_full(&f.index));
    EXPECT_STATUS(append(&f, 2), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 80, &changed, &f.err), &f.err);
    EXPECT_OK(append(&f, 2), &f.err);
    close_fixture(&f);
}

/* [DUR-7, DUR-53] What may prove that records are missing stays, until entries come in its place. */
TEST(what_is_no_padding_stays_behind_the_entries_that_count)
{
    const struct {
        int32_t keys[4];
        int64_t size;
        uint32_t entries;
    } cases[] = {
        { { 1 << 16, 5, 7, 9 }, 32, 1 },
        { { 9, 0, 7, 8 }, 32, 1 },
        { { 1, 5, 7, 9 }, 29, 3 }, /* the last entry is not whole */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        for (int in_memory = 0; in_memory < 2; ++in_memory) {
            const sgs_index_options options = { .max_size_bytes = 10485760, true, in_memory == 1, true };
            uint8_t file[32] = { 0 };
            fixture f = { .directory = temporary_open() };
            bool changed;
            memory_env_init(&f.memory, sgs_env_posix());
            for (int slot = 0; slot < 4; ++slot)
                sgs_store_be_i32(file + 8 * slot, cases[i].keys[slot]);
            file[28] = 1;
            temporary_write(&f.directory, NAME, file, (size_t)cases[i].size);
            REQUIRE_OK(reopen(&f, options), &f.err);
            EXPECT_EQ_I64(entries(&f), cases[i].entries);
            EXPECT_TRUE(f.index.base.has_rest);
            EXPECT_OK(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
            REQUIRE_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
            EXPECT_EQ_I64(file_size(&f), cases[i].size);
            REQUIRE_OK(reopen(&f, options), &f.err);
            EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 80, &changed, &f.err), &f.err);
            EXPECT_TRUE(changed && !f.index.base.has_rest);
            EXPECT_OK(append(&f, 1 << 17), &f.err);
            REQUIRE_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
            EXPECT_EQ_I64(file_size(&f), 8 * (cases[i].entries + 1));
            close_fixture(&f);
        }
    }
}

/* [DUR-80] It may name what is cut, and does not come back. */
TEST(what_is_no_padding_goes_with_a_cut)
{
    for (int in_memory = 0; in_memory < 2; ++in_memory) {
        const sgs_index_options options = { .max_size_bytes = 10485760, true, in_memory == 1, true };
        uint8_t file[32] = { 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2 };
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        temporary_write(&f.directory, NAME, file, sizeof file);
        REQUIRE_OK(reopen(&f, options), &f.err);
        EXPECT_EQ_I64(entries(&f), 1);
        REQUIRE_OK(sgs_offset_index_truncate_to(&f.index, 4, &f.err), &f.err);
        if (in_memory == 0) { /* at once */
            temporary_read(&f.directory, NAME, file, sizeof file);
            for (size_t i = 0; i < sizeof file; ++i)
                EXPECT_EQ_I64(file[i], 0);
        }
        REQUIRE_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
        EXPECT_EQ_I64(file_size(&f), 0);
        close_fixture(&f);
    }
}

/* [IDX-9] the end of an entry that is not whole goes with the first resize */
TEST(a_torn_length_is_not_kept_by_a_resize)
{
    const uint8_t file[17] = { 0, 0, 0, 1, 0, 0, 16, 0, 0, 0, 0, 2, 0, 0, 32, 0, 7 };
    fixture f = { .directory = temporary_open() };
    bool changed = false;
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, IN_STEPS), &f.err);
    EXPECT_EQ_I64(entries(&f), 2);
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 16, &changed, &f.err), &f.err);
    EXPECT_TRUE(changed);
    EXPECT_EQ_I64(file_size(&f), 16);
    close_fixture(&f);
}

/* [DUR-25] blocks are asked for where there may be holes: not in files that grew in steps, nor in memory */
TEST(no_blocks_are_asked_for_where_there_are_some)
{
    const sgs_index_options kafka_heap = { .max_size_bytes = 8000, .writable = true, .heap = true };
    for (int heap = 0; heap < 2; ++heap) {
        fixture f;
        open_fixture(&f, heap == 1 ? kafka_heap : IN_STEPS);
        for (int64_t offset = 1; offset <= 10; ++offset)
            EXPECT_OK(append(&f, offset), &f.err);
        EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
        REQUIRE_OK(reopen(&f, heap == 1 ? kafka_heap : IN_STEPS), &f.err);
        const int64_t calls = memory_env_calls(&f.memory, "allocate_space");
        EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 5, &f.err), &f.err);
        EXPECT_OK(append(&f, 5), &f.err);
        EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate_space"), calls);
        close_fixture(&f);
    }
}

TEST_MAIN()
