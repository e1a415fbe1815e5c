/* Which batches a reader of committed data leaves out [TXX-*]; the oracle is a look at every row. */
#include "record/aborted_transactions.h"

#include "test.h"

static const sgs_aborted_transaction rows[] = {
    { 1, 10, 20 },
    { 1, 30, 40 },
    { 1, 41, 41 },
    { 7, 5, 100 },
};
static const sgs_aborted_transactions aborted = { rows, 4 };

static bool is_left_out(int64_t producer_id, int64_t base_offset, int64_t last_offset, int16_t attributes)
{
    const sgs_batch_header batch = {
        .producer_id = producer_id,
        .base_offset = base_offset,
        .last_offset = last_offset,
        .attributes = attributes,
        .magic = 2,
    };
    return sgs_aborted_transactions_contain(&aborted, &batch);
}

static bool is_left_out_by_looking(int64_t producer_id, int64_t base_offset, int64_t last_offset)
{
    for (size_t i = 0; i < 4; ++i) {
        if (rows[i].producer_id == producer_id && base_offset <= rows[i].last_offset &&
            last_offset >= rows[i].first_offset)
            return true;
    }
    return false;
}

TEST(data_between_first_offset_and_marker_is_left_out)
{
    EXPECT_TRUE(is_left_out(1, 10, 12, SGS_ATTRIBUTE_TRANSACTIONAL));
    EXPECT_TRUE(is_left_out(1, 19, 19, SGS_ATTRIBUTE_TRANSACTIONAL));
    EXPECT_TRUE(!is_left_out(1, 21, 29, SGS_ATTRIBUTE_TRANSACTIONAL));
    EXPECT_TRUE(!is_left_out(2, 10, 12, SGS_ATTRIBUTE_TRANSACTIONAL));
}

TEST(markers_and_data_outside_transactions_stay)
{
    EXPECT_TRUE(!is_left_out(1, 20, 20, SGS_ATTRIBUTE_TRANSACTIONAL | SGS_ATTRIBUTE_CONTROL));
    EXPECT_TRUE(!is_left_out(1, 12, 12, 0));
}

TEST(every_batch_is_judged_as_by_a_look_at_every_row)
{
    for (int64_t producer_id = 0; producer_id < 9; ++producer_id) {
        for (int64_t base = 0; base < 110; ++base) {
            for (int64_t last = base; last < base + 4; ++last)
                EXPECT_TRUE(is_left_out(producer_id, base, last, SGS_ATTRIBUTE_TRANSACTIONAL) ==
                            is_left_out_by_looking(producer_id, base, last));
        }
    }
}

TEST(rows_out_of_order_are_seen)
{
    const sgs_aborted_transaction same[] = { { 1, 10, 20 }, { 1, 15, 20 } };
    const sgs_aborted_transaction falling[] = { { 2, 0, 1 }, { 1, 5, 6 } };
    EXPECT_TRUE(sgs_aborted_transactions_are_sorted(&aborted));
    EXPECT_TRUE(!sgs_aborted_transactions_are_sorted(&(sgs_aborted_transactions){ same, 2 }));
    EXPECT_TRUE(!sgs_aborted_transactions_are_sorted(&(sgs_aborted_transactions){ falling, 2 }));
    EXPECT_TRUE(sgs_aborted_transactions_are_sorted(&(sgs_aborted_transactions){ NULL, 0 }));
}

TEST_MAIN()
