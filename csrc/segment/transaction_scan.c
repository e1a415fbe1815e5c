/* transaction_scan.c - the rows that tell of transactions, out of a scan of headers
 *
 * A bit of a data batch's header decides about the records of that batch alone, and its reader compares the checksum. A
 * marker decides about records before it: it is read, and so is a batch that a changed bit may have turned from one. */
#include "segment/transaction_scan.h"

#include "record/control_record.h"
#include "record/record_iterator.h"
#include "segment/log_segment_internal.h"

enum { MARKER_ROOM_BYTES = 128 /* a marker has 78 bytes; of data so small the checksum is compared too */ };

typedef struct transaction_scan {
    sgs_log_segment *segment;
    sgs_transaction_rows *rows;
    sgs_buffer batch, scratch; /* of the control batch that is looked at */
    int64_t data_from;
    int64_t data_of;     /* the producer of the last row, when that is data */
    bool is_behind_data; /* whether it is */
    bool has_bad;
    sgs_scan_result before_bad; /* what there is in front of a bad marker, and what is wrong with that */
} transaction_scan;

void sgs_transaction_rows_init(sgs_transaction_rows *rows, sgs_memory memory)
{
    sgs_batch_table_init(&rows->table, memory);
    sgs_buffer_init(&rows->ends, memory);
}

void sgs_transaction_rows_deinit(sgs_transaction_rows *rows)
{
    sgs_batch_table_deinit(&rows->table);
    sgs_buffer_deinit(&rows->ends);
}

static sgs_status keep(transaction_scan *self, const sgs_batch_header *row, sgs_transaction_end end, sgs_error *err)
{
    const int8_t stored = (int8_t)end;
    SGS_EXPECT(row->magic == 2 && row->position == self->before_bad.valid_bytes);
    self->is_behind_data = end == SGS_TRANSACTION_DATA;
    self->data_of = row->producer_id;
    const sgs_status status = sgs_buffer_append(&self->rows->table.rows, row, sizeof *row, err);
    return status == SGS_OK ? sgs_buffer_append(&self->rows->ends, &stored, sizeof stored, err) : status;
}

/* What the first record of a control batch says; compaction may have left none. */
static sgs_status read_type(transaction_scan *self, size_t size, sgs_control_type *type, sgs_error *err)
{
    sgs_record_iterator iterator;
    sgs_iterated_record record;
    bool found = false;
    *type = SGS_CONTROL_UNKNOWN;
    SGS_TRY(sgs_record_iterator_open(self->batch.data, size, SGS_ITERATE_STREAMING, self->segment->context->codecs,
                                     &self->scratch, &iterator, err));
    SGS_TRY(sgs_record_iterator_next(&iterator, &record, &found, err));
    return found ? sgs_control_record_type(&record.record, type, NULL, err) : SGS_OK;
}

static bool is_transactional(const sgs_batch_header *row)
{
    return (row->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0;
}

/* Read the batch of `row` and compare its checksum; of a control batch the type too. What is wrong with it is in `why`. */
static sgs_status look_at(transaction_scan *self, const sgs_batch_header *row, sgs_control_type *type, sgs_error *why,
                          sgs_error *err)
{
    const size_t size = (size_t)row->size_bytes;
    SGS_EXPECT(row->size_bytes >= SGS_BATCH_HEADER_BYTES);
    sgs_buffer_clear(&self->batch);
    SGS_TRY(sgs_buffer_reserve(&self->batch, size, err));
    SGS_TRY(sgs_segment_read_exactly(self->segment, self->batch.data, size, row->position, err));
    sgs_status status = sgs_batch_check(self->batch.data, size, row->position, why);
    if (status == SGS_OK && sgs_batch_is_control(row))
        status = read_type(self, size, type, why);
    if (status == SGS_RESOURCE)
        *err = *why;
    else if (status != SGS_OK)
        self->has_bad = true;
    return status;
}

static sgs_status take(transaction_scan *self, const sgs_batch_header *row, sgs_error *err)
{
    const bool is_control = sgs_batch_is_control(row);
    if (row->magic < 2 || !(is_control || is_transactional(row)))
        return SGS_OK;
    sgs_control_type type = SGS_CONTROL_UNKNOWN;
    if (is_control || (row->records_count == 1 && row->size_bytes <= MARKER_ROOM_BYTES))
        SGS_TRY(look_at(self, row, &type, &self->before_bad.why, err));
    if (!is_control) {
        const bool is_known = self->is_behind_data && self->data_of == row->producer_id;
        return is_known || row->last_offset < self->data_from ? SGS_OK : keep(self, row, SGS_TRANSACTION_DATA, err);
    }
    if (!is_transactional(row) || (type != SGS_CONTROL_ABORT && type != SGS_CONTROL_COMMIT))
        return SGS_OK;
    return keep(self, row, type == SGS_CONTROL_ABORT ? SGS_TRANSACTION_ABORTED : SGS_TRANSACTION_COMMITTED, err);
}

static sgs_status take_rows(void *context, const sgs_batch_header *rows, size_t count, sgs_error *err)
{
    transaction_scan *const self = context;
    for (size_t i = 0; i < count; ++i) {
        SGS_EXPECT(rows[i].position >= self->before_bad.valid_bytes); /* batches come in their order */
        self->before_bad.valid_bytes = rows[i].position;
        SGS_TRY(take(self, &rows[i], err));
        self->before_bad.next_offset = rows[i].last_offset + 1;
        ++self->before_bad.batches_count;
    }
    return SGS_OK;
}

sgs_status sgs_log_segment_scan_transactions(sgs_log_segment *segment, const sgs_scan_options *options,
                                             int64_t start_position, int64_t end_position, int64_t data_from,
                                             sgs_transaction_rows *rows, sgs_scan_result *result, sgs_error *err)
{
    const sgs_memory memory = sgs_env_memory(segment->context->env);
    sgs_scan_options by_headers = *options;
    by_headers.check_crc = false;
    SGS_ASSERT(segment->context->codecs != NULL, err);
    SGS_ASSERT(rows->ends.size * sizeof(sgs_batch_header) == rows->table.rows.size, err);
    transaction_scan self = {
        .segment = segment,
        .rows = rows,
        .data_from = data_from,
        .before_bad = { .stop = SGS_SCAN_CORRUPT,
                        .next_offset = options->expected_offset,
                        .max_timestamp = -1,
                        .last_epoch = -1 },
    };
    sgs_buffer_init(&self.batch, memory);
    sgs_buffer_init(&self.scratch, memory);
    sgs_status status =
        sgs_segment_scan_rows(segment, &by_headers, start_position, end_position, NULL, take_rows, &self, result, err);
    if (self.has_bad) {
        (void)sgs_segment_fail_in_log(segment, &self.before_bad.why);
        *result = self.before_bad;
        status = SGS_OK;
    }
    SGS_EXPECT(status != SGS_OK || rows->ends.size * sizeof(sgs_batch_header) == rows->table.rows.size);
    sgs_buffer_deinit(&self.scratch);
    sgs_buffer_deinit(&self.batch);
    return status;
}
