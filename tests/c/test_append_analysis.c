/* test_append_analysis.c - [format.md 12.1; APP-4]: each rule, and which of two comes first. */
#include "record/append_analysis.h"

#include "append_kit.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "record_kit.h"
#include "test.h"

typedef struct fixture {
    append_kit kit;
    sgs_append_rules rules;
    sgs_append_analysis analysis;
    size_t ends[4]; /* of the batches added */
    int count;
} fixture;

static void fixture_init(fixture *f, sgs_append_origin origin)
{
    append_kit_init(&f->kit);
    f->rules = (sgs_append_rules){ .origin = origin, .leader_epoch = 5, .max_message_bytes = 1000 };
    f->count = 0;
}

static void add(fixture *f, int64_t base_offset, int32_t leader_epoch, int codec)
{
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.base_offset = base_offset;
    options.partition_leader_epoch = leader_epoch;
    options.codec = codec;
    append_kit_add(&f->kit, &options, 2, NULL, false);
    f->ends[f->count++] = f->kit.data.size;
}

static sgs_status analyze(fixture *f)
{
    return sgs_analyze_append(f->kit.data.data, f->kit.data.size, &f->rules, &f->kit.table, &f->analysis, &f->kit.err);
}

TEST(what_is_known_of_an_append)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_REPLICATION);
    add(&f, 10, 3, SGS_CODEC_LZ4);
    add(&f, 20, 5, SGS_CODEC_NONE);
    EXPECT_OK(sgs_buffer_append(&f.kit.data, f.kit.data.data, 30, &f.kit.err), &f.kit.err); /* cut off */

    REQUIRE_OK(analyze(&f), &f.kit.err);

    EXPECT_EQ_I64(f.analysis.batches_count, 2);
    EXPECT_EQ_I64(sgs_batch_table_count(&f.kit.table), 2);
    EXPECT_EQ_I64(f.analysis.valid_bytes, f.ends[1]);
    EXPECT_EQ_I64(f.analysis.first_offset, 10);
    EXPECT_EQ_I64(f.analysis.last_offset, 21);
    EXPECT_EQ_I64(f.analysis.max_timestamp, EXAMPLE_T + 1);
    EXPECT_EQ_I64(f.analysis.last_leader_epoch, 5);
    EXPECT_EQ_I64(f.analysis.source_codec, SGS_CODEC_LZ4);
    append_kit_deinit(&f.kit);
}

TEST(nothing_is_an_append_too)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_CLIENT);
    REQUIRE_OK(analyze(&f), &f.kit.err);
    EXPECT_EQ_I64(f.analysis.first_offset, -1);
    EXPECT_EQ_I64(f.analysis.valid_bytes, 0);
    append_kit_deinit(&f.kit);
}

TEST(the_last_offset_stands_in_for_the_first_of_old_messages)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_CLIENT);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, 3);
    REQUIRE_OK(analyze(&f), &f.kit.err);
    EXPECT_EQ_I64(f.analysis.first_offset, 2);
    EXPECT_EQ_I64(f.analysis.last_leader_epoch, -1);
    append_kit_deinit(&f.kit);
}

TEST(a_raft_leader_appends_its_own_epoch_only)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_RAFT_LEADER);
    add(&f, 0, 5, SGS_CODEC_NONE);
    EXPECT_OK(analyze(&f), &f.kit.err);
    add(&f, 2, 4, SGS_CODEC_NONE);
    EXPECT_STATUS(analyze(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.analysis.refusal, SGS_APPEND_OTHER_EPOCH);
    append_kit_deinit(&f.kit);
}

TEST(a_client_begins_at_offset_0)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_CLIENT);
    add(&f, 1, -1, SGS_CODEC_NONE);
    EXPECT_STATUS(analyze(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.analysis.refusal, SGS_APPEND_BASE_OFFSET);
    f.rules.origin = SGS_ORIGIN_COORDINATOR;
    EXPECT_OK(analyze(&f), &f.kit.err);
    append_kit_deinit(&f.kit);
}

TEST(a_follower_leaves_newer_epochs_out_unseen)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_REPLICATION);
    add(&f, 0, 5, SGS_CODEC_NONE);
    add(&f, 2, 6, SGS_CODEC_NONE);
    add(&f, 4, 5, SGS_CODEC_NONE);
    f.kit.data.data[f.ends[1] - 1] ^= 1; /* not even its CRC counts */
    REQUIRE_OK(analyze(&f), &f.kit.err);
    EXPECT_EQ_I64(f.analysis.batches_count, 1);
    EXPECT_EQ_I64(f.analysis.valid_bytes, f.ends[0]);
    f.rules.leader_epoch = -1;
    REQUIRE_OK(analyze(&f), &f.kit.err);
    EXPECT_EQ_I64(f.analysis.batches_count, 0);
    append_kit_deinit(&f.kit);
}

TEST(a_batch_that_is_too_large_is_that_before_it_is_damaged)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_CLIENT);
    add(&f, 0, -1, SGS_CODEC_NONE);
    f.kit.data.data[f.ends[0] - 1] ^= 1;
    f.rules.max_message_bytes = (int32_t)f.ends[0] - 1;
    EXPECT_STATUS(analyze(&f), SGS_LIMIT_EXCEEDED);
    EXPECT_EQ_I64(f.analysis.refusal, SGS_APPEND_TOO_LARGE);
    f.rules.max_message_bytes = (int32_t)f.ends[0];
    EXPECT_STATUS(analyze(&f), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(f.analysis.refusal, SGS_APPEND_DAMAGED);
    f.rules.max_message_bytes = 0;
    f.rules.origin = SGS_ORIGIN_REPLICATION; /* followers take any size */
    EXPECT_STATUS(analyze(&f), SGS_CORRUPT_RECORD);
    append_kit_deinit(&f.kit);
}

TEST(kept_offsets_ascend)
{
    for (int64_t second = 1; second <= 3; ++second) {
        fixture f;
        fixture_init(&f, SGS_ORIGIN_REPLICATION);
        add(&f, 2, 5, SGS_CODEC_NONE); /* to 3 */
        add(&f, second, 5, SGS_CODEC_NONE);
        EXPECT_STATUS(analyze(&f), second <= 2 ? SGS_INVALID_RECORD : SGS_OK); /* last offsets are compared */
        EXPECT_EQ_I64(f.analysis.refusal, second <= 2 ? SGS_APPEND_OUT_OF_ORDER : SGS_APPEND_ACCEPTED);
        f.rules.origin = SGS_ORIGIN_COORDINATOR; /* its offsets are assigned */
        EXPECT_OK(analyze(&f), &f.kit.err);
        append_kit_deinit(&f.kit);
    }
}

/* Kafka's CompressionType.forId refuses it too, whoever appends. */
TEST(a_codec_that_nobody_knows_is_refused)
{
    for (int id = 4; id < 8; ++id) {
        fixture f;
        fixture_init(&f, SGS_ORIGIN_REPLICATION);
        add(&f, 2, 5, SGS_CODEC_NONE);
        f.kit.data.data[22] = (uint8_t)id;
        sgs_store_be32(f.kit.data.data + 17, sgs_crc32c(0, f.kit.data.data + 21, f.ends[0] - 21));
        EXPECT_STATUS(analyze(&f), id == 4 ? SGS_OK : SGS_UNSUPPORTED_FORMAT);
        EXPECT_EQ_I64(f.analysis.refusal, id == 4 ? SGS_APPEND_ACCEPTED : SGS_APPEND_UNKNOWN_CODEC);
        append_kit_deinit(&f.kit);
    }
}

TEST(what_no_scanner_reads_comes_behind_what_it_reads)
{
    fixture f;
    fixture_init(&f, SGS_ORIGIN_CLIENT);
    add(&f, 0, -1, SGS_CODEC_NONE);
    add(&f, 1, -1, SGS_CODEC_NONE);
    add(&f, 0, -1, SGS_CODEC_NONE);
    f.kit.data.data[f.ends[1] + 16] = 9; /* its magic */
    EXPECT_STATUS(analyze(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.analysis.refusal, SGS_APPEND_BASE_OFFSET);
    f.rules.origin = SGS_ORIGIN_COORDINATOR;
    EXPECT_STATUS(analyze(&f), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(f.kit.err.position, f.ends[1]);
    append_kit_deinit(&f.kit);
}

TEST_MAIN()
