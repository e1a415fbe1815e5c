/* record_filter.h - rewrites batches for compaction [format.md 11], Kafka MemoryRecords.filterTo.
 *
 * Who cleans decides per batch (delete unseen, delete when empty, keep when empty) and per record. A batch of magic 2
 * that keeps all its records and needs no delete horizon is copied as it is; any other is built again, as magic 2, with
 * its own base offset, last offset, producer and sequence. No allocation per record. */
#ifndef SGS_RECORD_RECORD_FILTER_H
#define SGS_RECORD_RECORD_FILTER_H

#include "record/batch_builder.h"

/* One decision per batch, as a byte so that a table of them is an array. */
enum {
    SGS_BATCH_DELETE = 0,       /* without a look at the records */
    SGS_BATCH_RETAIN_EMPTY = 1, /* its header stays when no record does [format.md 4.5] */
    SGS_BATCH_DELETE_EMPTY = 2,
    SGS_BATCH_RETENTION_MASK = 3,
    /* control batch of a transaction whose data is gone: it gets a delete horizon */
    SGS_BATCH_ENDS_EMPTY_TRANSACTION = 4,
};

enum { SGS_FILTER_ASKS_FOR = 32 }; /* records at once, at most: so many cache lines can be on their way */

typedef struct sgs_filter_options {
    int64_t now_ms, delete_retention_ms; /* their sum is the horizon of what is kept for now */
    size_t destination_capacity;         /* the first batch that takes the output above it is the last */
    bool check_crc;
    bool converts_empty; /* an empty batch of magic 0 or 1 stays as one of magic 2; false: it is refused, as in Kafka */
    void *context;       /* of the two */
    /* asked for every batch when no decisions are given; Kafka RecordFilter.checkBatchRetention */
    sgs_status (*check_batch)(void *context, const uint8_t *batch, const sgs_batch_header *header, uint8_t *decision,
                              sgs_error *err);
    /* asked for a few records of a batch at once, in order: a lookup of one need not wait for the one before */
    void (*should_retain)(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                          bool *retained);
} sgs_filter_options;

typedef struct sgs_filter_result { /* Kafka MemoryRecords.FilterResult */
    int64_t messages_read, messages_retained;
    int64_t bytes_read, bytes_retained; /* read: of the batches that were dealt with, wherever they went */
    int64_t max_offset;                 /* of what is kept, -1 = nothing */
    int64_t max_timestamp;
    int64_t shallow_offset_of_max_timestamp; /* for the time index; the first batch wins ties */
    size_t batches_read;                     /* where to go on */
    bool output_grew;                        /* beyond the capacity: filtering stopped behind that batch */
} sgs_filter_result;

typedef struct sgs_record_filter {
    sgs_filter_options options;
    const sgs_codec_table *codecs; /* borrowed; may be NULL when nothing is compressed */
    sgs_filter_result result;
    sgs_buffer output;      /* batches */
    sgs_buffer output_rows; /* sgs_batch_header each; positions count from the output's start */
    sgs_buffer scratch, kept;
    sgs_batch_builder builder;
} sgs_record_filter;

/** Set `options` before use. */
void sgs_record_filter_init(sgs_record_filter *filter, sgs_memory memory, const sgs_codec_table *codecs);
void sgs_record_filter_deinit(sgs_record_filter *filter);
/** Filter batches of `data` into filter->output, which is cleared first.
 *  @param rows       positions count from `data`
 *  @param decisions  SGS_BATCH_* per row; NULL: options.check_batch is asked, in order
 *  @return SGS_OK; SGS_ILLEGAL_STATE: an empty batch of magic 0 or 1 is to stay; SGS_ILLEGAL_ARGUMENT: a decision that
 *          is none, rows outside of the data, or what the builder refuses, such as offsets that do not ascend in a batch
 *          that has to be built again; otherwise as sgs_record_section_open */
sgs_status sgs_record_filter_run(sgs_record_filter *filter, const uint8_t *data, size_t size,
                                 const sgs_batch_header *rows, const uint8_t *decisions, size_t rows_count,
                                 sgs_error *err);

/* A predicate: keep the records of these offsets, which ascend. */
typedef struct sgs_offsets_to_keep {
    const int64_t *offsets;
    size_t count;
} sgs_offsets_to_keep;
/** should_retain with an sgs_offsets_to_keep as its context. */
void sgs_offsets_to_keep_have(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                              bool *retained);

#endif
