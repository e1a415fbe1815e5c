/* The names of a partition directory, sorted into segments [DUR-51, DUR-98, LOC-24]. */
#include "segment/segment_listing.h"

#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static bool parses(const char *name)
{
    int64_t base_offset = -7;
    int kind = -7;
    const bool parsed = sgs_segment_parse_name(name, &base_offset, &kind);
    EXPECT_TRUE(parsed || (base_offset == -7 && kind == -7));
    return parsed;
}

/* [DUR-98] */
TEST(only_20_digits_and_an_extension_of_ours_are_a_segment_file)
{
    int64_t base_offset;
    int kind;
    EXPECT_TRUE(sgs_segment_parse_name("00000000000000000042.log", &base_offset, &kind));
    EXPECT_EQ_I64(base_offset, 42);
    EXPECT_EQ_I64(kind, SGS_FILE_LOG);
    EXPECT_TRUE(sgs_segment_parse_name("09223372036854775807.snapshot", &base_offset, &kind));
    EXPECT_EQ_I64(base_offset, INT64_MAX);
    EXPECT_EQ_I64(kind, SGS_LISTED_SNAPSHOT);
    EXPECT_TRUE(sgs_segment_parse_name("00000000000000000000.txnindex", &base_offset, &kind));
    EXPECT_EQ_I64(base_offset, 0);
    EXPECT_EQ_I64(kind, SGS_FILE_TXNINDEX);

    EXPECT_TRUE(!parses(""));
    EXPECT_TRUE(!parses("42.log"));
    EXPECT_TRUE(!parses("00000000000000000042"));
    EXPECT_TRUE(!parses("00000000000000000042."));
    EXPECT_TRUE(!parses("00000000000000000042.LOG"));
    EXPECT_TRUE(!parses("00000000000000000042.log.swap"));
    EXPECT_TRUE(!parses("00000000000000000042.log "));
    EXPECT_TRUE(!parses("000000000000000000042.log"));
    EXPECT_TRUE(!parses("0000000000000000004.log"));
    EXPECT_TRUE(!parses("-0000000000000000042.log"));
    EXPECT_TRUE(!parses("09223372036854775808.log"));
    EXPECT_TRUE(!parses("99999999999999999999.log"));
}

static void touch(const segment_kit *kit, const char *name)
{
    const sgs_env *env = kit->context.env;
    sgs_error err;
    int fd;
    REQUIRE_OK(env->open_file(env, kit->context.directory_fd, name, SGS_OPEN_CREATE, &fd, &err), &err);
    EXPECT_OK(env->close(env, fd, name, &err), &err);
}

static void read_listing(segment_kit *kit, sgs_segment_listing *listing)
{
    sgs_segment_listing_init(listing, sgs_env_memory(kit->context.env));
    REQUIRE_OK(sgs_segment_listing_read(listing, kit->context.env, kit->context.directory_fd, &kit->err), &kit->err);
}

TEST(a_directory_is_a_row_a_base_offset_and_the_other_names)
{
    segment_kit kit;
    sgs_segment_listing listing;
    size_t count;
    segment_kit_open(&kit);
    touch(&kit, "00000000000000000300.index");
    touch(&kit, "00000000000000000007.log");
    touch(&kit, "00000004294967296007.log"); /* differs from 7 in high bytes only */
    touch(&kit, "00000000000000000300.log");
    touch(&kit, "00000000000000000300.timeindex");
    touch(&kit, "00000000000000000008.snapshot");
    touch(&kit, "00000000000000000300.log.deleted");
    read_listing(&kit, &listing);
    const sgs_listed_segment *rows = sgs_segment_listing_rows(&listing, &count);
    REQUIRE_EQ_I64(count, 4);
    EXPECT_EQ_I64(rows[0].base_offset, 7);
    EXPECT_EQ_I64(rows[0].kinds, 1 << SGS_FILE_LOG);
    EXPECT_EQ_I64(rows[1].base_offset, 8);
    EXPECT_EQ_I64(rows[1].kinds, 1 << SGS_LISTED_SNAPSHOT);
    EXPECT_EQ_I64(rows[2].base_offset, 300);
    EXPECT_EQ_I64(rows[2].kinds, 1 << SGS_FILE_LOG | 1 << SGS_FILE_INDEX | 1 << SGS_FILE_TIMEINDEX);
    EXPECT_EQ_I64(rows[3].base_offset, 4294967296007);
    EXPECT_EQ_I64(listing.others.size, sizeof "00000000000000000300.log.deleted");
    EXPECT_TEXT((const char *)listing.others.data, "00000000000000000300.log.deleted");
    sgs_segment_listing_deinit(&listing);
    segment_kit_close(&kit);
}

TEST(offsets_that_differ_in_every_byte_come_out_ascending)
{
    segment_kit kit;
    sgs_segment_listing listing;
    size_t count;
    uint64_t state = 20130101;
    segment_kit_open(&kit);
    sgs_segment_listing_init(&listing, sgs_env_memory(kit.context.env));
    for (int i = 0; i < 3000; ++i) {
        char name[SGS_SEGMENT_NAME_BYTES];
        state = state * 6364136223846793005U + 1442695040888963407U;
        const int64_t base_offset = (int64_t)(state >> (1 + i % 60));
        sgs_segment_file_name(base_offset, (sgs_segment_file)(i % SGS_FILE_COUNT), SGS_SUFFIX_NONE, name);
        REQUIRE_OK(sgs_segment_listing_add(&listing, name, &kit.err), &kit.err);
    }
    REQUIRE_OK(sgs_segment_listing_sort(&listing, &kit.err), &kit.err);
    const sgs_listed_segment *rows = sgs_segment_listing_rows(&listing, &count);
    EXPECT_TRUE(count > 2000 && count <= 3000);
    for (size_t i = 1; i < count; ++i)
        EXPECT_TRUE(rows[i - 1].base_offset < rows[i].base_offset);
    sgs_segment_listing_deinit(&listing);
    segment_kit_close(&kit);
}

TEST(a_listing_without_memory_says_so)
{
    segment_kit kit;
    sgs_segment_listing listing;
    segment_kit_open(&kit);
    touch(&kit, "00000000000000000007.log");
    sgs_segment_listing_init(&listing, sgs_env_memory(kit.context.env));
    memory_env_fail_always(&kit.memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_segment_listing_read(&listing, kit.context.env, kit.context.directory_fd, &kit.err),
                  SGS_RESOURCE);
    memory_env_heal(&kit.memory);
    sgs_segment_listing_deinit(&listing);
    segment_kit_close(&kit);
}

/* The look stops at the first .log; one with a suffix is none. */
TEST(a_directory_has_a_log_or_it_has_none)
{
    segment_kit kit;
    bool has_log = true;
    segment_kit_open(&kit);
    touch(&kit, "00000000000000000007.index");
    touch(&kit, "00000000000000000007.log.deleted");
    EXPECT_OK(sgs_segment_listing_has_log(kit.context.env, kit.context.directory_fd, &has_log, &kit.err), &kit.err);
    EXPECT_TRUE(!has_log);
    touch(&kit, "00000000000000000007.log");
    EXPECT_OK(sgs_segment_listing_has_log(kit.context.env, kit.context.directory_fd, &has_log, &kit.err), &kit.err);
    EXPECT_TRUE(has_log);
    segment_kit_close(&kit);
}

/* [DUR-51, DUR-97, DUR-99] */
TEST(sizes_are_those_of_regular_files)
{
    segment_kit kit;
    const int64_t bases[] = { 0, 5, 9 };
    int32_t sizes[3];
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 1, 0, 100), &kit.err);
    touch(&kit, "00000000000000000009.log");
    const sgs_env *env = kit.context.env;
    const int directory = kit.context.directory_fd;
    EXPECT_OK(sgs_segment_log_sizes(env, directory, bases, 3, sizes, &kit.err), &kit.err);
    EXPECT_EQ_I64(sizes[0], 100);
    EXPECT_EQ_I64(sizes[1], -1); /* it went since its name was read */
    EXPECT_EQ_I64(sizes[2], 0);
    EXPECT_OK(env->make_directory(env, directory, "00000000000000000005.log", &kit.err), &kit.err);
    EXPECT_STATUS(sgs_segment_log_sizes(env, directory, bases, 3, sizes, &kit.err), SGS_NOT_A_LOG);
    EXPECT_TEXT(kit.err.file, "00000000000000000005.log");
    EXPECT_OK(env->remove_directory(env, directory, "00000000000000000005.log", &kit.err), &kit.err);
    const int64_t negative = -1;
    EXPECT_STATUS(sgs_segment_log_sizes(env, directory, &negative, 1, sizes, &kit.err), SGS_ILLEGAL_ARGUMENT);
    segment_kit_close(&kit);
}

/* [LZY-1] a segment of a known size touches nothing until it is used */
TEST(a_segment_of_a_known_size_opens_its_files_at_first_use)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 1, 7, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    EXPECT_STATUS(sgs_log_segment_open_sized(&kit.context, -1, 100, 3, &kit.segment, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_open_sized(&kit.context, 0, -1, 3, &kit.segment, &kit.err), SGS_ILLEGAL_ARGUMENT);
    REQUIRE_OK(sgs_log_segment_open_sized(&kit.context, 0, 100, 3, &kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(kit.memory.live_descriptors, 0);
    EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), 100);
    EXPECT_EQ_I64(sgs_log_segment_created_ms(kit.segment), 3);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 0), 0);
    EXPECT_TRUE(kit.memory.live_descriptors > 0);
    segment_kit_close(&kit);
}

TEST_MAIN()
