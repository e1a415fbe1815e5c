/* test_append_lane.c - what the short way of an append takes, and what it leaves to the layers [D11]. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "segment/append_lane.h"
#include "segment_kit.h"
#include "test.h"

enum { TIME = 1000, ROOM = 4096, EPOCH_AT = 12 };

typedef struct lane_kit {
    segment_kit log;
    sgs_log_validator validator;
    sgs_append_lane lane;
    sgs_lane_append answer;
    uint8_t batch[ROOM];
    size_t size;
} lane_kit;

static void open_kit(lane_kit *kit)
{
    segment_kit_open(&kit->log);
    REQUIRE_OK(segment_kit_segment(&kit->log, 0, true), &kit->log.err);
    const sgs_memory memory = sgs_env_memory(kit->log.context.env);
    sgs_log_validator_init(&kit->validator, memory, &kit->log.codecs);
    sgs_append_lane_init(&kit->lane, memory);
    kit->lane.max_segment_bytes = 1000;
    kit->lane.max_batch_bytes = 500;
    kit->lane.max_segment_ms = 50;
    kit->lane.leader_epoch = 3;
}

static void close_kit(lane_kit *kit)
{
    sgs_append_lane_deinit(&kit->lane);
    sgs_log_validator_deinit(&kit->validator);
    segment_kit_close(&kit->log);
}

static void build(lane_kit *kit, int64_t base_offset, int32_t records, int64_t timestamp)
{
    kit->size = segment_kit_batch(kit->batch, ROOM, base_offset, records, timestamp, 0);
}

static bool leads(lane_kit *kit)
{
    EXPECT_OK(sgs_append_lane_leader(&kit->lane, kit->log.segment, &kit->validator, kit->batch, kit->size, TIME,
                                     &kit->answer, &kit->log.err),
              &kit->log.err);
    return kit->answer.taken;
}

static bool follows(lane_kit *kit, int32_t epoch)
{
    sgs_store_be32(kit->batch + EPOCH_AT, (uint32_t)epoch);
    EXPECT_OK(sgs_append_lane_follower(&kit->lane, kit->log.segment, kit->batch, kit->size, 3, TIME, &kit->answer,
                                       &kit->log.err),
              &kit->log.err);
    return kit->answer.taken;
}

TEST(a_leaders_batch_gets_offsets_and_epoch)
{
    lane_kit kit;
    open_kit(&kit);
    kit.lane.next_offset = 7;
    build(&kit, 0, 2, TIME);

    EXPECT_TRUE(leads(&kit));
    EXPECT_TRUE(kit.answer.first_offset == 7 && kit.answer.last_offset == 8 && kit.answer.records_count == 2);
    EXPECT_TRUE(kit.answer.max_timestamp == TIME + 1);
    EXPECT_TRUE(kit.lane.next_offset == 9 && kit.lane.position == (int32_t)kit.size);
    EXPECT_TRUE(segment_kit_read_offset(&kit.log, 7) == 7);
    EXPECT_TRUE(sgs_load_be_i64(kit.batch) == 0); /* in a copy of the header */
    close_kit(&kit);
}

TEST(a_followers_batches_stay_as_they_are)
{
    lane_kit kit;
    open_kit(&kit);
    build(&kit, 0, 2, TIME);
    EXPECT_TRUE(follows(&kit, 3));
    EXPECT_TRUE(kit.lane.next_offset == 2);

    build(&kit, 3, 1, TIME); /* a gap: the state of the log changes with it */
    EXPECT_TRUE(!follows(&kit, 3));
    build(&kit, 1, 1, TIME);
    EXPECT_TRUE(!follows(&kit, 3));
    build(&kit, 2, 1, TIME);
    EXPECT_TRUE(!follows(&kit, 2) && !follows(&kit, 4));
    EXPECT_TRUE(sgs_log_segment_size(kit.log.segment) == kit.lane.position);
    EXPECT_TRUE(follows(&kit, 3));
    close_kit(&kit);
}

TEST(what_has_to_be_decided_is_not_taken)
{
    lane_kit kit;
    open_kit(&kit);
    build(&kit, 0, 1, TIME);
    EXPECT_TRUE(leads(&kit));

    kit.batch[kit.size - 1] ^= 1; /* a CRC that is wrong: the layers refuse it */
    EXPECT_TRUE(!leads(&kit));
    build(&kit, 0, 1, TIME);
    --kit.size;
    EXPECT_TRUE(!leads(&kit));
    build(&kit, 0, 1, TIME + 51); /* the segment is old enough */
    EXPECT_TRUE(!leads(&kit));
    build(&kit, 0, 1, TIME);
    kit.lane.max_segment_bytes = kit.lane.position + (int32_t)kit.size - 1;
    EXPECT_TRUE(!leads(&kit));
    kit.lane.max_segment_bytes = 1000;
    kit.lane.leader_epoch = -1;
    EXPECT_TRUE(!leads(&kit));
    kit.lane.leader_epoch = 3;
    --kit.lane.position; /* somebody else wrote */
    EXPECT_TRUE(!leads(&kit));
    ++kit.lane.position;
    EXPECT_TRUE(sgs_log_segment_size(kit.log.segment) == kit.lane.position);
    EXPECT_TRUE(leads(&kit));
    close_kit(&kit);
}

static bool appends(lane_kit *kit)
{
    sgs_batch_header row;
    EXPECT_OK(sgs_batch_header_load(kit->batch, kit->size, 0, &row, &kit->log.err), &kit->log.err);
    EXPECT_OK(sgs_append_lane_own(&kit->lane, kit->log.segment, &kit->validator, kit->batch, kit->size, &row, TIME,
                                  &kit->answer, &kit->log.err),
              &kit->log.err);
    EXPECT_TRUE(row.base_offset == 0); /* the layers would begin with it */
    return kit->answer.taken;
}

TEST(a_batch_that_was_built_here_is_stamped_as_the_validator_does)
{
    lane_kit by_header, by_validator;
    open_kit(&by_header);
    open_kit(&by_validator);
    by_header.validator.options.records_are_trusted = true;
    for (int i = 0; i < 3; ++i) {
        build(&by_header, 0, 2, TIME + i);
        build(&by_validator, 0, 2, TIME + i);
        EXPECT_TRUE(appends(&by_header) && appends(&by_validator));
        EXPECT_TRUE(by_header.size == by_validator.size &&
                    memcmp(by_header.batch, by_validator.batch, by_header.size) == 0);
        EXPECT_TRUE(sgs_load_be_i64(by_header.batch) == 2 * i && sgs_load_be32(by_header.batch + EPOCH_AT) == 3);
        EXPECT_TRUE(memcmp(&by_header.answer, &by_validator.answer, sizeof by_header.answer) == 0);
    }
    EXPECT_TRUE(by_header.lane.next_offset == 6 && by_header.lane.position == by_validator.lane.position);
    EXPECT_TRUE(segment_kit_read_offset(&by_header.log, 4) == 4);
    close_kit(&by_header);
    close_kit(&by_validator);
}

TEST(a_header_is_not_enough_where_a_rule_asks_for_more)
{
    lane_kit kit;
    sgs_batch_header row;
    open_kit(&kit);
    build(&kit, 0, 2, TIME);
    REQUIRE_OK(sgs_batch_header_load(kit.batch, kit.size, 0, &row, &kit.log.err), &kit.log.err);
    sgs_validation_options *const options = &kit.validator.options;
    const sgs_validation_options defaults = *options;

    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row)); /* of a stranger */
    options->records_are_trusted = true;
    options->keys_required = true;
    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row) && !appends(&kit));
    *options = defaults;
    options->records_are_trusted = true;
    options->log_append_time = true;
    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row) && !appends(&kit));
    options->log_append_time = false;
    options->target_codec = SGS_CODEC_LZ4;
    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row));
    options->target_codec = SGS_CODEC_OF_SOURCE;
    options->timestamp_before_max_ms = 10; /* the smallest is in no header */
    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row));
    options->timestamp_before_max_ms = INT64_MAX;
    EXPECT_TRUE(!sgs_assign_offsets_by_header(&kit.validator, INT64_MAX - 1, kit.batch, &row));
    EXPECT_TRUE(row.base_offset == 0 && sgs_load_be_i64(kit.batch) == 0);
    EXPECT_TRUE(sgs_assign_offsets_by_header(&kit.validator, 5, kit.batch, &row));
    EXPECT_TRUE(row.base_offset == 5 && row.last_offset == 6 && sgs_load_be_i64(kit.batch) == 5);
    close_kit(&kit);
}

/* ---- everything that is left to the layers, for each way in ---- */

static void change_header(lane_kit *kit, void (*change)(sgs_batch_header *row))
{
    sgs_batch_header row;
    EXPECT_OK(sgs_batch_header_load(kit->batch, kit->size, 0, &row, &kit->log.err), &kit->log.err);
    change(&row);
    sgs_batch_header_store(&row, kit->batch);
    (void)sgs_batch_seal(kit->batch, kit->size);
}

static void by_a_producer(sgs_batch_header *row) { row->producer_id = 7; }
static void with_attributes(sgs_batch_header *row) { row->attributes = SGS_ATTRIBUTE_LOG_APPEND_TIME; }
static void in_a_transaction(sgs_batch_header *row) { row->attributes = SGS_ATTRIBUTE_TRANSACTIONAL; }

TEST(sizes_that_the_layers_judge_are_left_to_them)
{
    for (int way = 0; way < 3; ++way) {
        lane_kit kit;
        sgs_batch_header row;
        open_kit(&kit);
        build(&kit, 0, 1, TIME);
        REQUIRE_OK(sgs_batch_header_load(kit.batch, kit.size, 0, &row, &kit.log.err), &kit.log.err);
        const size_t size = kit.size;
        const int32_t segment_bytes = kit.lane.max_segment_bytes;
        for (int limit = 0; limit < 4; ++limit) {
            const size_t given = limit == 0 ? 0 : size;
            kit.lane.max_batch_bytes = limit == 1 ? (int32_t)size - 1 : 500;
            kit.lane.max_segment_bytes = limit == 2 ? (int32_t)size - 1 : segment_bytes;
            kit.lane.leader_epoch = limit == 3 ? -1 : 3;
            if (way == 2 && limit == 1) /* followers take any */
                continue;
            sgs_status status;
            if (way == 0)
                status = sgs_append_lane_leader(&kit.lane, kit.log.segment, &kit.validator, kit.batch, given, TIME,
                                                &kit.answer, &kit.log.err);
            else if (way == 1)
                status = sgs_append_lane_own(&kit.lane, kit.log.segment, &kit.validator, kit.batch, given, &row, TIME,
                                             &kit.answer, &kit.log.err);
            else
                status = sgs_append_lane_follower(&kit.lane, kit.log.segment, kit.batch, given, 3, TIME, &kit.answer,
                                                  &kit.log.err);
            EXPECT_OK(status, &kit.log.err);
            EXPECT_TRUE(!kit.answer.taken);
        }
        close_kit(&kit);
    }
}

TEST(batches_of_another_kind_are_left_to_the_layers)
{
    static void (*const changes[])(sgs_batch_header *row) = { by_a_producer, with_attributes, in_a_transaction };
    for (int i = 0; i < 3; ++i) {
        lane_kit kit;
        open_kit(&kit);
        build(&kit, 0, 1, TIME);
        change_header(&kit, changes[i]);
        EXPECT_TRUE(!leads(&kit));
        EXPECT_TRUE(!follows(&kit, 3) || i == 1); /* the leader has stamped its time */
        close_kit(&kit);
    }
    lane_kit kit;
    open_kit(&kit);
    build(&kit, 0, 1, TIME);
    const size_t first = kit.size;
    kit.size += segment_kit_batch(kit.batch + first, ROOM - first, 1, 1, TIME, 0); /* two, and each cut */
    EXPECT_TRUE(!leads(&kit));
    --kit.size;
    EXPECT_TRUE(!follows(&kit, 3));
    kit.size = first - 1;
    EXPECT_TRUE(!follows(&kit, 3));
    kit.lane.next_offset = (int64_t)INT32_MAX + 1; /* too far for this segment */
    build(&kit, kit.lane.next_offset, 1, TIME);
    EXPECT_TRUE(!leads(&kit) && !follows(&kit, 3));
    close_kit(&kit);
}

/* Without a time of its own a segment is as old as its file. */
TEST(a_segment_without_times_is_as_old_as_it_was_made)
{
    lane_kit kit;
    open_kit(&kit);
    kit.log.memory.wall_clock_ms = TIME;
    build(&kit, 0, 1, -1);
    EXPECT_TRUE(leads(&kit));
    EXPECT_OK(segment_kit_crash(&kit.log), &kit.log.err); /* made at TIME */
    EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.log.segment, &kit.log.err), &kit.log.err);
    build(&kit, 0, 1, -1);
    EXPECT_TRUE(leads(&kit));
    kit.lane.max_segment_ms = -1;
    EXPECT_TRUE(!leads(&kit));
    kit.lane.max_segment_ms = 50;
    EXPECT_OK(segment_kit_crash(&kit.log), &kit.log.err);
    EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.log.segment, &kit.log.err), &kit.log.err);
    memory_env_fail_always(&kit.log.memory, "read_at", 1, EIO);
    EXPECT_TRUE(!leads(&kit)); /* the layers meet the error, and tell it */
    memory_env_heal(&kit.log.memory);
    EXPECT_TRUE(leads(&kit));
    close_kit(&kit);
}

TEST(a_large_batch_is_taken_too)
{
    static uint8_t batch[6 << 20];
    lane_kit kit;
    open_kit(&kit);
    kit.lane.max_batch_bytes = kit.lane.max_segment_bytes = 8 << 20;
    const size_t size = segment_kit_batch(batch, sizeof batch, 0, 1, TIME, 5 << 20);
    EXPECT_OK(sgs_append_lane_leader(&kit.lane, kit.log.segment, &kit.validator, batch, size, TIME, &kit.answer,
                                     &kit.log.err),
              &kit.log.err);
    EXPECT_TRUE(kit.answer.taken);
    EXPECT_TRUE(segment_kit_read_offset(&kit.log, 0) == 0);
    close_kit(&kit);
}

/* The header lies apart from its records: the bytes of the file are those of the validator that stamps in place, also where the
 * CRC is another one, and the caller's bytes are as they were. */
TEST(what_is_written_is_what_the_validator_makes_in_place)
{
    const struct {
        bool log_append_time;
        int64_t wrong_max_timestamp;
    } cases[] = { { false, -1 }, { true, -1 }, { false, TIME + 40 }, { true, TIME + 40 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        lane_kit kit;
        uint8_t before[sizeof kit.batch], expected[sizeof kit.batch], found[sizeof kit.batch];
        sgs_batch_header row;
        open_kit(&kit);
        kit.validator.options.log_append_time = cases[i].log_append_time;
        kit.lane.next_offset = 5;
        build(&kit, 0, 3, TIME);
        if (cases[i].wrong_max_timestamp >= 0)
            sgs_batch_set_max_timestamp(kit.batch, kit.size, false, cases[i].wrong_max_timestamp);
        memcpy(before, kit.batch, kit.size);

        EXPECT_TRUE(leads(&kit));
        EXPECT_TRUE(memcmp(kit.batch, before, kit.size) == 0);
        EXPECT_OK(sgs_batch_header_load(before, kit.size, 0, &row, &kit.log.err), &kit.log.err);
        memcpy(expected, before, kit.size);
        EXPECT_OK(sgs_validate_and_assign_offsets(&kit.validator, 5, expected, kit.size, &row, 1, &kit.log.err),
                  &kit.log.err);
        EXPECT_TRUE(temporary_read(&kit.log.directory, "00000000000000000000.log", found, sizeof found) ==
                    (int64_t)kit.size);
        EXPECT_TRUE(memcmp(found, expected, kit.size) == 0);
        EXPECT_OK(sgs_batch_check(found, kit.size, 0, &kit.log.err), &kit.log.err);
        close_kit(&kit);
    }
}

TEST_MAIN()
