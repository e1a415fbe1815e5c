/* validation.h - what a validation of batches is asked, and what it answers: options, result, wrong records, counters,
 * Kafka LogValidator.ValidationResult and RecordError. log_validator.h has the verb. */
#ifndef SGS_RECORD_VALIDATION_H
#define SGS_RECORD_VALIDATION_H

#include "record/codec.h"
#include "record/record.h"

enum {
    SGS_CODEC_OF_SOURCE = -1,     /* compression.type=producer */
    SGS_RECORD_ERRORS_MAX = 1000, /* that are kept; all are counted */
};

typedef enum sgs_append_origin { /* Kafka AppendOrigin */
                                 SGS_ORIGIN_REPLICATION,
                                 SGS_ORIGIN_COORDINATOR,
                                 SGS_ORIGIN_CLIENT,
                                 SGS_ORIGIN_RAFT_LEADER,
} sgs_append_origin;

typedef struct sgs_validation_options { /* sgs_validation_options_default() first, then change what differs */
    int64_t now_ms;
    int64_t timestamp_before_max_ms, timestamp_after_max_ms;
    int32_t partition_leader_epoch;
    sgs_append_origin origin; /* CLIENT by default */
    int target_codec, level;  /* SGS_CODEC_OF_SOURCE by default; level: INT_MIN = the codec's default */
    int8_t target_magic;      /* 2 by default */
    bool log_append_time;     /* message.timestamp.type */
    bool keys_required;       /* compacted topic */
    bool one_request;         /* refuse what Kafka would not take as one append [APP-31] */
    bool kafka_limits;        /* judge as Kafka does and no stricter */
    bool
        records_are_trusted; /* built by our own builder in this call: headers are right, records need no second walk */
    bool records_are_checked; /* by this validator, with the same options: nothing is looked at, only stamped */
} sgs_validation_options;

typedef enum sgs_record_fault_kind {
    SGS_RECORD_HAS_OTHER_MAGIC, /* inside a wrapper of magic 0 or 1 */
    SGS_RECORD_HAS_NO_KEY,
    SGS_RECORD_TIMESTAMP_OUT_OF_RANGE,
    SGS_RECORD_TIMESTAMP_TYPE, /* only the broker stamps append times */
    SGS_RECORD_OFFSET,         /* out of sequence */
} sgs_record_fault_kind;

typedef struct sgs_record_error { /* Kafka RecordError */
    int32_t record_index;         /* in its batch, from 0 */
    sgs_record_fault_kind kind;
    int64_t value; /* what was found: a magic, timestamp or offset */
} sgs_record_error;

typedef struct sgs_validator_metrics { /* Kafka LogValidator.MetricsRecorder */
    int64_t invalid_magic, invalid_offset, invalid_sequence, invalid_checksums, no_key_compacted_topic;
} sgs_validator_metrics;

typedef struct sgs_validation { /* the result */
    int64_t next_offset;        /* behind the last offset assigned */
    int64_t max_timestamp;      /* -1 when no record has one */
    int64_t records_count;
    int64_t converted_count; /* records written again; Kafka numberOfRecordsConverted */
    bool sizes_may_have_changed;
    bool is_rebuilt; /* the batches are in `output`, their rows in `output_rows`; data and rows are spent */
    /* also set on failure */
    size_t failed_batch;         /* the batch that was refused */
    int64_t record_errors_count; /* in that batch */
    bool has_invalid_timestamp;  /* makes it Kafka's InvalidTimestampException */
    sgs_validator_metrics metrics;
} sgs_validation;

typedef struct sgs_log_validator {
    sgs_validation_options options;
    const sgs_codec_table *codecs; /* borrowed; may be NULL when nothing is compressed */
    sgs_validation result;
    sgs_buffer output;        /* batches, when is_rebuilt */
    sgs_buffer output_rows;   /* sgs_batch_header each */
    sgs_buffer record_errors; /* sgs_record_error each, of the failed batch */
    sgs_buffer scratch;
} sgs_log_validator;

void sgs_validation_options_default(sgs_validation_options *options);
/** Set `options` before use. */
void sgs_log_validator_init(sgs_log_validator *validator, sgs_memory memory, const sgs_codec_table *codecs);
void sgs_log_validator_deinit(sgs_log_validator *validator);
/** Give back each buffer that is larger than `kept_bytes`, also what is in it: what a rare large batch needed. */
void sgs_log_validator_trim(sgs_log_validator *validator, size_t kept_bytes);

static inline size_t sgs_log_validator_errors_count(const sgs_log_validator *validator)
{
    return validator->record_errors.size / sizeof(sgs_record_error);
}
static inline const sgs_record_error *sgs_log_validator_errors(const sgs_log_validator *validator)
{
    return (const sgs_record_error *)(const void *)validator->record_errors.data;
}
/** Fill `err` with a sentence about a record of the failed batch. @return SGS_INVALID_RECORD */
sgs_status sgs_record_error_describe(const sgs_log_validator *validator, const sgs_record_error *record_error,
                                     sgs_error *err);

#endif
