/* Reading a segment: translate, read, the next offset; damaged indexes; beside an append. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "segment_kit.h"
#include "test.h"

typedef struct answer {
    sgs_segment_fetch fetch;
    sgs_buffer bytes;
} answer;

static sgs_status read_from(segment_kit *kit, int64_t offset, int32_t max_size, int64_t max_position,
                            bool min_one_message, answer *out)
{
    const sgs_segment_read request = {
        .start_offset = offset,
        .max_size = max_size,
        .max_position = max_position,
        .min_one_message = min_one_message,
    };
    memset(&out->fetch, 0x55, sizeof out->fetch);
    sgs_buffer_init(&out->bytes, sgs_env_memory(&kit->memory.env));
    return sgs_log_segment_read(kit->segment, &request, &out->bytes, &out->fetch, &kit->err);
}

/* Read, compare with the expected metadata and size (base -1: nothing found), give the bytes back. */
static void reads(segment_kit *kit, int64_t offset, int32_t max_size, int64_t max_position, bool min_one_message,
                  int64_t base, int32_t position, int32_t size)
{
    answer found;
    EXPECT_OK(read_from(kit, offset, max_size, max_position, min_one_message, &found), &kit->err);
    EXPECT_EQ_I64(found.fetch.found, base >= 0);
    if (base >= 0) {
        EXPECT_EQ_I64(found.fetch.base_offset, base);
        EXPECT_EQ_I64(found.fetch.position, position);
    }
    EXPECT_EQ_I64(found.fetch.size, size);
    EXPECT_EQ_I64(found.bytes.size, size);
    sgs_buffer_deinit(&found.bytes);
}

static void append_all(segment_kit *kit, int64_t base, int count, int64_t step, size_t size)
{
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, base + i * step, 1, 10 * i, size), &kit->err);
}

/* ---- Kafka's LogSegmentTest ---- */

/* LogSegmentTest.testReadOnEmptySegment, testNextOffsetCalculation */
TEST(an_empty_segment_has_nothing_and_its_base_is_next)
{
    segment_kit kit;
    int64_t next = -1;
    bool ends_clean = false;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    reads(&kit, 40, 300, 0, false, -1, 0, 0);
    EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
    EXPECT_EQ_I64(next, 40);
    EXPECT_TRUE(ends_clean);
    EXPECT_OK(segment_kit_append(&kit, 50, 3, 0, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
    EXPECT_EQ_I64(next, 53);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testReadBeforeFirstOffset, testReadAfterLast, testReadFromGap */
TEST(a_read_begins_with_the_batch_that_holds_the_offset_or_the_next)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 50, 4, 0, 100), &kit.err);
    reads(&kit, 41, 300, 100, true, 50, 0, 100);
    reads(&kit, 53, 300, 100, true, 50, 0, 100);
    reads(&kit, 54, 300, 100, true, -1, 0, 0);
    EXPECT_OK(segment_kit_append(&kit, 60, 2, 0, 80), &kit.err);
    reads(&kit, 55, 200, 180, true, 60, 100, 80);
    reads(&kit, 41, 300, 180, true, 50, 0, 180);
    reads(&kit, INT64_MAX, 300, 180, true, -1, 0, 0);
    reads(&kit, INT64_MIN, 300, 180, true, 50, 0, 180);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testReadWhenNoMaxPosition [SEG-19.5, KAFKA-17803] */
TEST(without_a_position_bound_no_bytes_are_visible)
{
    for (int min_one = 0; min_one < 2; ++min_one) {
        segment_kit kit;
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
        append_all(&kit, 50, 2, 1, 80);
        reads(&kit, 48, 1, -1, min_one == 1, 50, 0, 0);
        reads(&kit, 50, 1, -1, min_one == 1, 50, 0, 0);
        reads(&kit, 51, 1, -1, min_one == 1, 51, 80, 0);
        reads(&kit, 52, 1, -1, min_one == 1, -1, 0, 0);
        segment_kit_close(&kit);
    }
}

/* Table T-8 and [SEG-19, SEG-20]: sizes, bounds, whole first batches */
TEST(the_size_is_bounded_by_what_was_asked_and_by_what_is_visible)
{
    segment_kit kit;
    answer found;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 2, true), &kit.err);
    append_all(&kit, 2, 2, 1, 69);
    reads(&kit, 3, 300, 138, true, 3, 69, 69);
    reads(&kit, 3, 300, -1, true, 3, 69, 0);
    reads(&kit, 2, 100, 138, true, 2, 0, 100); /* the last batch may be cut [SEG-21] */
    reads(&kit, 2, 10, 138, true, 2, 0, 69);   /* at least the first batch */
    reads(&kit, 2, 10, 138, false, 2, 0, 10);
    reads(&kit, 2, 0, 138, false, 2, 0, 0);
    reads(&kit, 2, 0, 138, true, 2, 0, 69);
    reads(&kit, 2, 300, 40, true, 2, 0, 40); /* min_one_message never overrides the bound */
    reads(&kit, 3, 300, 69, true, 3, 69, 0);
    reads(&kit, 2, INT32_MAX, INT64_MAX, true, 2, 0, 138);
    EXPECT_STATUS(read_from(&kit, 3, 300, 40, true, &found), SGS_ILLEGAL_ARGUMENT);
    sgs_buffer_deinit(&found.bytes);
    EXPECT_STATUS(read_from(&kit, 2, -1, 138, true, &found), SGS_ILLEGAL_ARGUMENT);
    sgs_buffer_deinit(&found.bytes);

    EXPECT_OK(read_from(&kit, 2, 68, 138, false, &found), &kit.err);
    EXPECT_TRUE(found.fetch.first_entry_incomplete);
    EXPECT_EQ_I64(found.fetch.first_batch_size, 69);
    sgs_buffer_deinit(&found.bytes);
    EXPECT_OK(read_from(&kit, 2, 69, 40, false, &found), &kit.err); /* cut by the bound is not incomplete [RD-6] */
    EXPECT_TRUE(!found.fetch.first_entry_incomplete);
    sgs_buffer_deinit(&found.bytes);
    segment_kit_close(&kit);
}

TEST(translate_answers_as_read_without_the_bytes)
{
    segment_kit kit;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 200; ++i)
        EXPECT_OK(segment_kit_append(&kit, 3 * i, 2, i, 200), &kit.err);
    for (int offset = 0; offset < 599; ++offset) {
        const int batch = offset % 3 == 2 ? offset / 3 + 1 : offset / 3; /* a gap behind every batch */
        EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, offset, 0, -1, &fetch, &kit.err), &kit.err);
        EXPECT_TRUE(fetch.found && fetch.base_offset == 3 * batch && fetch.position == 200 * batch);
        EXPECT_EQ_I64(fetch.first_batch_size, 200);
        EXPECT_EQ_I64(fetch.size, 0);
    }
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 599, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_TRUE(!fetch.found && fetch.ends_clean);
    segment_kit_close(&kit);
}

/* [DUR-33] Bytes are read ahead with a header. Where that meets a page that cannot be read, the header alone is read. */
TEST(an_unreadable_page_after_a_header_does_not_stop_the_walk)
{
    segment_kit kit;
    sgs_buffer out;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_all(&kit, 0, 1000, 1, 100);
    sgs_buffer_init(&out, sgs_env_memory(&kit.memory.env));
    const sgs_segment_read request = { .start_offset = 150, .max_size = 150, .max_position = 100000 };
    memory_env_fail(&kit.memory, "read_at", 1, EIO);
    EXPECT_OK(sgs_log_segment_read(kit.segment, &request, &out, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64((int64_t)sgs_load_be64(out.data), 150);
    sgs_buffer_deinit(&out);
    segment_kit_close(&kit);
}

/* What is in `out` stays before the new bytes, and comes back untouched from a failure. */
TEST(bytes_are_appended_and_a_failure_takes_them_back)
{
    segment_kit kit;
    sgs_buffer out;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_all(&kit, 0, 1000, 1, 100);
    sgs_buffer_init(&out, sgs_env_memory(&kit.memory.env));
    EXPECT_OK(sgs_buffer_append(&out, "before", 6, &kit.err), &kit.err);
    const sgs_segment_read request = { .start_offset = 150, .max_size = 70000, .max_position = 100000 };
    for (int64_t nth = 1; nth <= 2; ++nth) {
        memory_env_fail_always(&kit.memory, "read_at", nth, EIO);
        EXPECT_STATUS(sgs_log_segment_read(kit.segment, &request, &out, &fetch, &kit.err), SGS_READ_IO); /* [DUR-33] */
        EXPECT_EQ_I64(out.size, 6);
        memory_env_heal(&kit.memory);
    }
    memory_env_heal(&kit.memory);
    EXPECT_OK(sgs_log_segment_read(kit.segment, &request, &out, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(out.size, 70006);
    EXPECT_MEM(out.data, "before", 6);
    EXPECT_EQ_I64((int64_t)sgs_load_be64(out.data + 6), 150);
    sgs_buffer_deinit(&out);
    segment_kit_close(&kit);
}

/* ---- indexes that are missing or wrong [DUR-53] ---- */

static void damage_index(segment_kit *kit, const char *name, int kind)
{
    static uint8_t file[1 << 16];
    const int64_t size = temporary_read(&kit->directory, name, file, sizeof file);
    REQUIRE_TRUE(size > 64);
    switch (kind) {
    case 0: /* one byte of noise in every entry */
        for (int64_t i = 5; i < size; i += 8)
            file[i] ^= 0x5a;
        break;
    case 1: /* positions beyond the file */
        for (int64_t i = 4; i + 4 <= size; i += 8)
            sgs_store_be32(file + i, 0x7ffffff0);
        break;
    case 2: /* positions in the middle of batches */
        for (int64_t i = 4; i + 4 <= size; i += 8)
            sgs_store_be32(file + i, sgs_load_be32(file + i) + 13);
        break;
    case 3: /* negative positions */
        for (int64_t i = 4; i + 4 <= size; i += 8)
            sgs_store_be32(file + i, 0xfffffff0);
        break;
    case 4: /* entries of a later place: batch starts, but of the wrong offsets */
        for (int64_t i = 4; i + 12 <= size; i += 8)
            sgs_store_be32(file + i, sgs_load_be32(file + i + 8));
        break;
    default: /* all ones */
        memset(file, 0xff, (size_t)size);
        break;
    }
    temporary_write(&kit->directory, name, file, (size_t)size);
}

TEST(a_damaged_index_is_gone_around_and_made_anew_at_close)
{
    for (int kind = 0; kind < 6; ++kind) {
        segment_kit kit;
        static uint8_t before[1 << 16];
        static uint8_t after[1 << 16];
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        append_all(&kit, 0, 1000, 1, 100);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        const int64_t size = temporary_read(&kit.directory, "00000000000000000000.index", before, sizeof before);
        damage_index(&kit, "00000000000000000000.index", kind);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        for (int offset = 999; offset >= 0; offset -= 37)
            reads(&kit, offset, 1, 100000, true, offset, offset * 100, 100);
        int64_t next = -1;
        bool ends_clean = false;
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, 1000);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        kit.segment = NULL;
        EXPECT_EQ_I64(temporary_read(&kit.directory, "00000000000000000000.index", after, sizeof after), size);
        EXPECT_MEM(after, before, (size_t)size);
        segment_kit_close(&kit);
    }
}

TEST(without_an_index_a_read_scans_in_windows)
{
    segment_kit kit;
    sgs_error err;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_all(&kit, 0, 10000, 1, 100);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(sgs_env_posix()->unlink(sgs_env_posix(), kit.directory.fd, "00000000000000000000.index", &err), &err);
    kit.context.writable = false;
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    const int64_t before = memory_env_calls(&kit.memory, "read_at");
    reads(&kit, 9990, 500, 1000000, true, 9990, 999000, 500);
    EXPECT_TRUE(memory_env_calls(&kit.memory, "read_at") - before < 60);
    segment_kit_close(&kit);
}

/* [SEG-17] the file became shorter behind our back */
TEST(a_file_that_shrank_is_an_error_with_its_place)
{
    segment_kit kit;
    answer found;
    static uint8_t file[1000];
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_all(&kit, 0, 10, 1, 100);
    temporary_read(&kit.directory, "00000000000000000000.log", file, sizeof file);
    temporary_write(&kit.directory, "00000000000000000000.log", file, 550);
    EXPECT_STATUS(read_from(&kit, 2, 1000, 1000, true, &found), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(kit.err.position, 550);
    EXPECT_TEXT(kit.err.file, "00000000000000000000.log");
    sgs_buffer_deinit(&found.bytes);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

/* ---- beside an append [SEG-58, CON-4] ---- */

typedef struct reader {
    sgs_log_segment *segment;
    _Atomic bool stop;
    _Atomic int64_t reads, wrong;
} reader;

static void *read_for_ever(void *argument)
{
    reader *self = argument;
    sgs_buffer out;
    sgs_error err;
    sgs_buffer_init(&out, sgs_env_memory(sgs_env_posix()));
    uint32_t state = 99;
    while (!atomic_load(&self->stop)) {
        const int32_t size = sgs_log_segment_size(self->segment);
        if (size == 0)
            continue;
        state = state * 1103515245u + 12345u;
        const int64_t last = size / 100 - 1;
        const int64_t offset = (int64_t)(state >> 8) % (last + 1);
        const sgs_segment_read request = {
            .start_offset = offset,
            .max_size = (int32_t)(state >> 4) % 5000 + 100,
            .max_position = size,
            .min_one_message = true,
        };
        sgs_segment_fetch fetch;
        sgs_timestamp_offset largest;
        bool is_partial = false;
        sgs_buffer_clear(&out);
        bool good = sgs_log_segment_read(self->segment, &request, &out, &fetch, &err) == SGS_OK && fetch.found &&
                    fetch.base_offset == offset && fetch.position == offset * 100;
        for (size_t at = 0; good && at + 100 <= out.size; at += 100)
            good = sgs_batch_check(out.data + at, 100, 0, &err) == SGS_OK;
        good = good && sgs_log_segment_max_timestamp(self->segment, &largest, &is_partial, &err) == SGS_OK &&
               largest.timestamp == largest.offset * 3 &&
               largest.offset >= last - 1; /* published behind the size [CON-4] */
        self->wrong += !good;
        ++self->reads;
    }
    sgs_buffer_deinit(&out);
    return NULL;
}

TEST(readers_beside_an_append_see_whole_batches)
{
    enum { READERS = 2, BATCHES = 6000 };
    segment_kit kit;
    reader self;
    pthread_t threads[READERS];
    segment_kit_open(&kit);
    kit.context.env = sgs_env_posix(); /* the failing environment counts for one thread only */
    kit.context.index_interval_bytes = 256;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 1, 0, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err); /* whoever comes first loads all of it */
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), &kit.err);
    memset(&self, 0, sizeof self);
    self.segment = kit.segment;
    for (int i = 0; i < READERS; ++i)
        REQUIRE_EQ_I64(pthread_create(&threads[i], NULL, read_for_ever, &self), 0);
    while (self.reads == 0) /* on a busy machine the appends are done before a reader begins */
        sched_yield();
    for (int i = 1; i < BATCHES; ++i)
        if (!EXPECT_OK(segment_kit_append(&kit, i, 1, 3 * i, 100), &kit.err))
            break;
    atomic_store(&self.stop, true);
    for (int i = 0; i < READERS; ++i)
        pthread_join(threads[i], NULL);
    EXPECT_TRUE(self.reads > 0);
    EXPECT_EQ_I64(self.wrong, 0);
    segment_kit_close(&kit);
}

TEST_MAIN()
