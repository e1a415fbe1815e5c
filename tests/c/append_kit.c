/* append_kit.c - see append_kit.h. */
#include "append_kit.h"

#include <limits.h>
#include <stdio.h>

#include "record/legacy_builder.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

enum { KEY_BYTES = 8 };

static sgs_bytes key_of(int index, char *text)
{
    (void)snprintf(text, KEY_BYTES, "k%d", index % 100);
    return kit_text(text);
}

void append_kit_init(append_kit *kit)
{
    sgs_buffer_init(&kit->data, kit_memory());
    sgs_batch_table_init(&kit->table, kit_memory());
}

void append_kit_deinit(append_kit *kit)
{
    sgs_batch_table_deinit(&kit->table);
    sgs_buffer_deinit(&kit->data);
}

void append_kit_add(append_kit *kit, const sgs_batch_options *options, int count, const int64_t *timestamps,
                    bool header)
{
    sgs_batch_builder builder;
    sgs_batch_options plain;
    const sgs_record_header one = { kit_text("h"), kit_text(NULL) };
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&plain);
    if (options != NULL)
        plain = *options;
    EXPECT_OK(sgs_batch_builder_start(&builder, &plain, &kit->err), &kit->err);
    for (int i = 0; i < count; ++i) {
        char text[KEY_BYTES];
        EXPECT_OK(sgs_batch_builder_append(&builder, plain.base_offset + i,
                                           timestamps != NULL ? timestamps[i] : EXAMPLE_T + i, key_of(i, text),
                                           kit_text("v"), &one, header ? 1 : 0, &kit->err),
                  &kit->err);
    }
    EXPECT_OK(sgs_batch_builder_finish(&builder, &kit->data, NULL, &kit->err), &kit->err);
    sgs_batch_builder_deinit(&builder);
}

void append_kit_add_legacy(append_kit *kit, int8_t magic, int codec, int count)
{
    sgs_legacy_builder builder;
    const sgs_legacy_options options = { .codec = codec, .level = INT_MIN, .magic = magic };
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    EXPECT_OK(sgs_legacy_builder_start(&builder, &options, &kit->err), &kit->err);
    for (int i = 0; i < count; ++i) {
        char text[KEY_BYTES];
        EXPECT_OK(sgs_legacy_builder_append(&builder, i, EXAMPLE_T + i, key_of(i, text), kit_text("v"), &kit->err),
                  &kit->err);
    }
    EXPECT_OK(sgs_legacy_builder_finish(&builder, &kit->data, &kit->err), &kit->err);
    sgs_legacy_builder_deinit(&builder);
}

size_t append_kit_scan(append_kit *kit)
{
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
    options.check_crc = false;
    sgs_buffer_clear(&kit->table.rows);
    EXPECT_OK(sgs_batch_scan_buffer(kit->data.data, kit->data.size, &options, &kit->table, &result, &kit->err),
              &kit->err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    return sgs_batch_table_count(&kit->table);
}

sgs_batch_header *append_kit_rows(append_kit *kit) { return (sgs_batch_header *)(void *)kit->table.rows.data; }

static bool expect_record(const sgs_record *record, int64_t offset, int64_t timestamp, int index)
{
    char text[KEY_BYTES];
    const sgs_bytes key = key_of(index, text);
    return EXPECT_EQ_I64(record->offset, offset) && EXPECT_EQ_I64(record->timestamp, timestamp) &&
           EXPECT_EQ_I64(record->key.size, key.size) && EXPECT_MEM(record->key.data, key.data, (size_t)key.size) &&
           EXPECT_EQ_I64(record->value.size, 1);
}

bool append_kit_expect(const uint8_t *data, size_t size, int64_t first_offset, int count, int period,
                       const int64_t *timestamps)
{
    sgs_buffer scratch;
    sgs_error err;
    bool is_good = true;
    int index = 0;
    sgs_buffer_init(&scratch, kit_memory());
    for (size_t position = 0; is_good && position < size;) {
        sgs_record_reader reader;
        is_good = EXPECT_OK(
            sgs_record_section_open(data + position, size - position, true, kit_codecs(), &scratch, &reader, &err),
            &err);
        for (bool found = true; is_good; ++index) {
            sgs_record record;
            is_good = EXPECT_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
            if (!found)
                break;
            const int64_t timestamp = timestamps != NULL ? timestamps[index] : EXAMPLE_T + index % period;
            is_good = is_good && EXPECT_TRUE(index < count) &&
                      expect_record(&record, first_offset + index, timestamp, index % period);
        }
        position += (size_t)reader.batch.size_bytes;
    }
    sgs_buffer_deinit(&scratch);
    return is_good && EXPECT_EQ_I64(index, count);
}
