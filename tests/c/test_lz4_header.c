/* test_lz4_header.c - the checksum byte of LZ4 frame headers, [format.md 8.3]. */
#include "record/lz4_header.h"

#include "base/xxhash32.h"
#include "record_kit.h"
#include "test.h"

TEST(the_byte_of_kafkas_frames_is_82_and_was_1a)
{
    kit_bytes frame = kit_hex("04224d18 60 40 00 00000000");
    sgs_lz4_header_stamp(frame.data, frame.size, false);
    EXPECT_EQ_U64(frame.data[6], 0x82);
    sgs_lz4_header_stamp(frame.data, frame.size, true);
    EXPECT_EQ_U64(frame.data[6], 0x1a);
    EXPECT_MEM(frame.data, kit_hex("04224d18 60 40 1a 00000000").data, frame.size);
}

TEST(a_content_size_moves_the_byte)
{
    kit_bytes frame = kit_hex("04224d18 68 40 0500000000000000 00");
    sgs_lz4_header_stamp(frame.data, frame.size, false);
    EXPECT_EQ_U64(frame.data[14], sgs_xxhash32(frame.data + 4, 10) >> 8 & 0xFF);
    EXPECT_EQ_U64(frame.data[6], 5);
}

/* [DUR-85] */
TEST(bytes_that_are_no_header_stay_as_they_are)
{
    static const char *const none[] = { "", "04224d18", "04224d18 60 40", "05224d18 60 40 00", "04224d18 68 40 00 00" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; ++i) {
        kit_bytes data = kit_hex(none[i]);
        const kit_bytes before = data;
        sgs_lz4_header_stamp(data.data, data.size, false);
        EXPECT_MEM(data.data, before.data, before.size);
    }
}

TEST_MAIN()
