/* A range of a segment that stays in the file: found, sent, read, and refused when it was cut. */
#define _GNU_SOURCE
#include "segment/file_records.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "segment_kit.h"
#include "test.h"

enum { BATCH = 100 };

static void open_with_batches(segment_kit *kit, int count)
{
    segment_kit_open(kit);
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, i, BATCH), &kit->err);
}

/* [SEG-19, SEG-20] the answer of a slice is that of a read, but for the bytes. */
TEST(a_slice_is_what_a_read_would_return)
{
    static const int32_t sizes[] = { 0, 1, BATCH, 250, 100000 };
    static const int64_t bounds[] = { -1, 300, 450, 1000 };
    segment_kit kit;
    open_with_batches(&kit, 10);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s)
        for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; ++b)
            for (int64_t offset = 0; offset <= 3; ++offset)
                for (int whole = 0; whole < 2; ++whole) {
                    const sgs_segment_read request = { offset, sizes[s], bounds[b], whole != 0, 0 };
                    sgs_segment_fetch read, slice;
                    sgs_buffer bytes;
                    sgs_buffer_init(&bytes, sgs_env_memory(&kit.memory.env));
                    EXPECT_OK(sgs_log_segment_read(kit.segment, &request, &bytes, &read, &kit.err), &kit.err);
                    EXPECT_OK(sgs_log_segment_slice(kit.segment, &request, &slice, &kit.err), &kit.err);
                    EXPECT_EQ_I64(slice.found, read.found);
                    EXPECT_EQ_I64(slice.base_offset, read.base_offset);
                    EXPECT_EQ_I64(slice.position, read.position);
                    EXPECT_EQ_I64(slice.size, read.size);
                    EXPECT_EQ_I64(slice.first_entry_incomplete, read.first_entry_incomplete);
                    uint8_t again[1000];
                    EXPECT_OK(
                        sgs_file_records_read_into(kit.segment, slice.position, again, (size_t)slice.size, &kit.err),
                        &kit.err);
                    EXPECT_MEM(again, bytes.data, (size_t)slice.size);
                    sgs_buffer_deinit(&bytes);
                }
    const sgs_segment_read negative = { 0, -1, 1000, true, 0 };
    sgs_segment_fetch slice;
    EXPECT_STATUS(sgs_log_segment_slice(kit.segment, &negative, &slice, &kit.err), SGS_ILLEGAL_ARGUMENT);
    const sgs_segment_read behind = { 10, 100, 1000, true, 0 };
    EXPECT_OK(sgs_log_segment_slice(kit.segment, &behind, &slice, &kit.err), &kit.err);
    EXPECT_TRUE(!slice.found);
    segment_kit_close(&kit);
}

TEST(what_is_sent_is_what_the_file_has)
{
    segment_kit kit;
    open_with_batches(&kit, 10);
    int pair[2];
    uint8_t arrived[1000], expected[1000];
    sgs_transfer transfer;
    REQUIRE_EQ_I64(pipe(pair), 0);
    EXPECT_OK(sgs_file_records_write_to(kit.segment, 200, 500, pair[1], &transfer, &kit.err), &kit.err);
    EXPECT_EQ_I64(transfer.sent, 500);
    EXPECT_EQ_I64(read(pair[0], arrived, sizeof arrived), 500);
    EXPECT_OK(sgs_file_records_read_into(kit.segment, 200, expected, 500, &kit.err), &kit.err);
    EXPECT_MEM(arrived, expected, 500);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "send_file"), 1);

    memory_env_fail(&kit.memory, "send_file", 1, EPIPE);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 0, 500, pair[1], &transfer, &kit.err), SGS_SEND_FAILED);
    memory_env_fail(&kit.memory, "read_at", 1, EIO);
    EXPECT_STATUS(sgs_file_records_read_into(kit.segment, 0, expected, 500, &kit.err), SGS_READ_IO);
    (void)close(pair[0]);
    (void)close(pair[1]);
    segment_kit_close(&kit);
}

/* [DUR-77] Kafka: "Size of FileRecords has been truncated during write" */
TEST(what_was_cut_is_refused_before_a_byte_goes_out)
{
    segment_kit kit;
    open_with_batches(&kit, 10);
    int pair[2];
    int32_t bytes_cut;
    uint8_t bytes[1000];
    sgs_transfer transfer;
    REQUIRE_EQ_I64(pipe(pair), 0);
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 7, &bytes_cut, &kit.err), &kit.err);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 0, 1000, pair[1], &transfer, &kit.err), SGS_LOG_TRUNCATED);
    EXPECT_EQ_I64(kit.err.position, 700);
    EXPECT_TEXT(kit.err.file, "00000000000000000000.log");
    EXPECT_STATUS(sgs_file_records_read_into(kit.segment, 0, bytes, 1000, &kit.err), SGS_LOG_TRUNCATED);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 800, 10, pair[1], &transfer, &kit.err), SGS_LOG_TRUNCATED);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "send_file"), 0);

    const int fd = openat(kit.directory.fd, "00000000000000000000.log", O_RDWR);
    EXPECT_EQ_I64(ftruncate(fd, 300), 0); /* another process */
    (void)close(fd);
    EXPECT_OK(sgs_file_records_write_to(kit.segment, 0, 700, pair[1], &transfer, &kit.err), &kit.err);
    EXPECT_EQ_I64(transfer.sent, 300);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 300, 400, pair[1], &transfer, &kit.err), SGS_LOG_TRUNCATED);
    EXPECT_EQ_I64(kit.err.position, 300);
    EXPECT_STATUS(sgs_file_records_read_into(kit.segment, 0, bytes, 700, &kit.err), SGS_LOG_TRUNCATED);
    (void)close(pair[0]);
    (void)close(pair[1]);
    segment_kit_close(&kit);
}

TEST(ranges_that_no_file_has_are_refused)
{
    segment_kit kit;
    open_with_batches(&kit, 1);
    uint8_t byte;
    sgs_transfer transfer;
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, -1, 1, 0, &transfer, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 0, SIZE_MAX, 0, &transfer, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, INT64_MAX, 1, 0, &transfer, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_file_records_write_to(kit.segment, INT32_MAX, INT32_MAX, 0, &transfer, &kit.err),
                  SGS_LOG_TRUNCATED);
    EXPECT_STATUS(sgs_file_records_read_into(kit.segment, INT64_MIN, &byte, 1, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(sgs_file_records_read_into(kit.segment, 100, &byte, 0, &kit.err), &kit.err);
    segment_kit_close(&kit);
}

TEST_MAIN()
