/* After a crash, or in a directory from somebody else, the .log and both index files may hold any bytes at all. Looking at
 * them must work or say why; recovery must keep the good batches, cut the rest where it may, and make the indexes that the
 * batches give; from then on, also after a truncation, an append and another open, every read and every look-up by time
 * answers what a walk over all batches answers. Nothing but a cut ever changes the .log.
 * [SEG-17..SEG-24, SEG-40, TS-3, DUR-50, DUR-53, DUR-57, DUR-79, DUR-85]
 * INPUT   flags, index interval, maximum size of an index, base offset, target offset, size of a read, sizes of the two
 *         index files (255 = missing, 254 = too large for an index), then these files and the .log.   ORACLE  plain_scan.c and plain_segment.c; segment_answers.c compares. */
#include "segment/log_segment.h"

#include <string.h>

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/memory_directory.h"
#include "fuzz/segment_answers.h"
#include "record_kit.h"
#include "segment_kit.h"

enum {
    KAFKA = 1,
    GO_ON = 2,
    KEEP_TAIL = 4,
    ANY_ORDER = 8,
    EPOCHS = 16,
    CONTIGUOUS = 32,
    SMALL_BATCHES = 64,
    REOPEN_WRITABLE = 128
};
enum { PARAMETERS_BYTES = 10, NO_FILE = 0xFF, OVERSIZED = 0xFE, LOG_BYTES_MAX = 2048, SMALL_BATCH_BYTES = 128 };

typedef struct trial {
    memory_directory directory;
    sgs_segment_context context;
    sgs_header_cache cache; /* of all trials; each has a view of its own */
    sgs_header_view headers;
    char log_name[SGS_SEGMENT_NAME_BYTES], index_name[SGS_SEGMENT_NAME_BYTES], time_name[SGS_SEGMENT_NAME_BYTES];
    uint8_t log[LOG_BYTES_MAX + 2 * KIT_LEAST_BATCH_BYTES]; /* as it should be */
    plain_segment plain;
    int64_t target_offset;
    int32_t read_size;
    uint8_t flags;
} trial;

static trial the; /* too large for the stack */

static sgs_log_segment *open_segment(bool writable)
{
    sgs_log_segment *segment;
    sgs_error err;
    the.context.writable = writable;
    FUZZ_CHECK(sgs_log_segment_open(&the.context, the.plain.base_offset, SGS_SUFFIX_NONE, false, &segment, &err) ==
               SGS_OK);
    return segment;
}

static void check_log(int64_t size)
{
    const memory_file *const file = memory_directory_find(&the.directory, the.log_name);
    FUZZ_CHECK(file != NULL && (int64_t)file->size == size);
    FUZZ_CHECK(size == 0 || memcmp(file->bytes, the.log, (size_t)size) == 0);
}

static segment_question ask(sgs_log_segment *segment, bool exactly, bool times_exactly)
{
    return (segment_question){
        .segment = segment,
        .plain = &the.plain,
        .context = &the.context,
        .offset = the.target_offset,
        .read_size = the.read_size,
        .exactly = exactly,
        .times_exactly = times_exactly,
    };
}

static void check_answers(sgs_log_segment *segment, bool exactly, bool times_exactly)
{
    const segment_question question = ask(segment, exactly, times_exactly);
    segment_answers_check(&question);
}

/* ---- before recovery ---- */

/* An entry is bypassed unless it leads to a batch [DUR-53]: only one into the middle of a batch can mislead. */
static bool index_leads_to_batches(void)
{
    const memory_file *const file = memory_directory_find(&the.directory, the.index_name);
    for (size_t at = 0; file != NULL && at + 8 <= file->room; at += 8) {
        const int64_t position = plain_number(file->bytes + at + 4, 4);
        bool is_batch = position <= 0 || position >= the.plain.size;
        for (int64_t i = 0; i < the.plain.count && !is_batch; ++i)
            is_batch = the.plain.batches[i].position == position;
        if (!is_batch)
            return false;
    }
    return true;
}

static void look_first(const sgs_scan_options *options, const plain_scan *expected)
{
    const bool is_whole = expected->stop == SGS_SCAN_COMPLETE && plain_segment_ascends(&the.plain);
    const bool exactly = is_whole && !the.context.kafka_profile && index_leads_to_batches();
    sgs_log_segment *const segment = open_segment((the.flags & REOPEN_WRITABLE) != 0);
    sgs_scan_result result;
    sgs_error err;
    check_answers(segment, exactly, false);
    FUZZ_CHECK(sgs_log_segment_scan(segment, options, 0, -1, NULL, &result, &err) == SGS_OK);
    FUZZ_CHECK(result.stop == expected->stop && result.valid_bytes == expected->valid_bytes);
    sgs_log_segment_close_quietly(segment);
    check_log(the.plain.size);
}

/* ---- recovery ---- */

static void check_file(const char *name, const uint8_t *bytes, size_t size)
{
    const memory_file *const file = memory_directory_find(&the.directory, name);
    FUZZ_CHECK(file != NULL && file->size == size);
    FUZZ_CHECK(size == 0 || memcmp(file->bytes, bytes, size) == 0);
}

/* @return whether all of the .log is good batches now, and the indexes are theirs */
static bool recover(sgs_log_segment *segment, const sgs_scan_options *options, const plain_scan *expected)
{
    static plain_indexes indexes;
    const bool cut = (the.flags & KEEP_TAIL) == 0;
    sgs_batch_table table;
    sgs_recovery recovery;
    sgs_error err;
    plain_segment *const plain = &the.plain;
    sgs_batch_table_init(&table, kit_memory());
    const sgs_status expected_status = plain_segment_indexes(plain, &the.context, &indexes);
    const sgs_status status =
        sgs_log_segment_recover(segment, options, cut ? SGS_CUT_ANYWHERE : SGS_CUT_NOWHERE, &table, &recovery, &err);
    FUZZ_CHECK(status == expected_status);
    FUZZ_CHECK(status == SGS_OK || ((the.flags & ANY_ORDER) != 0 && err.file[0] != '\0'));
    const bool is_written = status == SGS_OK && (cut || expected->stop == SGS_SCAN_COMPLETE);
    if (status == SGS_OK) {
        FUZZ_CHECK(recovery.scan.stop == expected->stop && recovery.scan.valid_bytes == expected->valid_bytes);
        FUZZ_CHECK(recovery.scan.next_offset == expected->next_offset);
        FUZZ_CHECK((int64_t)sgs_batch_table_count(&table) == plain->count);
        FUZZ_CHECK(recovery.truncated_bytes == (is_written ? plain->size - expected->valid_bytes : 0));
        /* offsets that go back may be refused by an index: look-ups go without it */
        FUZZ_CHECK(recovery.indexes_written == is_written || (is_written && !plain_segment_ascends(plain)));
    }
    if (is_written)
        plain->size = expected->valid_bytes;
    sgs_batch_table_deinit(&table);
    check_log(plain->size);
    if (!is_written || !recovery.indexes_written)
        return false;
    sgs_error ignored;
    FUZZ_CHECK(sgs_log_segment_flush(segment, true, SGS_BARRIER(APPENDED_RECORDS), &ignored) ==
               SGS_OK); /* indexes on the heap: now they are files */
    check_file(the.index_name, indexes.offset_entries, indexes.offset_bytes);
    check_file(the.time_name, indexes.time_entries, indexes.time_bytes);
    return true;
}

/* ---- after recovery: cut and go on ---- */

static void append_one(sgs_log_segment *segment)
{
    plain_segment *const plain = &the.plain;
    uint8_t bytes[2 * KIT_LEAST_BATCH_BYTES];
    sgs_batch_header row;
    sgs_error err;
    bool poisoned;
    const int64_t offset = plain_segment_next_offset(plain) + the.target_offset % 3;
    const size_t size = segment_kit_batch(bytes, sizeof bytes, offset, 1, EXAMPLE_T + the.target_offset, 0);
    FUZZ_CHECK(sgs_batch_header_load(bytes, size, 0, &row, &err) == SGS_OK);
    const sgs_slice slice = { bytes, size };
    const sgs_status status = sgs_log_segment_append(segment, &slice, 1, &row, 1, &poisoned, &err);
    FUZZ_CHECK(!poisoned && status == (offset - plain->base_offset > INT32_MAX ? SGS_SEGMENT_OFFSET_OVERFLOW : SGS_OK));
    if (status == SGS_OK) {
        memcpy(the.log + plain->size, bytes, size);
        plain->batches[plain->count++] =
            (plain_batch){ plain->size, (int64_t)size, offset, offset, row.max_timestamp, 3, 2 };
        plain->size += (int64_t)size;
    }
    check_log(plain->size);
}

static void cut_and_go_on(sgs_log_segment *segment)
{
    plain_segment *const plain = &the.plain;
    sgs_error err;
    int32_t bytes_cut;
    const plain_batch *const first = plain_segment_find(plain, the.target_offset);
    FUZZ_CHECK(sgs_log_segment_truncate_to(segment, the.target_offset, &bytes_cut, &err) == SGS_OK);
    const int64_t size = first == NULL ? plain->size : first->position;
    FUZZ_CHECK(bytes_cut == plain->size - size);
    plain->size = size;
    plain->count = first == NULL ? plain->count : first - plain->batches;
    check_log(size);
    const segment_question question = ask(segment, true, true);
    segment_answers_check_read(&question, the.target_offset);
    segment_answers_check_max_timestamp(&question);
    FUZZ_CHECK(sgs_log_segment_prepare_for_appends(segment, &err) == SGS_OK);
    bool is_full;
    FUZZ_CHECK(sgs_log_segment_indexes_full(segment, &is_full, &err) == SGS_OK);
    if (!is_full) /* else a log rolls [IDX-4, TMX-4] */
        append_one(segment);
    check_answers(segment, true, true);
}

/* ---- one input ---- */

static void take_parameters(fuzz_input *input, size_t *index_size, size_t *time_size)
{
    the.flags = fuzz_take_u8(input);
    const bool kafka = (the.flags & KAFKA) != 0;
    if (the.cache.memory.reallocate == NULL)
        sgs_header_cache_init(&the.cache, kit_memory());
    sgs_header_view_init(&the.headers, &the.cache);
    the.context = (sgs_segment_context){
        .env = &the.directory.env,
        .kafka_profile = kafka,
        .heap_indexes = true,
        .index_interval_bytes = 4 * (uint32_t)fuzz_take_u8(input),
        .max_index_bytes = 24 + 12 * (uint32_t)fuzz_take_u8(input),
        .segment_bytes = 1 << 20,
        .max_batch_bytes = (the.flags & SMALL_BATCHES) != 0 && !kafka ? SMALL_BATCH_BYTES : INT32_MAX,
        .codecs = kit_codecs(),
        .headers = &the.headers,
    };
    the.plain.base_offset = fuzz_take_u16(input);
    the.target_offset = the.plain.base_offset + fuzz_take_u8(input);
    the.read_size = fuzz_take_u16(input);
    *index_size = fuzz_take_u8(input);
    *time_size = fuzz_take_u8(input);
}

static void put_index(const char *name, fuzz_input *input, size_t size)
{
    if (size == NO_FILE)
        return;
    if (size == OVERSIZED) {
        if (!the.context.kafka_profile) /* whose open fails, as Kafka's does */
            memory_directory_put_hole(&the.directory, name, (size_t)3 << 30);
        return;
    }
    const size_t there = size < input->size ? size : input->size;
    memory_directory_put(&the.directory, name, input->bytes, there);
    input->bytes += there;
    input->size -= there;
}

static sgs_scan_options scan_options(void)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.kafka_limits = the.context.kafka_profile;
    options.max_batch_bytes = the.context.max_batch_bytes;
    options.segment_base_offset = the.plain.base_offset;
    options.check_crc = true;
    options.check_order = (the.flags & ANY_ORDER) == 0;
    options.contiguous = (the.flags & CONTIGUOUS) != 0;
    options.check_epochs = (the.flags & EPOCHS) != 0;
    options.expected_offset = the.plain.base_offset;
    return options;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    size_t index_size, time_size;
    sgs_error err;
    memory_directory_init(&the.directory);
    take_parameters(&input, &index_size, &time_size);
    sgs_segment_file_name(the.plain.base_offset, SGS_FILE_LOG, SGS_SUFFIX_NONE, the.log_name);
    sgs_segment_file_name(the.plain.base_offset, SGS_FILE_INDEX, SGS_SUFFIX_NONE, the.index_name);
    sgs_segment_file_name(the.plain.base_offset, SGS_FILE_TIMEINDEX, SGS_SUFFIX_NONE, the.time_name);
    put_index(the.index_name, &input, index_size);
    put_index(the.time_name, &input, time_size);
    the.plain.size = (int64_t)(input.size < LOG_BYTES_MAX ? input.size : LOG_BYTES_MAX);
    if (the.plain.size > 0)
        memcpy(the.log, input.bytes, (size_t)the.plain.size);
    the.plain.log = the.log;
    memory_directory_put(&the.directory, the.log_name, the.log, (size_t)the.plain.size);
    const sgs_scan_options options = scan_options();
    const plain_scan expected = plain_scan_run(&options, the.log, the.plain.size, the.plain.batches, PLAIN_BATCHES_MAX);
    the.plain.count = expected.batches_count;

    look_first(&options, &expected);
    sgs_log_segment *segment = open_segment(true);
    const bool is_good = recover(segment, &options, &expected) && plain_segment_ascends(&the.plain);
    check_answers(segment, is_good, is_good);
    if (is_good && (the.flags & GO_ON) != 0) /* the others are closed and opened as they were recovered */
        cut_and_go_on(segment);
    FUZZ_CHECK(sgs_log_segment_close(segment, &err) == SGS_OK);
    segment = open_segment((the.flags & REOPEN_WRITABLE) != 0);
    check_answers(segment, is_good, is_good);
    sgs_log_segment_close_quietly(segment);
    check_log(the.plain.size);
    FUZZ_CHECK(memory_directory_is_balanced(&the.directory));
    memory_directory_deinit(&the.directory);
    return 0;
}

/* Most mutations would die at the CRC of the first batch, and most others at its offset. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (size < PARAMETERS_BYTES || seed % 4 == 0)
        return size;
    size_t start = PARAMETERS_BYTES;
    start += data[PARAMETERS_BYTES - 2] >= OVERSIZED ? 0 : data[PARAMETERS_BYTES - 2];
    start += data[PARAMETERS_BYTES - 1] >= OVERSIZED ? 0 : data[PARAMETERS_BYTES - 1];
    if (start >= size)
        return size;
    fuzz_mend_run(data + start, size - start);
    int64_t next_offset = plain_number(data + 3, 2) & 0xFFFF;
    for (size_t at = start; seed / 4 % 2 == 0 && size - at >= SGS_BATCH_HEADER_BYTES;) {
        const int64_t length = plain_number(data + at + 8, 4);
        if (length < 14 || length > (int64_t)(size - at) - 12)
            break;
        sgs_store_be_i64(data + at, next_offset);
        next_offset += 1 + (data[at + 16] == 2 ? plain_number(data + at + 23, 4) & 0xFF : 0);
        at += 12 + (size_t)length;
    }
    return size;
}
