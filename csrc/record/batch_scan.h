/* batch_scan.h - one pass over a run of batches: bounds, CRC, order; the result is the batch-header table.
 *
 * The two scanners of Kafka differ at the tail [format.md 9.1]: SCAN_FILE (FileLogInputStream) and SCAN_MEMORY
 * (ByteBufferLogInputStream). A scan stops at the first thing that is not a good batch and says what it was; whether
 * that is a torn tail or damage is the caller's decision [DUR-50, DUR-51]. Works on bytes; segment/ does the
 * reading. */
#ifndef SGS_RECORD_BATCH_SCAN_H
#define SGS_RECORD_BATCH_SCAN_H

#include "base/buffer.h"
#include "record/record_batch.h"

typedef enum sgs_scan_rules { SGS_SCAN_FILE, SGS_SCAN_MEMORY } sgs_scan_rules;

typedef enum sgs_scan_stop {
    SGS_SCAN_COMPLETE,   /* the last batch ended exactly at the end */
    SGS_SCAN_INCOMPLETE, /* fewer bytes left than a batch needs; Kafka ends silently here */
    SGS_SCAN_CORRUPT,    /* length, magic or CRC wrong: `why` */
    SGS_SCAN_ORDER,      /* a valid batch whose offsets or epoch do not follow [DUR-50]: `why` */
    SGS_SCAN_LIMIT,      /* max_batches reached */
} sgs_scan_stop;

typedef struct sgs_scan_options {
    sgs_scan_rules rules;
    bool check_crc;
    bool check_order;  /* base_offset >= expected_offset, last >= base, and the bounds below */
    bool contiguous;   /* with check_order: base_offset == expected_offset */
    bool check_epochs; /* leader epoch >= the one before, where both are >= 0 */
    bool kafka_limits; /* accept what Kafka accepts [DUR-62]: with file rules any magic; base_offset < 0; length < 49 at
                        * magic 2: such a batch's row has offset, size and magic, the rest is as in a legacy one */
    int64_t segment_base_offset;      /* last_offset - this must be 0..INT32_MAX when check_order */
    int64_t expected_offset;          /* of the first batch */
    int64_t next_segment_base_offset; /* last_offset must stay below; INT64_MAX = none */
    int32_t previous_epoch;           /* -1 = unknown */
    int32_t max_batch_bytes;          /* largest length field [DUR-86]; INT32_MAX by default */
    uint32_t max_batches;             /* UINT32_MAX by default */
} sgs_scan_options;

typedef struct sgs_batch_table { /* rows grow; read them as an array */
    sgs_buffer rows;             /* sgs_batch_header each */
} sgs_batch_table;

typedef struct sgs_scan_result {
    sgs_scan_stop stop;
    int64_t valid_bytes;             /* position behind the last good batch */
    int64_t next_offset;             /* last_offset + 1 of the last good batch, expected_offset when there is none */
    int64_t max_timestamp;           /* of the batches seen, -1 when none */
    int64_t offset_of_max_timestamp; /* last_offset of the earliest batch that has it */
    int32_t last_epoch;              /* of the last batch that has one, -1 behind a message of magic 0 or 1;
                                      * previous_epoch when there is neither */
    uint32_t batches_count;
    sgs_error why; /* CORRUPT: SGS_CORRUPT_RECORD; ORDER: SGS_INVALID_OFFSET, SGS_SEGMENT_OFFSET_OVERFLOW, or
                    * SGS_INVALID_RECORD for an epoch */
} sgs_scan_result;

void sgs_scan_options_default(sgs_scan_options *options, sgs_scan_rules rules);
void sgs_batch_table_init(sgs_batch_table *table, sgs_memory memory);
void sgs_batch_table_deinit(sgs_batch_table *table);
static inline size_t sgs_batch_table_count(const sgs_batch_table *table)
{
    return table->rows.size / sizeof(sgs_batch_header);
}
static inline const sgs_batch_header *sgs_batch_table_rows(const sgs_batch_table *table)
{
    return (const sgs_batch_header *)(const void *)table->rows.data;
}

/* The scan in pieces, for a file that is read through a window: start, then feed. */
typedef struct sgs_batch_scan {
    sgs_scan_options options;
    sgs_scan_result result; /* up to date after each feed */
    bool over;              /* result.stop says why; feeding more changes nothing */
} sgs_batch_scan;

void sgs_batch_scan_start(sgs_batch_scan *scan, const sgs_scan_options *options, int64_t start_position);
/** Scan batches of `data`, whose first byte is at result.valid_bytes of a run that ends at `end_position`. Consumes
 *  whole batches only. Afterwards `*needed` is 0 when the scan is over (result.stop says why), else the number of bytes
 *  that must be present from result.valid_bytes on for the next batch (or header) to be judged: feed again with at
 *  least those.
 *  @param table  rows are appended; may be NULL
 *  @return SGS_OK also when the scan stopped at bad bytes; SGS_RESOURCE when the table cannot grow */
sgs_status sgs_batch_scan_feed(sgs_batch_scan *scan, const uint8_t *data, size_t size, int64_t end_position,
                               sgs_batch_table *table, size_t *needed, sgs_error *err);
/** Scan a whole buffer in one call. Positions count from the buffer's start. */
sgs_status sgs_batch_scan_buffer(const uint8_t *data, size_t size, const sgs_scan_options *options,
                                 sgs_batch_table *table, sgs_scan_result *result, sgs_error *err);

#endif
