/* test_cleaned_transaction_metadata.c - which batches of transactions may go [CLN-80, CLN-95, CLN-97]. */
#include "record/cleaned_transaction_metadata.h"

#include <errno.h>

#include "memory_env.h"
#include "record/batch_builder.h"
#include "record_kit.h"
#include "test.h"

typedef struct fixture {
    sgs_cleaned_transaction_metadata metadata;
    sgs_error err;
} fixture;

static void begin(fixture *f) { sgs_cleaned_transaction_metadata_init(&f->metadata, kit_memory()); }

static void end(fixture *f) { sgs_cleaned_transaction_metadata_deinit(&f->metadata); }

static void add(fixture *f, int64_t producer_id, int64_t first_offset, int64_t last_offset)
{
    const sgs_aborted_txn txn = { producer_id, first_offset, last_offset, last_offset + 1 };
    EXPECT_OK(sgs_cleaned_transaction_metadata_add(&f->metadata, &txn, 1, &f->err), &f->err);
}

static bool data(fixture *f, int64_t producer_id, int64_t offset, bool transactional)
{
    const sgs_batch_header header = {
        .magic = 2,
        .base_offset = offset,
        .last_offset = offset,
        .producer_id = producer_id,
        .attributes = transactional ? SGS_ATTRIBUTE_TRANSACTIONAL : 0,
    };
    bool is_aborted = false;
    EXPECT_OK(sgs_cleaned_transaction_metadata_on_batch(&f->metadata, &header, &is_aborted, &f->err), &f->err);
    return is_aborted;
}

static sgs_status give_control(fixture *f, const uint8_t *batch, size_t size, bool *can_go)
{
    sgs_batch_header header;
    SGS_TRY(sgs_batch_header_load(batch, size, 0, &header, &f->err));
    return sgs_cleaned_transaction_metadata_on_control_batch(&f->metadata, batch, &header, can_go, &f->err);
}

static bool marker(fixture *f, int64_t producer_id, int64_t offset, bool commit)
{
    sgs_buffer batch;
    bool can_go = false;
    sgs_buffer_init(&batch, kit_memory());
    EXPECT_OK(sgs_batch_build_end_transaction_marker(offset, 0, 0, producer_id, 0, commit, 0, &batch, &f->err),
              &f->err);
    EXPECT_OK(give_control(f, batch.data, batch.size, &can_go), &f->err);
    sgs_buffer_deinit(&batch);
    return can_go;
}

static size_t cleaned_count(const fixture *f) { return f->metadata.cleaned.size / sizeof(sgs_aborted_txn); }

TEST(records_of_an_aborted_transaction_go_and_its_marker_when_none_was_seen)
{
    fixture f;
    begin(&f);
    add(&f, 7, 2, 4);
    EXPECT_TRUE(!data(&f, 7, 1, true)); /* before it begins: of another one, committed */
    EXPECT_TRUE(!marker(&f, 7, 1, true));
    EXPECT_TRUE(data(&f, 7, 2, true));
    EXPECT_TRUE(!data(&f, 8, 3, true));
    EXPECT_TRUE(!data(&f, 7, 3, false)); /* without a transaction nothing is aborted */
    EXPECT_TRUE(!marker(&f, 7, 4, false));
    EXPECT_EQ_U64(cleaned_count(&f), 1); /* [CLN-97] its entry is written again */
    const sgs_aborted_txn *const cleaned = (const sgs_aborted_txn *)(const void *)f.metadata.cleaned.data;
    EXPECT_EQ_I64(cleaned->first_offset, 2);
    EXPECT_EQ_I64(cleaned->last_stable_offset, 5);
    EXPECT_TRUE(!marker(&f, 8, 5, true));
    add(&f, 9, 6, 8);
    EXPECT_TRUE(marker(&f, 9, 8, false)); /* nothing of it is left */
    EXPECT_TRUE(marker(&f, 9, 9, true));
    EXPECT_TRUE(marker(&f, 9, 9, false)); /* unknown */
    EXPECT_EQ_U64(cleaned_count(&f), 1);
    sgs_cleaned_transaction_metadata_clear(&f.metadata);
    EXPECT_EQ_U64(cleaned_count(&f), 0);
    end(&f);
}

TEST(of_two_open_transactions_of_a_producer_the_first_counts) /* [CLN-95] a transaction may be told twice */
{
    fixture f;
    begin(&f);
    add(&f, 7, 5, 9);
    add(&f, 7, 1, 3);
    add(&f, 7, 1, 3);
    EXPECT_TRUE(data(&f, 7, 6, true));
    EXPECT_TRUE(!marker(&f, 7, 9, false));
    const sgs_aborted_txn *const cleaned = (const sgs_aborted_txn *)(const void *)f.metadata.cleaned.data;
    EXPECT_EQ_I64(cleaned->last_offset, 3);
    end(&f);
}

TEST(many_transactions_are_taken_in_the_order_of_their_offsets)
{
    enum { COUNT = 200 };
    fixture f;
    begin(&f);
    for (int64_t i = 0; i < COUNT; ++i) {
        const int64_t at = i * 77 % COUNT; /* each once, in no order */
        add(&f, at, at * 10 + 1, at * 10 + 5);
    }
    for (int64_t i = 0; i < COUNT; ++i) {
        EXPECT_TRUE(!data(&f, i, i * 10, true)); /* not yet */
        EXPECT_TRUE(!marker(&f, i, i * 10, true));
        EXPECT_TRUE(data(&f, i, i * 10 + 1, true));
        EXPECT_TRUE(!marker(&f, i, i * 10 + 5, false));
    }
    EXPECT_EQ_U64(cleaned_count(&f), COUNT);
    EXPECT_EQ_U64(f.metadata.aborted.size, 0);
    EXPECT_EQ_U64(f.metadata.committed.size, 0);
    end(&f);
}

TEST(other_control_batches_stay_and_an_empty_one_may_go)
{
    fixture f;
    bool can_go = true;
    begin(&f);
    const kit_bytes leader_change = kit_hex(EXAMPLE_LEADER_CHANGE);
    EXPECT_OK(give_control(&f, leader_change.data, leader_change.size, &can_go), &f.err);
    EXPECT_TRUE(!can_go);
    const kit_bytes empty = kit_hex(EXAMPLE_EMPTY);
    EXPECT_OK(give_control(&f, empty.data, empty.size, &can_go), &f.err);
    EXPECT_TRUE(can_go);
    const kit_bytes no_marker = kit_hex(EXAMPLE_TWO_RECORDS); /* its first key is too short for one */
    EXPECT_STATUS(give_control(&f, no_marker.data, no_marker.size, &can_go), SGS_INVALID_RECORD);
    end(&f);
}

TEST(messages_of_magic_1_are_of_no_transaction)
{
    fixture f;
    bool is_aborted = true;
    begin(&f);
    add(&f, -1, 0, 9);
    const sgs_batch_header header = { .magic = 1, .last_offset = 3, .producer_id = -1, .attributes = 0x10 };
    EXPECT_OK(sgs_cleaned_transaction_metadata_on_batch(&f.metadata, &header, &is_aborted, &f.err), &f.err);
    EXPECT_TRUE(!is_aborted);
    end(&f);
}

TEST(every_failing_allocation_is_told) /* DUR-31 */
{
    int64_t failures = 0;
    for (bool is_done = false; !is_done; ++failures) {
        memory_env memory;
        fixture f;
        bool flag;
        memory_env_init(&memory, sgs_env_posix());
        sgs_cleaned_transaction_metadata_init(&f.metadata, sgs_env_memory(&memory.env));
        memory_env_fail_always(&memory, "allocate", failures + 1, ENOMEM);
        const sgs_aborted_txn txn = { 7, 0, 4, 5 };
        const kit_bytes abort = kit_hex(EXAMPLE_ABORT);
        sgs_batch_header header = { .magic = 2, .producer_id = 4001, .attributes = SGS_ATTRIBUTE_TRANSACTIONAL };
        sgs_status status = sgs_cleaned_transaction_metadata_add(&f.metadata, &txn, 1, &f.err);
        if (status == SGS_OK)
            status = sgs_cleaned_transaction_metadata_on_batch(&f.metadata, &header, &flag, &f.err);
        header.producer_id = 7;
        if (status == SGS_OK)
            status = sgs_cleaned_transaction_metadata_on_batch(&f.metadata, &header, &flag, &f.err);
        if (status == SGS_OK)
            status = give_control(&f, abort.data, abort.size, &flag);
        is_done = status == SGS_OK;
        if (!is_done)
            EXPECT_STATUS(status, SGS_RESOURCE);
        end(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
    EXPECT_TRUE(failures >= 3);
}

TEST_MAIN()
