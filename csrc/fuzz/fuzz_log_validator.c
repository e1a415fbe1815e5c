/* What a client sends may hold any bytes as its batches. The validator must refuse them, or leave batches that can be
 * read: offsets without a gap from the next one on, as many records as it says, the largest timestamp it says. What it
 * takes by its own rules, it takes by Kafka's, and makes the same of it. [format.md 12, DUR-85..DUR-95]
 * INPUT   flags, target codec and magic, limits, then the run of batches.   ORACLE  the record reader; the other rules. */
#include "record/log_validator.h"

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record/batch_scan.h"
#include "record/record_section.h"
#include "record_kit.h"

enum { AS_IT_IS = 1, LOG_APPEND_TIME = 2, KEYS_REQUIRED = 4, ONE_REQUEST = 8, KAFKA_LIMITS = 16, OTHER_ORIGIN = 32 };
enum { NEXT_OFFSET = 1000, NOW = 1700000000 };

typedef struct append {
    sgs_log_validator validator;
    sgs_batch_table table;
    uint8_t *data;
    size_t size;
    bool has_crc,
        has_append_time; /* some batch claims one: its bit may be cleared, and its timestamps are others then */
} append;

static void append_init(append *a, fuzz_input input, const sgs_validation_options *options, bool as_it_is)
{
    sgs_scan_options scan;
    sgs_scan_result found;
    sgs_error err;
    *a = (append){ .size = input.size, .data = malloc(input.size + 1) };
    FUZZ_CHECK(a->data != NULL);
    if (input.size > 0)
        memcpy(a->data + 1, input.bytes, input.size); /* behind a byte: none is left over at the end */
    if (!as_it_is)
        fuzz_mend_run(a->data + 1, input.size);
    sgs_log_validator_init(&a->validator, kit_memory(), kit_codecs());
    a->validator.options = *options;
    sgs_batch_table_init(&a->table, kit_memory());
    sgs_scan_options_default(&scan, SGS_SCAN_MEMORY);
    scan.check_crc = false;
    FUZZ_CHECK(sgs_batch_scan_buffer(a->data + 1, a->size, &scan, &a->table, &found, &err) == SGS_OK);
    a->has_crc = true;
    for (size_t i = 0; i < sgs_batch_table_count(&a->table); ++i) {
        const sgs_batch_header *const row = &sgs_batch_table_rows(&a->table)[i];
        if ((row->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0)
            a->has_append_time = true;
        if (sgs_batch_check(a->data + 1 + row->position, (size_t)row->size_bytes, -1, &err) != SGS_OK)
            a->has_crc = false;
    }
}

static void append_deinit(append *a)
{
    sgs_batch_table_deinit(&a->table);
    sgs_log_validator_deinit(&a->validator);
    free(a->data);
}

static sgs_status append_run(append *a, sgs_error *err)
{
    sgs_batch_header *const rows = (sgs_batch_header *)(void *)a->table.rows.data;
    const sgs_status status = sgs_validate_and_assign_offsets(&a->validator, NEXT_OFFSET, a->data + 1, a->size, rows,
                                                              sgs_batch_table_count(&a->table), err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_INVALID_RECORD || status == SGS_CORRUPT_RECORD ||
               status == SGS_UNSUPPORTED_FORMAT || status == SGS_ILLEGAL_ARGUMENT || status == SGS_CODEC ||
               status == SGS_LIMIT_EXCEEDED);
    FUZZ_CHECK(status == SGS_OK || (err->status == status && err->message[0] != '\0'));
    FUZZ_CHECK(status == SGS_INVALID_RECORD || status == SGS_CORRUPT_RECORD || status == SGS_CODEC ||
               status == SGS_UNSUPPORTED_FORMAT || a->validator.result.record_errors_count == 0);
    FUZZ_CHECK(sgs_log_validator_errors_count(&a->validator) <= SGS_RECORD_ERRORS_MAX);
    return status;
}

/* The rows of what is to be written, and its bytes. */
static size_t written(const append *a, const sgs_batch_header **rows, const uint8_t **bytes)
{
    const bool is_rebuilt = a->validator.result.is_rebuilt;
    const sgs_buffer *const table = is_rebuilt ? &a->validator.output_rows : &a->table.rows;
    *rows = (const sgs_batch_header *)(const void *)table->data;
    *bytes = is_rebuilt ? a->validator.output.data : a->data + 1;
    return table->size / sizeof(sgs_batch_header);
}

/* One batch of magic 2: its row tells the truth, its records are in order. @return how many there are */
static int64_t check_batch(const append *a, const sgs_batch_header *row, const uint8_t *bytes, int64_t next_offset)
{
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_error err;
    sgs_record record;
    bool found = true;
    int64_t max_timestamp = -1, previous = next_offset - 1, count = 0;
    FUZZ_CHECK(row->base_offset == next_offset && row->last_offset - row->base_offset == row->records_count - 1);
    sgs_buffer_init(&scratch, kit_memory());
    FUZZ_CHECK(sgs_record_section_open(bytes + row->position, (size_t)row->size_bytes, a->has_crc, kit_codecs(),
                                       &scratch, &reader, &err) == SGS_OK);
    FUZZ_CHECK(memcmp(&reader.batch.base_offset, &row->base_offset, sizeof *row - sizeof row->position) == 0);
    for (; true; ++count) {
        FUZZ_CHECK(sgs_record_reader_next(&reader, &record, &found, &err) == SGS_OK);
        if (!found)
            break;
        FUZZ_CHECK(record.offset > previous && record.offset <= row->last_offset);
        FUZZ_CHECK(!a->validator.options.keys_required || record.key.size >= 0);
        previous = record.offset;
        max_timestamp = record.timestamp > max_timestamp ? record.timestamp : max_timestamp;
    }
    FUZZ_CHECK((row->max_timestamp == max_timestamp || a->has_append_time) && row->partition_leader_epoch == 7);
    sgs_buffer_deinit(&scratch);
    return count;
}

static void check_written(const append *a)
{
    const sgs_validation *const result = &a->validator.result;
    const sgs_batch_header *rows;
    const uint8_t *bytes;
    int64_t next_offset = NEXT_OFFSET, max_timestamp = -1;
    const size_t count = written(a, &rows, &bytes);
    for (size_t i = 0; i < count; ++i) {
        FUZZ_CHECK(rows[i].magic == 2);
        next_offset += check_batch(a, &rows[i], bytes, next_offset);
        max_timestamp = rows[i].max_timestamp > max_timestamp ? rows[i].max_timestamp : max_timestamp;
    }
    FUZZ_CHECK(next_offset == result->next_offset && next_offset - NEXT_OFFSET == result->records_count);
    FUZZ_CHECK(max_timestamp == result->max_timestamp);
}

/* Kafka's rules take what ours take, and make the same of it. */
static void check_against_kafka_limits(const append *ours, fuzz_input input, const sgs_validation_options *options,
                                       bool as_it_is)
{
    append theirs;
    sgs_error err;
    const sgs_batch_header *rows, *other_rows;
    const uint8_t *bytes, *other_bytes;
    sgs_validation_options lenient = *options;
    lenient.kafka_limits = true;
    append_init(&theirs, input, &lenient, as_it_is);
    FUZZ_CHECK(append_run(&theirs, &err) == SGS_OK);
    const size_t count = written(ours, &rows, &bytes);
    FUZZ_CHECK(written(&theirs, &other_rows, &other_bytes) == count);
    FUZZ_CHECK(memcmp(rows, other_rows, count * sizeof *rows) == 0);
    for (size_t i = 0; i < count; ++i)
        FUZZ_CHECK(memcmp(bytes + rows[i].position, other_bytes + rows[i].position, (size_t)rows[i].size_bytes) == 0);
    append_deinit(&theirs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input), target = fuzz_take_u8(&input);
    const int64_t before = fuzz_take_u32(&input), after = fuzz_take_u32(&input);
    sgs_validation_options options;
    sgs_validation_options_default(&options);
    options.now_ms = NOW;
    options.timestamp_before_max_ms = before == UINT32_MAX ? INT64_MAX : before;
    options.timestamp_after_max_ms = after == UINT32_MAX ? INT64_MAX : after;
    options.partition_leader_epoch = 7;
    options.origin = (flags & OTHER_ORIGIN) != 0 ? SGS_ORIGIN_COORDINATOR : SGS_ORIGIN_CLIENT;
    options.target_codec = target % 8 < SGS_CODEC_COUNT ? target % 8 : SGS_CODEC_OF_SOURCE;
    options.target_magic = target < 0x40 ? (int8_t)(target >> 4 & 1) : 2;
    options.log_append_time = (flags & LOG_APPEND_TIME) != 0;
    options.keys_required = (flags & KEYS_REQUIRED) != 0;
    options.one_request = (flags & ONE_REQUEST) != 0;
    options.kafka_limits = (flags & KAFKA_LIMITS) != 0;
    const bool as_it_is = (flags & AS_IT_IS) != 0;
    append ours;
    sgs_error err;
    append_init(&ours, input, &options, as_it_is);
    if (append_run(&ours, &err) == SGS_OK && !options.kafka_limits && options.target_magic == 2) {
        check_written(&ours);
        check_against_kafka_limits(&ours, input, &options, as_it_is);
    }
    append_deinit(&ours);
    return 0;
}
