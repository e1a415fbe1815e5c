/* test_columns_source.c - what another library may claim of an Arrow table: each claim that cannot be is refused before a
 * cell is touched, each form that Arrow knows is taken [D7]. */
#include "record/columns.h"

#include <string.h>

#include "arrow_table.h"
#include "record_kit.h"
#include "test.h"

enum { KEY, VALUE, TIMESTAMP, HEADERS };

static const sgs_record_places all_places = { KEY, VALUE, TIMESTAMP, HEADERS };
static sgs_record_places chosen;

typedef struct claim {
    const char *what;
    void (*make)(arrow_table *t);
} claim;

#define CLAIM(name, ...) \
    static void name(arrow_table *t) { __VA_ARGS__ }

static struct ArrowSchema other_schema;
static const int64_t long_lists[] = { 0, 0, 1, 1, 3, 3 };
static const int64_t long_ends[] = { 0, 1, 1, 4, 4, 6 };
static const uint8_t all_valid[] = { 0x1F }, one_null[] = { 0x0F };

/* ---- what cannot be ---- */

CLAIM(released_schema, t->schema.release = NULL;)
CLAIM(released_array, t->array.release = NULL;)
CLAIM(no_struct, t->schema.format = "i";)
CLAIM(no_format, t->schema.format = NULL;)
CLAIM(fewer_children, t->array.n_children = 3;)
CLAIM(negative_length, t->array.length = -1;)
CLAIM(negative_offset, t->array.offset = -1;)
CLAIM(offset_beyond, t->array.offset = INT64_MAX;)
CLAIM(null_row, t->root_buffers[0] = one_null; t->array.n_buffers = 1; t->array.null_count = 1;)
CLAIM(released_column, t->arrays[KEY].release = NULL;)
CLAIM(column_of_two_buffers, t->arrays[KEY].n_buffers = 2;)
CLAIM(column_with_children, t->arrays[KEY].n_children = 1;)
CLAIM(column_of_negative_length, t->arrays[KEY].length = -1;)
CLAIM(column_of_negative_offset, t->arrays[KEY].offset = -1;)
CLAIM(column_too_short, t->arrays[KEY].length = 4;)
CLAIM(column_shorter_than_offset, t->array.offset = 6; t->array.length = 0;)
CLAIM(column_offset_beyond, t->arrays[KEY].offset = INT64_MAX;)
CLAIM(column_without_format, t->columns[KEY].format = NULL;)
CLAIM(column_of_numbers, t->columns[KEY].format = "d";)
CLAIM(column_of_a_fixed_nothing, t->columns[KEY].format = "w:";)
CLAIM(column_of_a_fixed_word, t->columns[KEY].format = "w:1x";)
CLAIM(column_of_fixed_giants, t->columns[KEY].format = "w:99999999999";)
CLAIM(column_without_offsets, t->buffers[KEY][1] = NULL;)
CLAIM(column_without_bytes, t->buffers[KEY][2] = NULL;)
CLAIM(value_without_offsets, t->buffers[VALUE][1] = NULL;)
CLAIM(fixed_beyond, t->columns[KEY].format = "w:16"; t->arrays[KEY].n_buffers = 2;
      t->arrays[KEY].offset = INT64_MAX / 8;)
CLAIM(time_of_numbers, t->columns[TIMESTAMP].format = "i";)
CLAIM(time_without_format, t->columns[TIMESTAMP].format = NULL;)
CLAIM(time_without_unit, t->columns[TIMESTAMP].format = "ts";)
CLAIM(time_without_zone, t->columns[TIMESTAMP].format = "tsu";)
CLAIM(time_of_another_unit, t->columns[TIMESTAMP].format = "tsx:";)
CLAIM(time_of_a_dictionary, t->columns[TIMESTAMP].dictionary = &other_schema;)
CLAIM(null_time_of_a_dictionary, t->columns[TIMESTAMP].format = "n"; t->columns[TIMESTAMP].dictionary = &other_schema;)
CLAIM(time_of_three_buffers, t->arrays[TIMESTAMP].n_buffers = 3;)
CLAIM(time_without_values, t->buffers[TIMESTAMP][1] = NULL;)
CLAIM(headers_of_text, t->columns[HEADERS].format = "u";)
CLAIM(headers_of_two, t->columns[HEADERS].n_children = 2;)
CLAIM(headers_of_a_dictionary, t->columns[HEADERS].dictionary = &other_schema;)
CLAIM(headers_of_no_struct, t->element.format = "u";)
CLAIM(headers_of_dictionary_elements, t->element.dictionary = &other_schema;)
CLAIM(headers_without_keys, t->element_columns[0].name = "name";)
CLAIM(headers_without_values, t->element_columns[1].name = NULL;)
static struct ArrowSchema *three_fields[3];
CLAIM(headers_of_a_third_field, three_fields[0] = &other_schema; three_fields[1] = t->element.children[0];
      three_fields[2] = t->element.children[1]; t->element.children = three_fields; t->element.n_children = 3;)
CLAIM(headers_without_lists, t->buffers[HEADERS][1] = NULL;)
CLAIM(headers_of_one_buffer, t->arrays[HEADERS].n_buffers = 1;)
CLAIM(elements_of_two_buffers, t->entries.n_buffers = 2;)
CLAIM(too_few_elements, t->entries.length = 2;)
CLAIM(negative_elements, static const int32_t ends[] = { 0, 0, 1, 1, 3, -1 }; t->buffers[HEADERS][1] = ends;)
CLAIM(header_keys_of_numbers, t->element_columns[0].format = "d";)
CLAIM(header_values_of_numbers, t->element_columns[1].format = "d";)
CLAIM(elements_of_null_with_buffers, t->element.format = "n"; t->entries.n_buffers = 2;)
CLAIM(view_without_sizes, t->columns[KEY].format = "vz"; static const void *buffers[4]; t->arrays[KEY].n_buffers = 4;
      buffers[1] = long_ends; t->arrays[KEY].buffers = buffers;)

/* a dictionary of strings for the key */
static struct ArrowArray dictionary;
static const void *dictionary_buffers[3];

static void make_dictionary(arrow_table *t)
{
    static const int8_t places[] = { 0, 1, 0, 1, 0 };
    static const int32_t ends[] = { 0, 1, 2 };
    other_schema = t->columns[VALUE];
    dictionary = t->arrays[VALUE];
    dictionary.length = 2;
    dictionary.buffers = dictionary_buffers;
    dictionary_buffers[0] = NULL;
    dictionary_buffers[1] = ends;
    dictionary_buffers[2] = "xy";
    t->columns[KEY].format = "c";
    t->columns[KEY].dictionary = &other_schema;
    t->arrays[KEY].n_buffers = 2;
    t->arrays[KEY].dictionary = &dictionary;
    t->buffers[KEY][0] = NULL;
    t->buffers[KEY][1] = places;
}

CLAIM(places_without_format, make_dictionary(t); t->columns[KEY].format = NULL;)
CLAIM(places_of_no_format, make_dictionary(t); t->columns[KEY].format = "";)
CLAIM(places_of_a_long_format, make_dictionary(t); t->columns[KEY].format = "cc";)
CLAIM(places_of_floats, make_dictionary(t); t->columns[KEY].format = "f";)
CLAIM(a_dictionary_of_dictionaries, make_dictionary(t); other_schema.dictionary = &other_schema;)
CLAIM(a_dictionary_of_numbers, make_dictionary(t); other_schema.format = "d";)
CLAIM(places_of_three_buffers, make_dictionary(t); t->arrays[KEY].n_buffers = 3;)
CLAIM(no_dictionary, make_dictionary(t); t->arrays[KEY].dictionary = NULL;)
CLAIM(a_dictionary_that_is_released, make_dictionary(t); dictionary.release = NULL;)
CLAIM(no_places, make_dictionary(t); t->buffers[KEY][1] = NULL;)

#undef CLAIM
#define ROW(name) { #name, name }

static const claim impossible[] = {
    ROW(released_schema),
    ROW(released_array),
    ROW(no_struct),
    ROW(no_format),
    ROW(fewer_children),
    ROW(negative_length),
    ROW(negative_offset),
    ROW(offset_beyond),
    ROW(null_row),
    ROW(released_column),
    ROW(column_of_two_buffers),
    ROW(column_with_children),
    ROW(column_of_negative_length),
    ROW(column_of_negative_offset),
    ROW(column_too_short),
    ROW(column_shorter_than_offset),
    ROW(column_offset_beyond),
    ROW(column_without_format),
    ROW(column_of_numbers),
    ROW(column_of_a_fixed_nothing),
    ROW(column_of_a_fixed_word),
    ROW(column_of_fixed_giants),
    ROW(column_without_offsets),
    ROW(column_without_bytes),
    ROW(value_without_offsets),
    ROW(fixed_beyond),
    ROW(time_of_numbers),
    ROW(time_without_format),
    ROW(time_without_unit),
    ROW(time_without_zone),
    ROW(time_of_another_unit),
    ROW(time_of_a_dictionary),
    ROW(null_time_of_a_dictionary),
    ROW(time_of_three_buffers),
    ROW(time_without_values),
    ROW(headers_of_text),
    ROW(headers_of_two),
    ROW(headers_of_a_dictionary),
    ROW(headers_of_no_struct),
    ROW(headers_of_dictionary_elements),
    ROW(headers_without_keys),
    ROW(headers_without_values),
    ROW(headers_of_a_third_field),
    ROW(headers_without_lists),
    ROW(headers_of_one_buffer),
    ROW(elements_of_two_buffers),
    ROW(too_few_elements),
    ROW(negative_elements),
    ROW(header_keys_of_numbers),
    ROW(header_values_of_numbers),
    ROW(elements_of_null_with_buffers),
    ROW(view_without_sizes),
    ROW(places_without_format),
    ROW(places_of_no_format),
    ROW(places_of_a_long_format),
    ROW(places_of_floats),
    ROW(a_dictionary_of_dictionaries),
    ROW(a_dictionary_of_numbers),
    ROW(places_of_three_buffers),
    ROW(no_dictionary),
    ROW(a_dictionary_that_is_released),
    ROW(no_places),
};

TEST(what_cannot_be_is_refused)
{
    for (size_t i = 0; i < sizeof impossible / sizeof impossible[0]; ++i) {
        arrow_table table;
        sgs_columns_source source;
        sgs_error err;
        other_schema = (struct ArrowSchema){ .format = "u" };
        arrow_table_make(&table);
        chosen = all_places;
        impossible[i].make(&table);
        if (!EXPECT_STATUS(sgs_columns_source_init(&source, &table.schema, &table.array, &chosen, 0, &err),
                           SGS_ILLEGAL_ARGUMENT))
            printf("    %s\n", impossible[i].what);
    }
}

TEST(types_are_checked_without_rows)
{
    static const struct {
        const char *why;
        void (*make)(arrow_table *t);
    } wrong[] = {
        { "column key has the Arrow type 'd'", column_of_numbers },
        { "column timestamp has the Arrow type int32", time_of_numbers },
        { "column headers has the Arrow type string", headers_of_text },
        { "column headers has elements with a field without a name besides", headers_of_a_third_field },
        { "column headers.element.value has the Arrow type 'd'", header_values_of_numbers },
        { "column key has the Arrow type", a_dictionary_of_numbers },
    };
    static const sgs_record_places none = { -1, -1, -1, -1 };
    arrow_table table;
    sgs_error err;
    arrow_table_make(&table);
    EXPECT_OK(sgs_columns_source_check_types(&table.schema, &all_places, &err), &err);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        other_schema = (struct ArrowSchema){ .format = "u" };
        arrow_table_make(&table);
        wrong[i].make(&table);
        EXPECT_OK(sgs_columns_source_check_types(&table.schema, &none, &err), &err);
        EXPECT_STATUS(sgs_columns_source_check_types(&table.schema, &all_places, &err), SGS_ILLEGAL_ARGUMENT);
        if (!EXPECT_TRUE(strstr(err.message, wrong[i].why) != NULL))
            printf("    '%s' in '%s'\n", wrong[i].why, err.message);
    }
}

/* ---- what can be ---- */

static int64_t times_of(const char *format, const int64_t *values, int64_t rows, sgs_status expected)
{
    arrow_table table;
    sgs_columns_source source;
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out, row_bytes;
    sgs_batch_header row = { .max_timestamp = -7 };
    sgs_error err;
    arrow_table_make(&table);
    table.columns[TIMESTAMP].format = format;
    if (values != NULL)
        table.buffers[TIMESTAMP][1] = values;
    else
        table.arrays[TIMESTAMP].n_buffers = 0;
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    sgs_buffer_init(&row_bytes, kit_memory());
    EXPECT_OK(sgs_columns_source_init(&source, &table.schema, &table.array, &chosen, 0, &err), &err);
    const sgs_status status =
        sgs_columns_encode(&source, 0, rows, &options, 1 << 20, 99, &builder, &out, &row_bytes, &err);
    EXPECT_STATUS(status, expected);
    if (status == SGS_OK)
        EXPECT_OK(sgs_batch_header_load(out.data, out.size, 0, &row, &err), &err);
    sgs_buffer_deinit(&row_bytes);
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
    return row.max_timestamp;
}

TEST(each_unit_of_time_is_taken)
{
    static const int64_t values[] = { 1, 2, 3, 4, 5 }, large[] = { 1000000, 2000000, 3000000, 4000000, 5000000 };
    static const int64_t falling[] = { 9, 8, 7, 6, 5 }, apart[] = { INT64_MAX, 0, 0, 0, 0 };
    EXPECT_EQ_I64(times_of("l", values, 5, SGS_OK), 5);
    EXPECT_EQ_I64(times_of("tss:", values, 5, SGS_OK), 5000);
    EXPECT_EQ_I64(times_of("tsm:UTC", values, 5, SGS_OK), 5);
    EXPECT_EQ_I64(times_of("tsu:UTC", large, 5, SGS_OK), 5000);
    EXPECT_EQ_I64(times_of("tsn:UTC", large, 5, SGS_OK), 5);
    EXPECT_EQ_I64(times_of("n", NULL, 5, SGS_OK), 99);
    EXPECT_EQ_I64(times_of("l", falling, 5, SGS_OK), 9);
    EXPECT_EQ_I64(times_of("l", apart, 5, SGS_OK), INT64_MAX);
}

/* Every form of the same five rows that init takes. */
static void as_it_is(arrow_table *t) { (void)t; }
/* A column without a place is not looked at. */
static void without_key(arrow_table *t)
{
    t->columns[KEY].format = NULL;
    chosen.key = -1;
}

static void without_value(arrow_table *t)
{
    t->arrays[VALUE].release = NULL;
    chosen.value = -1;
}

static void without_times(arrow_table *t)
{
    t->columns[TIMESTAMP].format = "i";
    chosen.timestamp = -1;
}

static void without_headers(arrow_table *t)
{
    t->columns[HEADERS].format = "u";
    chosen.headers = -1;
}

static void of_one_column(arrow_table *t)
{
    t->columns[KEY].name = NULL;
    chosen.value = KEY;
}

static void with_valid_rows(arrow_table *t)
{
    t->root_buffers[0] = all_valid;
    t->array.null_count = -1;
}

static void without_a_bitmap(arrow_table *t)
{
    t->array.n_buffers = 0;
    t->array.null_count = 0;
}

static void of_large_lists(arrow_table *t)
{
    t->columns[HEADERS].format = "+L";
    t->buffers[HEADERS][1] = long_lists;
    t->columns[KEY].format = "Z";
    t->buffers[KEY][1] = long_ends;
}

static void of_null_headers(arrow_table *t)
{
    t->columns[HEADERS].format = "n";
    t->arrays[HEADERS].n_buffers = t->arrays[HEADERS].n_children = 0;
}

static void of_null_elements(arrow_table *t)
{
    static const int32_t empty[] = { 0, 0, 0, 0, 0, 0 };
    t->element.format = "n";
    t->element.n_children = t->entries.n_children = t->entries.n_buffers = 0;
    t->buffers[HEADERS][1] = empty;
}

static void of_null_keys(arrow_table *t)
{
    t->columns[KEY].format = "n";
    t->arrays[KEY].n_buffers = 1;
}

static void without_rows(arrow_table *t) { t->array.length = 0; }

static void of_places(arrow_table *t) { make_dictionary(t); }

static void of_places_with_nulls(arrow_table *t)
{
    make_dictionary(t);
    t->buffers[KEY][0] = one_null;
}

static void of_views_without_buffers(arrow_table *t)
{
    static const uint8_t views[5 * 16]; /* five empty cells */
    t->columns[KEY].format = "vz";
    t->buffers[KEY][1] = views;
}

static const claim possible[] = {
    ROW(as_it_is),       ROW(without_key),     ROW(of_one_column),        ROW(without_value),
    ROW(without_times),  ROW(without_headers), ROW(with_valid_rows),      ROW(without_a_bitmap),
    ROW(of_large_lists), ROW(of_null_headers), ROW(of_null_elements),     ROW(of_null_keys),
    ROW(without_rows),   ROW(of_places),       ROW(of_places_with_nulls), ROW(of_views_without_buffers),
};

TEST(each_form_is_encoded)
{
    for (size_t i = 0; i < sizeof possible / sizeof possible[0]; ++i) {
        arrow_table table;
        sgs_columns_source source = { .schema = NULL };
        sgs_batch_builder builder;
        sgs_batch_options options;
        sgs_buffer out, rows;
        sgs_error err;
        arrow_table_make(&table);
        chosen = all_places;
        possible[i].make(&table);
        sgs_batch_options_default(&options);
        sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
        sgs_buffer_init(&out, kit_memory());
        sgs_buffer_init(&rows, kit_memory());
        bool is_good = EXPECT_OK(sgs_columns_source_init(&source, &table.schema, &table.array, &chosen, 0, &err), &err);
        if (is_good)
            is_good = EXPECT_OK(
                sgs_columns_encode(&source, 0, table.array.length, &options, 1 << 20, 99, &builder, &out, &rows, &err),
                &err);
        if (!is_good)
            printf("    %s\n", possible[i].what);
        sgs_buffer_deinit(&rows);
        sgs_buffer_deinit(&out);
        sgs_batch_builder_deinit(&builder);
    }
}

TEST_MAIN()
