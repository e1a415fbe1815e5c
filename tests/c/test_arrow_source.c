/* test_arrow_source.c - cells of each layout of binary and string, and what a producer may claim wrongly. */
#include "record/arrow_source.h"

#include <limits.h>
#include <string.h>

#include "test.h"

enum { LONG_BYTES = 13 }; /* the first size that does not fit into a view */

static sgs_error err;
static const char data_a[] = "..thirteen byte", data_b[] = "thirteen more";

static void release_nothing(struct ArrowArray *array) { array->release = NULL; }

typedef struct view {
    int32_t size, words[3]; /* inline bytes; or prefix, buffer, offset */
} view;

static view short_view(const char *text)
{
    view made = { .size = (int32_t)strlen(text) };
    memcpy(made.words, text, strlen(text));
    return made;
}

static view long_view(int32_t size, int32_t buffer, int32_t offset)
{
    return (view){ size, { 0x72696874, buffer, offset } };
}

typedef struct fixture {
    struct ArrowSchema schema, dictionary_schema;
    struct ArrowArray array, dictionary;
    const void *buffers[5], *dictionary_buffers[3];
    view views[4];
    int64_t sizes[2];
    uint8_t bits[1];
    sgs_arrow_binary column;
} fixture;

/* "ab", null, thirteen bytes of the first buffer, thirteen of the second */
static void make_views(fixture *f)
{
    memset(f, 0, sizeof *f);
    f->schema.format = "vz";
    f->views[0] = short_view("ab");
    f->views[1] = long_view(INT32_MAX, -1, -1); /* what stands at a null is not looked at */
    f->views[2] = long_view(LONG_BYTES, 0, 2);
    f->views[3] = long_view(LONG_BYTES, 1, 0);
    f->bits[0] = 0x0D;
    f->sizes[0] = 15;
    f->sizes[1] = 13;
    f->buffers[0] = f->bits;
    f->buffers[1] = f->views;
    f->buffers[2] = data_a;
    f->buffers[3] = data_b;
    f->buffers[4] = f->sizes;
    f->array = (struct ArrowArray){
        .length = 4, .null_count = -1, .n_buffers = 5, .buffers = f->buffers, .release = release_nothing
    };
}

static sgs_status init(fixture *f)
{
    return sgs_arrow_binary_init(&f->column, "key", &f->schema, &f->array, 0, f->array.length, &err);
}

static void expect_cell(const fixture *f, int64_t row, const char *expected)
{
    sgs_bytes bytes;
    REQUIRE_TRUE(sgs_arrow_binary_cell(&f->column, row, &bytes));
    if (expected == NULL) {
        EXPECT_EQ_I64(bytes.size, -1);
        return;
    }
    REQUIRE_EQ_I64(bytes.size, strlen(expected));
    EXPECT_MEM(bytes.data, expected, strlen(expected));
}

static void expect_broken(const fixture *f, int64_t row)
{
    sgs_bytes bytes;
    EXPECT_TRUE(!sgs_arrow_binary_cell(&f->column, row, &bytes));
}

TEST(views_are_read_where_they_point)
{
    fixture f;
    make_views(&f);
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 0, "ab");
    expect_cell(&f, 1, NULL);
    expect_cell(&f, 2, "thirteen byte");
    expect_cell(&f, 3, "thirteen more");
    f.array.offset = 2;
    f.array.length = 2;
    f.schema.format = "vu";
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 0, "thirteen byte");
    f.array.n_buffers = 3; /* no long cell: only the sizes, of nothing, follow */
    f.array.offset = 0;
    f.buffers[2] = NULL;
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 0, "ab");
    f.bits[0] = 0xFF;
    f.views[1] = long_view(LONG_BYTES, 0, 0);
    expect_broken(&f, 1);
}

TEST(views_that_point_outside_are_refused)
{
    static const view bad[] = {
        { -1, { 0, 0, 0 } },
        { INT32_MIN, { 0, 0, 0 } },
        { LONG_BYTES, { 0, 2, 0 } },
        { LONG_BYTES, { 0, -1, 0 } },
        { LONG_BYTES, { 0, INT32_MAX, 0 } },
        { LONG_BYTES, { 0, 0, 3 } },
        { LONG_BYTES, { 0, 0, -1 } },
        { LONG_BYTES + 1, { 0, 1, 0 } },
        { INT32_MAX, { 0, 0, INT32_MAX } },
        { LONG_BYTES, { 0, 0, INT32_MIN } },
    };
    fixture f;
    make_views(&f);
    REQUIRE_OK(init(&f), &err);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        f.views[0] = bad[i];
        expect_broken(&f, 0);
    }
    f.buffers[3] = NULL;
    expect_broken(&f, 3);
    f.sizes[0] = INT64_MIN;
    expect_broken(&f, 2);
    f.buffers[4] = NULL;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    f.buffers[1] = NULL;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    f.array.n_buffers = 2;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    EXPECT_TEXT(err.message, "column key has 2 Arrow buffers, expected 3");
}

TEST(cells_of_a_fixed_size)
{
    fixture f;
    make_views(&f);
    f.array.n_buffers = 2;
    f.array.offset = 1;
    f.array.length = 3;
    f.buffers[1] = "aabbccdd";
    f.schema.format = "w:2";
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 0, NULL);
    expect_cell(&f, 2, "dd");
    f.schema.format = "w:0";
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 2, "");
    static const char *const bad[] = { "w:", "w:-1", "w:2147483648", "w:99999999999999999999", "w:2x", "w" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        f.schema.format = bad[i];
        EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    }
    f.schema.format = "w:2147483647";
    f.array.length = INT64_MAX - 1;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    f.array.offset = 2; /* their sum is no number of 64 bits */
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
}

TEST(offsets_never_lead_behind_the_last)
{
    static const int32_t offsets[] = { 0, 900, -5, 3, 4 };
    static const int64_t large[] = { 0, 1, INT64_MAX, 3, 4 };
    fixture f;
    make_views(&f);
    f.array.n_buffers = 3;
    f.array.null_count = 0;
    f.schema.format = "z";
    f.buffers[1] = offsets;
    REQUIRE_OK(init(&f), &err);
    for (int row = 0; row < 3; ++row)
        expect_broken(&f, row);
    f.schema.format = "U";
    f.buffers[1] = large;
    REQUIRE_OK(init(&f), &err);
    expect_cell(&f, 0, ".");
    expect_broken(&f, 1);
    expect_broken(&f, 2);
    expect_cell(&f, 3, "h");
}

/* Three indices of each width over the dictionary { "x", null, "zz" }. */
static void make_dictionary(fixture *f, const char *format, const void *indices)
{
    static const int32_t offsets[] = { 0, 1, 1, 3 };
    static const uint8_t bits[] = { 0x05 };
    make_views(f);
    f->dictionary_schema.format = "u";
    f->schema = (struct ArrowSchema){ .format = format, .dictionary = &f->dictionary_schema };
    f->dictionary_buffers[0] = bits;
    f->dictionary_buffers[1] = offsets;
    f->dictionary_buffers[2] = "xzz";
    f->dictionary = (struct ArrowArray){
        .length = 3, .null_count = 1, .n_buffers = 3, .buffers = f->dictionary_buffers, .release = release_nothing
    };
    f->buffers[0] = NULL;
    f->buffers[1] = indices;
    f->array.n_buffers = 2;
    f->array.length = 3;
    f->array.dictionary = &f->dictionary;
}

TEST(indices_of_every_width_choose_from_the_dictionary)
{
    static const int8_t narrow[] = { 2, 1, 0 };
    static const int16_t medium[] = { 2, 1, 0 };
    static const int32_t wide[] = { 2, 1, 0 };
    static const int64_t widest[] = { 2, 1, 0 };
    const struct {
        const char *format;
        const void *indices;
    } cases[] = { { "c", narrow }, { "C", narrow }, { "s", medium }, { "S", medium },
                  { "i", wide },   { "I", wide },   { "l", widest }, { "L", widest } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        fixture f;
        make_dictionary(&f, cases[i].format, cases[i].indices);
        REQUIRE_OK(init(&f), &err);
        expect_cell(&f, 0, "zz");
        expect_cell(&f, 1, NULL);
        expect_cell(&f, 2, "x");
        f.dictionary.offset = 1; /* a slice of the dictionary, and one of the indices */
        f.dictionary.length = 2;
        f.array.offset = 1;
        f.array.length = 2;
        REQUIRE_OK(init(&f), &err);
        expect_cell(&f, 0, "zz");
        expect_cell(&f, 1, NULL);
    }
}

TEST(indices_outside_of_the_dictionary_are_refused)
{
    static const int8_t narrow[] = { 3, -1, INT8_MIN };
    static const int64_t widest[] = { -1, INT64_MAX, 3 };
    static const uint8_t no_bits[] = { 0 };
    fixture f;
    for (int i = 0; i < 4; ++i) {
        make_dictionary(&f, i == 0 ? "c" : i == 1 ? "C" : i == 2 ? "l" : "L", i < 2 ? (const void *)narrow : widest);
        REQUIRE_OK(init(&f), &err);
        for (int row = 0; row < 3; ++row)
            expect_broken(&f, row);
        f.dictionary.length = 0; /* and nothing to choose from */
        REQUIRE_OK(init(&f), &err);
        expect_broken(&f, 0);
        f.buffers[0] = no_bits;
        REQUIRE_OK(init(&f), &err);
        expect_cell(&f, 0, NULL);
    }
    f.array.dictionary = NULL;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    EXPECT_TEXT(err.message, "column key lacks its Arrow dictionary");
    make_dictionary(&f, "L", widest);
    f.dictionary.n_buffers = 2;
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    make_dictionary(&f, "z", widest);
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    make_dictionary(&f, "l", widest);
    f.dictionary_schema.dictionary = &f.schema; /* a dictionary of dictionaries */
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
    make_dictionary(&f, "l", NULL);
    EXPECT_STATUS(init(&f), SGS_ILLEGAL_ARGUMENT);
}

TEST_MAIN()
