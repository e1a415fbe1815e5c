/* Compaction reads whatever is in a log. What it leaves must be what was to be kept, record by record, in batches that
 * can be read and have the offsets, producers and sequences that they had. [format.md 4.3, 11]
 * INPUT   flags, a seed for the decisions, horizon and capacity, then the run of batches.
 * ORACLE  the records of the input, one by one, asked again. */
#include "record/record_filter.h"

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record/batch_scan.h"
#include "record/record_section.h"
#include "record_kit.h"

enum { AS_IT_IS = 1, KEEP_ALL = 2, KEEP_NONE = 4, CHECK_CRC = 8 };

typedef struct chooser {
    uint8_t flags, seed;
} chooser;

static bool is_kept(const chooser *by, int64_t offset)
{
    if ((by->flags & (KEEP_ALL | KEEP_NONE)) != 0)
        return (by->flags & KEEP_ALL) != 0;
    return (((uint64_t)offset * 2654435761U + by->seed) >> 7 & 1) != 0;
}

static void are_kept(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                     bool *retained)
{
    (void)batch;
    for (size_t i = 0; i < count; ++i)
        retained[i] = is_kept(context, records[i].offset);
}

static uint8_t decision_of(uint8_t seed, size_t index)
{
    const unsigned mixed = (unsigned)(seed + 7 * index);
    return (uint8_t)(mixed % 3 | (mixed & 8) >> 1);
}

/* Walks the records of batches, one after the other. */
typedef struct cursor {
    const uint8_t *data;
    const sgs_batch_header *rows;
    size_t index, count;
    sgs_buffer scratch;
    sgs_record_reader reader;
    bool is_open, check_crc;
} cursor;

static bool cursor_next(cursor *c, const chooser *by, bool ask, sgs_record *record)
{
    sgs_error err;
    bool found;
    for (;;) {
        if (!c->is_open) {
            if (c->index == c->count)
                return false;
            const sgs_batch_header *const row = &c->rows[c->index];
            if (ask && decision_of(by->seed, c->index) % 4 == SGS_BATCH_DELETE) {
                ++c->index;
                continue;
            }
            FUZZ_CHECK(sgs_record_section_open(c->data + row->position, (size_t)row->size_bytes, c->check_crc,
                                               kit_codecs(), &c->scratch, &c->reader, &err) == SGS_OK);
            c->is_open = true;
        }
        FUZZ_CHECK(sgs_record_reader_next(&c->reader, record, &found, &err) == SGS_OK);
        if (!found) {
            c->is_open = false;
            ++c->index;
        } else if (!ask || is_kept(by, record->offset)) {
            return true;
        }
    }
}

static bool same(sgs_bytes a, sgs_bytes b)
{
    return a.size == b.size && (a.size <= 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

/* An old wrapper that the broker stamped may hold messages of magic 0, which have no time for readers; written again, all of
 * its records have the broker's, as from Kafka's builder [format.md 11]. */
static int64_t time_behind(const cursor *input, const sgs_record *kept)
{
    const sgs_batch_header *const row = &input->rows[input->index];
    const bool is_stamped = row->magic == 1 && (row->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    return is_stamped ? row->max_timestamp : kept->timestamp;
}

static void check_records(const sgs_record_filter *filter, cursor *input, cursor *output, const chooser *by)
{
    int64_t count = 0;
    for (sgs_record kept, left; true; ++count) {
        const bool has_kept = cursor_next(input, by, true, &kept);
        FUZZ_CHECK(cursor_next(output, by, false, &left) == has_kept);
        if (!has_kept)
            break;
        FUZZ_CHECK(left.offset == kept.offset && left.sequence == kept.sequence);
        FUZZ_CHECK(left.timestamp == time_behind(input, &kept));
        FUZZ_CHECK(same(left.key, kept.key) && same(left.value, kept.value));
        FUZZ_CHECK(left.headers_count == kept.headers_count);
        const sgs_batch_header *const batch = &output->reader.batch;
        FUZZ_CHECK(batch->magic == 2);
        FUZZ_CHECK(batch->producer_id == input->reader.batch.producer_id);
        FUZZ_CHECK(batch->base_sequence == input->reader.batch.base_sequence);
        FUZZ_CHECK(input->reader.batch.magic < 2 || batch->last_offset == input->reader.batch.last_offset);
        FUZZ_CHECK(input->reader.batch.magic < 2 || batch->base_offset == input->reader.batch.base_offset);
    }
    FUZZ_CHECK(count == filter->result.messages_retained && count <= filter->result.messages_read);
}

static void check_output(const sgs_record_filter *filter, const uint8_t *data, const sgs_batch_table *table,
                         const chooser *by)
{
    const sgs_filter_result *const result = &filter->result;
    cursor input = { .data = data, .rows = sgs_batch_table_rows(table), .count = result->batches_read };
    cursor output = { .data = filter->output.data,
                      .rows = (const sgs_batch_header *)(const void *)filter->output_rows.data,
                      .count = filter->output_rows.size / sizeof(sgs_batch_header) };
    output.check_crc = (by->flags & CHECK_CRC) != 0; /* then those of the input were right */
    sgs_buffer_init(&input.scratch, kit_memory());
    sgs_buffer_init(&output.scratch, kit_memory());
    check_records(filter, &input, &output, by);
    int64_t position = 0;
    for (size_t i = 0; i < output.count; ++i) {
        FUZZ_CHECK(output.rows[i].position == position);
        position += output.rows[i].size_bytes;
    }
    FUZZ_CHECK(position == result->bytes_retained && (size_t)position == filter->output.size);
    FUZZ_CHECK(result->output_grew == (filter->output.size > filter->options.destination_capacity));
    FUZZ_CHECK(result->output_grew || result->batches_read == sgs_batch_table_count(table));
    sgs_buffer_deinit(&input.scratch);
    sgs_buffer_deinit(&output.scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { BATCHES_MAX = 64 };
    fuzz_input input = { data, size };
    chooser by = { .flags = fuzz_take_u8(&input) };
    by.seed = fuzz_take_u8(&input);
    sgs_record_filter filter;
    sgs_record_filter_init(&filter, kit_memory(), kit_codecs());
    filter.options.now_ms = fuzz_take_u32(&input);
    filter.options.delete_retention_ms = fuzz_take_u16(&input);
    filter.options.destination_capacity = fuzz_take_u16(&input);
    filter.options.check_crc = (by.flags & CHECK_CRC) != 0;
    filter.options.context = &by;
    filter.options.should_retain = are_kept;
    uint8_t *const batches = malloc(input.size + 1);
    FUZZ_CHECK(batches != NULL);
    if (input.size > 0)
        memcpy(batches + 1, input.bytes, input.size);
    if ((by.flags & AS_IT_IS) == 0)
        fuzz_mend_run(batches + 1, input.size);
    sgs_scan_options options;
    sgs_scan_result found;
    sgs_batch_table table;
    sgs_error err;
    sgs_batch_table_init(&table, kit_memory());
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
    options.check_crc = false;
    options.max_batches = BATCHES_MAX;
    FUZZ_CHECK(sgs_batch_scan_buffer(batches + 1, input.size, &options, &table, &found, &err) == SGS_OK);
    uint8_t decisions[BATCHES_MAX] = { 0 };
    for (size_t i = 0; i < sgs_batch_table_count(&table); ++i)
        decisions[i] = decision_of(by.seed, i);
    const sgs_status status = sgs_record_filter_run(&filter, batches + 1, input.size, sgs_batch_table_rows(&table),
                                                    decisions, sgs_batch_table_count(&table), &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_INVALID_RECORD || status == SGS_CORRUPT_RECORD ||
               status == SGS_UNSUPPORTED_FORMAT || status == SGS_ILLEGAL_ARGUMENT || status == SGS_ILLEGAL_STATE ||
               status == SGS_CODEC || status == SGS_LIMIT_EXCEEDED);
    FUZZ_CHECK(status == SGS_OK || (err.status == status && err.message[0] != '\0'));
    if (status == SGS_OK)
        check_output(&filter, batches + 1, &table, &by);
    sgs_batch_table_deinit(&table);
    sgs_record_filter_deinit(&filter);
    free(batches);
    return 0;
}
