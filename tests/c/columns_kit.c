/* columns_kit.c - decoding batches into columns in tests. */
#include "columns_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_reader.h"
#include "record_kit.h"

/* What a test builds upon must work, or the test proves nothing. */
static void must(sgs_status status, const sgs_error *err)
{
    if (status == SGS_OK)
        return;
    (void)fprintf(stderr, "columns_kit: %s: %s\n", sgs_status_name(status), err->message);
    abort();
}

columns_kit columns_kit_of(const uint8_t *columns, uint8_t count)
{
    columns_kit kit = { .columns = NULL };
    sgs_columns_options_default(&kit.options);
    if (columns != NULL) {
        memcpy(kit.options.columns, columns, count);
        kit.options.columns_count = count;
    }
    (void)strcpy(kit.options.topic, "orders");
    kit.options.partition = 3;
    return kit;
}

void columns_kit_open(columns_kit *kit)
{
    must(sgs_columns_open(kit_memory(), &kit->options, kit_codecs(), &kit->columns, &kit->err), &kit->err);
    must(sgs_columns_export_schema(kit_memory(), &kit->options, &kit->schema, &kit->err), &kit->err);
}

void columns_kit_decode(columns_kit *kit, const char *const *batches, int count)
{
    columns_kit_open(kit);
    for (int i = 0; i < count; ++i) {
        const kit_bytes bytes = kit_hex(batches[i]);
        uint8_t *const exact = malloc(bytes.size); /* so that sanitizers see a read beyond it */
        if (exact == NULL)
            abort();
        memcpy(exact, bytes.data, bytes.size);
        must(sgs_columns_append_batch(kit->columns, exact, bytes.size, &kit->err), &kit->err);
        free(exact);
    }
    must(sgs_columns_finish(kit->columns, &kit->array, &kit->err), &kit->err);
    if (!arrow_is_sound(&kit->schema, &kit->array))
        must(sgs_fail(&kit->err, SGS_INTERNAL, "the exported table is not sound"), &kit->err);
}

void columns_kit_close(columns_kit *kit)
{
    sgs_columns_close(kit->columns);
    if (kit->array.release != NULL)
        kit->array.release(&kit->array);
    if (kit->schema.release != NULL)
        kit->schema.release(&kit->schema);
}

const struct ArrowArray *columns_kit_column(const columns_kit *kit, const char *name)
{
    return arrow_child(&kit->schema, &kit->array, name);
}

bool columns_kit_cell_is(const columns_kit *kit, const char *name, int64_t row, const char *expected)
{
    const sgs_bytes found = arrow_bytes(columns_kit_column(kit, name), row);
    const sgs_bytes wanted = kit_text(expected);
    return found.size == wanted.size && (wanted.size <= 0 || memcmp(found.data, wanted.data, (size_t)wanted.size) == 0);
}

sgs_buffer columns_kit_batch(int64_t base_offset, int count, int codec)
{
    static const char filler[400] = "";
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_error err;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&options);
    sgs_buffer_init(&out, kit_memory());
    options.base_offset = base_offset;
    options.codec = codec;
    must(sgs_batch_builder_start(&builder, &options, &err), &err);
    for (int i = 0; i < count; ++i) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        const sgs_record_header header = { kit_text(key), kit_text(i % 2 == 0 ? NULL : key) };
        must(sgs_batch_builder_append(&builder, base_offset + 2 * i, 1000 + i, kit_text(i % 7 == 3 ? NULL : key),
                                      (sgs_bytes){ (const uint8_t *)filler, i % 400 }, &header, i % 5 == 0, &err),
             &err);
    }
    must(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    sgs_batch_builder_deinit(&builder);
    return out;
}
