/* What the files of a segment are called, and their suffixes changed [SEG-54, LZY-3]. */
#include "segment_kit.h"
#include "test.h"

TEST(names_have_twenty_digits)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_file_name(42, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
    EXPECT_TEXT(name, "00000000000000000042.log");
    sgs_segment_file_name(INT64_MAX, SGS_FILE_TIMEINDEX, SGS_SUFFIX_DELETED, name);
    EXPECT_TEXT(name, "09223372036854775807.timeindex.deleted");
    sgs_segment_file_name(0, SGS_FILE_INDEX, SGS_SUFFIX_CLEANED, name);
    EXPECT_TEXT(name, "00000000000000000000.index.cleaned");
    sgs_segment_file_name(7, SGS_FILE_TXNINDEX, SGS_SUFFIX_SWAP, name);
    EXPECT_TEXT(name, "00000000000000000007.txnindex.swap");
}

/* LogSegmentTest.testChangeFileSuffixes [SEG-54, LZY-3] */
TEST(changing_the_suffix_renames_what_is_there_and_creates_nothing)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index"));
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_DELETED, &kit.err), &kit.err);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.log.deleted"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.log"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index.deleted"));
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 0);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 0);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.index.deleted"));
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.timeindex.deleted"));
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_SWAP, &kit.err), &kit.err);
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_NONE, &kit.err), &kit.err);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.timeindex"));
    EXPECT_OK(segment_kit_append(&kit, 40, 1, 5, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_delete_files(kit.segment, &kit.err), &kit.err);
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.log"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index"));
    EXPECT_OK(sgs_log_segment_delete_files(kit.segment, &kit.err), &kit.err); /* [SEG-56] missing is no error */
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 40), 40);                     /* an open descriptor goes on [CON-7] */
    EXPECT_STATUS(segment_kit_append(&kit, 41, 1, 5, 0), SGS_ILLEGAL_STATE);
    segment_kit_close(&kit);
}

TEST_MAIN()
