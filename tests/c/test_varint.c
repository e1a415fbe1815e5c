/* Variable-length integers against Kafka's own answers, and against themselves at every boundary [format.md 2.1]. */
#include "base/varint.h"

#include "kafka_primitives.h"
#include "test.h"

static size_t from_hex(const char *hex, uint8_t *out)
{
    const size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; ++i) {
        unsigned byte = 0;
        (void)sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (uint8_t)byte;
    }
    return size;
}

TEST(numbers_are_written_as_kafka_writes_them)
{
    /* Kafka: ByteUtilsTest.testUnsignedVarintSerde, testVarintSerde, testVarlongSerde, testSizeOfVarint*. */
    for (size_t i = 0; i < sizeof kafka_encodings / sizeof kafka_encodings[0]; ++i) {
        const kafka_encoding *vector = &kafka_encodings[i];
        uint8_t expected[16];
        uint8_t out[16];

        size_t size = from_hex(vector->varlong, expected);
        EXPECT_EQ_I64(sgs_varlong_write(out, vector->value) - out, size);
        EXPECT_MEM(out, expected, size);
        EXPECT_EQ_I64(sgs_varlong_size(vector->value), size);
        if (vector->varint == NULL)
            continue;
        size = from_hex(vector->varint, expected);
        EXPECT_EQ_I64(sgs_varint_write(out, (int32_t)vector->value) - out, size);
        EXPECT_MEM(out, expected, size);
        EXPECT_EQ_I64(sgs_varint_size((int32_t)vector->value), size);
        size = from_hex(vector->uvarint, expected);
        EXPECT_EQ_I64(sgs_uvarint_write(out, (uint32_t)vector->value) - out, size);
        EXPECT_MEM(out, expected, size);
        EXPECT_EQ_I64(sgs_uvarint_size((uint32_t)vector->value), size);
    }
}

TEST(numbers_are_read_as_kafka_reads_them)
{
    /* [DUR-88] Kafka: ByteUtilsTest.testInvalidVarint, testInvalidVarlong. */
    int refused = 0;
    for (size_t i = 0; i < sizeof kafka_decodings / sizeof kafka_decodings[0]; ++i) {
        const kafka_decoding *vector = &kafka_decodings[i];
        uint8_t bytes[16];
        const uint8_t *end = bytes + from_hex(vector->bytes, bytes);
        int32_t varint = 77;
        int64_t varlong = 77;
        uint32_t uvarint = 77;

        const uint8_t *next = bytes;
        EXPECT_EQ_I64(sgs_varint_read(&next, end, &varint), vector->varint_size > 0);
        EXPECT_EQ_I64(next - bytes, vector->varint_size);
        EXPECT_EQ_I64(varint, vector->varint_size > 0 ? vector->varint : 77);
        next = bytes;
        EXPECT_EQ_I64(sgs_varlong_read(&next, end, &varlong), vector->varlong_size > 0);
        EXPECT_EQ_I64(next - bytes, vector->varlong_size);
        EXPECT_EQ_I64(varlong, vector->varlong_size > 0 ? vector->varlong : 77);
        next = bytes;
        EXPECT_EQ_I64(sgs_uvarint_read(&next, end, &uvarint), vector->uvarint_size > 0);
        EXPECT_EQ_I64(next - bytes, vector->uvarint_size);
        EXPECT_EQ_I64((int32_t)uvarint, vector->uvarint_size > 0 ? vector->uvarint : 77);
        refused += vector->varint_size == 0;
    }
    EXPECT_TRUE(refused > 10);
}

static void check_round_trip(uint64_t pattern)
{
    uint8_t bytes[SGS_VARLONG_MAX_BYTES + 1];
    uint64_t uvarlong = 0;
    int64_t varlong = 0;
    int32_t varint = 0;
    for (int sign = 0; sign < 2; ++sign, pattern = ~pattern) {
        const uint8_t *next = bytes;
        uint8_t *end = sgs_uvarlong_write(bytes, pattern);
        EXPECT_EQ_I64(end - bytes, sgs_uvarlong_size(pattern));
        EXPECT_TRUE(sgs_uvarlong_read(&next, end, &uvarlong) && next == end);
        EXPECT_EQ_U64(uvarlong, pattern);

        next = bytes;
        end = sgs_varlong_write(bytes, (int64_t)pattern);
        EXPECT_EQ_I64(end - bytes, sgs_varlong_size((int64_t)pattern));
        EXPECT_TRUE(sgs_varlong_read(&next, end, &varlong) && next == end);
        EXPECT_EQ_I64(varlong, (int64_t)pattern);

        next = bytes;
        end = sgs_varint_write(bytes, (int32_t)(uint32_t)pattern);
        EXPECT_EQ_I64(end - bytes, sgs_varint_size((int32_t)(uint32_t)pattern));
        EXPECT_TRUE(sgs_varint_read(&next, end, &varint) && next == end);
        EXPECT_EQ_I64(varint, (int32_t)(uint32_t)pattern);
    }
}

TEST(every_power_of_two_and_its_neighbours_come_back)
{
    for (unsigned bit = 0; bit < 64; ++bit) {
        check_round_trip((UINT64_C(1) << bit) - 1);
        check_round_trip(UINT64_C(1) << bit);
        check_round_trip((UINT64_C(1) << bit) + 1);
    }
}

/* ByteUtilsTest.testCorrectnessWriteUnsignedVarlong, ByteUtilsTest.testCorrectnessReadUnsignedVarlong: the naive loop */
TEST(unsigned_varlongs_are_those_of_the_loop)
{
    for (unsigned bit = 0; bit < 64; ++bit) {
        uint8_t naive[SGS_VARLONG_MAX_BYTES];
        uint8_t bytes[SGS_VARLONG_MAX_BYTES];
        size_t size = 0;
        uint64_t rest = UINT64_C(1) << bit;
        for (; rest > 0x7f; rest >>= 7)
            naive[size++] = (uint8_t)(rest | 0x80);
        naive[size++] = (uint8_t)rest;

        EXPECT_EQ_I64(sgs_uvarlong_write(bytes, UINT64_C(1) << bit) - bytes, (int64_t)size);
        EXPECT_MEM(bytes, naive, size);
        const uint8_t *next = naive;
        uint64_t value = 0;
        EXPECT_TRUE(sgs_uvarlong_read(&next, naive + size, &value) && next == naive + size);
        EXPECT_EQ_U64(value, UINT64_C(1) << bit);
    }
}

TEST(an_input_that_ends_within_a_number_is_refused_at_every_cut)
{
    uint8_t bytes[SGS_VARLONG_MAX_BYTES];
    uint8_t *end = sgs_varlong_write(bytes, INT64_MIN);
    for (uint8_t *cut = bytes; cut < end; ++cut) {
        const uint8_t *next = bytes;
        int64_t value = 5;
        EXPECT_TRUE(!sgs_varlong_read(&next, cut, &value));
        EXPECT_TRUE(next == bytes && value == 5);
    }
    end = sgs_varint_write(bytes, INT32_MIN);
    for (uint8_t *cut = bytes; cut < end; ++cut) {
        const uint8_t *next = bytes;
        int32_t value = 5;
        EXPECT_TRUE(!sgs_varint_read(&next, cut, &value));
        EXPECT_TRUE(next == bytes && value == 5);
    }
}

TEST(longer_forms_than_needed_are_read)
{
    /* [DUR-88] 80 00 is zero; so is a 10-byte form. */
    const uint8_t two[] = { 0x80, 0x00 };
    const uint8_t ten[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 };
    const uint8_t *next = two;
    int32_t varint = 1;
    int64_t varlong = 1;
    EXPECT_TRUE(sgs_varint_read(&next, two + 2, &varint) && varint == 0 && next == two + 2);
    next = ten;
    EXPECT_TRUE(sgs_varlong_read(&next, ten + 10, &varlong) && varlong == 0 && next == ten + 10);
}

TEST(bits_beyond_the_width_are_dropped_but_a_continuation_is_refused)
{
    /* [DUR-88] format.md 2.1: the 5th byte gives 4 bits, the 10th gives 1. */
    uint8_t bytes[] = { 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F };
    const uint8_t *next = bytes;
    uint32_t uvarint = 0;
    EXPECT_TRUE(sgs_uvarint_read(&next, bytes + 5, &uvarint));
    EXPECT_EQ_U64(uvarint, UINT32_MAX);
    bytes[4] = 0xFF; /* now ten bytes long */
    next = bytes;
    uint64_t uvarlong = 0;
    EXPECT_TRUE(!sgs_uvarint_read(&next, bytes + 10, &uvarint));
    EXPECT_TRUE(sgs_uvarlong_read(&next, bytes + 10, &uvarlong));
    EXPECT_EQ_U64(uvarlong, UINT64_MAX);
    bytes[9] = 0x80;
    next = bytes;
    EXPECT_TRUE(!sgs_uvarlong_read(&next, bytes + 10, &uvarlong));
    EXPECT_TRUE(next == bytes);
}

TEST_MAIN()
