/* test_key_partitions.c - keys of a column to partitions: the hash of murmur2.h, nulls, and what a producer claims. */
#include "record/key_partitions.h"

#include "base/murmur2.h"

#include "arrow_table.h"
#include "test.h"

static sgs_error err;
static int32_t out[5];

TEST(keys_go_where_kafkas_clients_put_them)
{
    arrow_table table;
    arrow_table_make(&table);

    for (int32_t count = 1; count < 9; ++count) {
        EXPECT_OK(sgs_key_partitions(&table.columns[0], &table.arrays[0], count, out, &err), &err);
        for (int row = 0; row < 5; ++row) {
            const char *const key = arrow_table_keys[row];
            const int32_t expected = key == NULL ? -1 : sgs_murmur2_partition((const uint8_t *)key, strlen(key), count);
            EXPECT_EQ_I64(out[row], expected);
        }
    }
}

TEST(a_slice_begins_at_its_offset)
{
    arrow_table table;
    arrow_table_make(&table);
    table.arrays[0].offset = 2;
    table.arrays[0].length = 3;

    EXPECT_OK(sgs_key_partitions(&table.columns[0], &table.arrays[0], 7, out, &err), &err);
    EXPECT_EQ_I64(out[0], sgs_murmur2_partition((const uint8_t *)"ccc", 3, 7));
    EXPECT_EQ_I64(out[2], sgs_murmur2_partition((const uint8_t *)"ee", 2, 7));
}

TEST(what_is_no_key_column_is_refused)
{
    arrow_table table;
    arrow_table_make(&table);

    EXPECT_STATUS(sgs_key_partitions(&table.columns[2], &table.arrays[2], 3, out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_key_partitions(&table.columns[0], &table.arrays[0], 0, out, &err), SGS_ILLEGAL_ARGUMENT);
    table.arrays[0].length = -1;
    EXPECT_STATUS(sgs_key_partitions(&table.columns[0], &table.arrays[0], 3, out, &err), SGS_ILLEGAL_ARGUMENT);
    table.arrays[0].length = 5;
    table.arrays[0].release = NULL;
    EXPECT_STATUS(sgs_key_partitions(&table.columns[0], &table.arrays[0], 3, out, &err), SGS_ILLEGAL_ARGUMENT);
}

TEST(offsets_that_descend_are_refused)
{
    arrow_table table;
    arrow_table_make(&table);
    static const int32_t descending[6] = { 0, 1, 1, 4, 2, 6 };
    table.buffers[0][1] = descending;

    EXPECT_STATUS(sgs_key_partitions(&table.columns[0], &table.arrays[0], 3, out, &err), SGS_ILLEGAL_ARGUMENT);
}

TEST_MAIN()
