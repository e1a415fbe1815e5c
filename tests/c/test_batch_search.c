/* The second look into a batch by timestamp reads a part of it: with the same answers, and only as long as nothing changed. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "record/batch_builder.h"
#include "segment_kit.h"
#include "test.h"

enum { RECORDS = 120, BATCHES = 12, FILE_BYTES = 1 << 19, LARGEST_VALUE = 900 };

static uint8_t file[FILE_BYTES];
static size_t file_size;
static int64_t times[BATCHES * RECORDS]; /* by offset, as a reader sees them */
static uint32_t state;

static int64_t chance(int64_t below)
{
    state = state * 1103515245u + 12345u;
    return (int64_t)(state >> 12) % below;
}

/* Rising, falling, all over the place, all the same, stamped by the broker, with peaks at either end. */
static int64_t time_of(int kind, int i)
{
    switch (kind) {
    case 0:
        return 10 * i;
    case 1:
        return 10 * (RECORDS - i);
    case 2:
        return chance(1200);
    case 3:
        return 600;
    case 4:
        return i == 0 ? 5000 : i;
    default:
        return i == RECORDS - 1 ? 5000 : i;
    }
}

static void add_batch(int number, bool log_append_time, int value_sizes)
{
    static const uint8_t value[LARGEST_VALUE];
    sgs_batch_builder builder;
    sgs_buffer out;
    sgs_error err;
    sgs_batch_options options;
    const int64_t start = (int64_t)number * 1000;
    sgs_batch_options_default(&options);
    options.base_offset = (int64_t)number * RECORDS;
    options.partition_leader_epoch = 3;
    options.log_append_time = log_append_time;
    options.log_append_timestamp = start + 700;
    sgs_batch_builder_init(&builder, sgs_env_memory(sgs_env_posix()), NULL);
    sgs_buffer_init(&out, sgs_env_memory(sgs_env_posix()));
    REQUIRE_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    for (int i = 0; i < RECORDS; ++i) {
        const int64_t offset = options.base_offset + i;
        const int64_t timestamp = start + time_of(number % 6, i);
        const sgs_bytes none = { .data = NULL, .size = -1 };
        /* large ones at the front, at the back, anywhere */
        const bool is_large = value_sizes == 0 ? i < 20 : value_sizes == 1 ? i > 100 : chance(5) == 0;
        const sgs_bytes bytes = { .data = value, .size = is_large ? LARGEST_VALUE : (int32_t)chance(60) };
        REQUIRE_OK(sgs_batch_builder_append(&builder, offset, timestamp, none, bytes, NULL, 0, &err), &err);
        times[offset] = log_append_time ? options.log_append_timestamp : timestamp;
    }
    REQUIRE_OK(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    EXPECT_TRUE(file_size + out.size <= sizeof file);
    memcpy(file + file_size, out.data, out.size);
    file_size += out.size;
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
}

static void make_file(void)
{
    state = 7;
    file_size = 0;
    for (int i = 0; i < BATCHES; ++i)
        add_batch(i, i == 9, i % 3);
}

/* A log that is there, opened to be written. */
static void open_file(segment_kit *kit)
{
    segment_kit_open(kit);
    temporary_write(&kit->directory, "00000000000000000000.log", file, file_size);
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

static sgs_status look_up(segment_kit *kit, int64_t timestamp, int64_t starting_offset, int64_t *offset)
{
    sgs_found_timestamp found = { .offset = -9 };
    const sgs_status status =
        sgs_log_segment_find_offset_by_timestamp(kit->segment, timestamp, starting_offset, -1, &found, &kit->err);
    *offset = found.found ? found.offset : -1;
    EXPECT_TRUE(status != SGS_OK || !found.found ||
                (found.timestamp == times[found.offset] && found.leader_epoch == 3));
    return status;
}

static int64_t linear_search(int64_t timestamp, int64_t starting_offset)
{
    for (int64_t offset = starting_offset; offset < BATCHES * RECORDS; ++offset)
        if (times[offset] >= timestamp)
            return offset;
    return -1;
}

/* What is read of the .log goes through here. */
static sgs_status (*read_of_kit)(const sgs_env *, int, const char *, void *, size_t, int64_t, size_t *, sgs_error *);
static size_t bytes_read;

static sgs_status count_bytes(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                              size_t *got, sgs_error *err)
{
    bytes_read += size;
    return read_of_kit(env, fd, name, data, size, position, got, err);
}

static void count_reads(segment_kit *kit)
{
    read_of_kit = kit->memory.env.read_at;
    kit->memory.env.read_at = count_bytes;
    bytes_read = 0;
}

/* [SEG-23] whatever the records' order, sizes and times are, the second look finds what the first found */
TEST(a_batch_looked_at_before_gives_the_same_answers)
{
    segment_kit kit;
    int64_t offset;
    make_file();
    for (int as_kafka = 0; as_kafka < 2; ++as_kafka) {
        open_file(&kit);
        kit.context.kafka_profile = as_kafka == 1;
        for (int round = 0; round < 2; ++round)
            for (int64_t target = 0; target < BATCHES * 1000 + 5100; target += 41)
                for (int64_t start = 0; start < BATCHES * RECORDS; start += 173) {
                    EXPECT_OK(look_up(&kit, target, start, &offset), &kit.err);
                    EXPECT_EQ_I64(offset, linear_search(target, start));
                }
        segment_kit_close(&kit);
    }
}

TEST(of_a_batch_looked_at_before_a_part_is_read)
{
    segment_kit kit;
    int64_t offset;
    sgs_batch_header first;
    make_file();
    open_file(&kit);
    count_reads(&kit);
    EXPECT_OK(sgs_batch_header_load(file, file_size, 0, &first, &kit.err), &kit.err);
    EXPECT_OK(look_up(&kit, 20, 0, &offset), &kit.err);
    EXPECT_TRUE(bytes_read >= (size_t)first.size_bytes);
    bytes_read = 0;
    EXPECT_OK(look_up(&kit, 0, 0, &offset), &kit.err);
    EXPECT_EQ_I64(offset, 0);
    EXPECT_TRUE(bytes_read > 0 && bytes_read < (size_t)first.size_bytes / 2);
    /* who may not write the log remembers nothing: somebody else may change it [DUR-65] */
    kit.context.headers = NULL;
    bytes_read = 0;
    EXPECT_OK(look_up(&kit, 0, 0, &offset), &kit.err);
    EXPECT_TRUE(bytes_read >= (size_t)first.size_bytes);
    segment_kit_close(&kit);
}

static sgs_status append_first_batch(segment_kit *kit)
{
    sgs_batch_header row;
    SGS_TRY(sgs_batch_header_load(file, file_size, 0, &row, &kit->err));
    const sgs_slice slice = { file, (size_t)row.size_bytes };
    return sgs_log_segment_append(kit->segment, &slice, 1, &row, 1, &kit->poisoned, &kit->err);
}

/* [DUR-79, DUR-85] the CRC is checked by the first look; what takes the place of bytes that were cut is looked at anew */
TEST(the_first_look_checks_the_whole_batch)
{
    segment_kit kit;
    int64_t offset;
    int32_t cut;
    make_file();
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    REQUIRE_OK(append_first_batch(&kit), &kit.err);
    for (int round = 0; round < 2; ++round) {
        EXPECT_OK(look_up(&kit, 10, 0, &offset), &kit.err);
        EXPECT_EQ_I64(offset, 1);
    }
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 0, &cut, &kit.err), &kit.err);
    sgs_batch_header row;
    EXPECT_OK(sgs_batch_header_load(file, file_size, 0, &row, &kit.err), &kit.err);
    file[row.size_bytes - 1] ^= 1; /* far behind the record that is looked for */
    REQUIRE_OK(append_first_batch(&kit), &kit.err);
    for (int round = 0; round < 2; ++round)
        EXPECT_STATUS(look_up(&kit, 10, 0, &offset), SGS_CORRUPT_RECORD);
    segment_kit_close(&kit);
}

TEST_MAIN()
