/* validate_rules.h - what log_validator.c and the ways to assign offsets (validate_in_place.c, validate_rebuild.c)
 * share: one batch under judgement, its rules, and the walk over its records. */
#ifndef SGS_RECORD_VALIDATE_RULES_H
#define SGS_RECORD_VALIDATE_RULES_H

#include "record/legacy_records.h"
#include "record/validation.h"

/* What Kafka takes as one append: `count` batches from the row `first` on. */
typedef struct sgs_append_request {
    sgs_log_validator *validator;
    uint8_t *data;
    size_t size;
    sgs_batch_header *rows;
    size_t first, count;
    int source_codec, target_codec;
    int8_t magic;    /* of the first batch */
    uint8_t *header; /* of the only batch, apart from `data`, which stays as it is; NULL = in place */
} sgs_append_request;

typedef struct sgs_append_batch {
    sgs_log_validator *validator;
    size_t index; /* messages speak of batches by their place in the append: their offsets are not assigned yet */
    const uint8_t *data;
    uint8_t *stamped;        /* where its header is written: in `data`, or apart */
    sgs_batch_header header; /* from the bytes: what the caller's rows say is not relied on */
    int32_t last_offset_delta;
} sgs_append_batch;

/* The records of a batch, whatever its magic and codec; a copy starts from the beginning again. */
typedef struct sgs_append_section {
    sgs_legacy_reader legacy;  /* magic 0 and 1 */
    const uint8_t *next, *end; /* magic 2 */
    int64_t max_record_bytes;  /* [DUR-92] */
    int32_t records_count;
    bool as_kafka; /* parse what Kafka takes, not only what is well formed */
    bool partly;   /* with as_kafka: as Kafka does where the payload is kept, sizes of records are not looked at */
} sgs_append_section;

typedef enum sgs_offset_rule {
    SGS_OFFSETS_AS_THEY_ARE,
    SGS_OFFSETS_FILL_BATCH,     /* deltas ascend within a batch that has room for just them: 0, 1, 2 ... [DUR-89] */
    SGS_OFFSETS_COUNT_FROM_ZERO /* offsets 0, 1, 2 ..., whatever the base offset is [format.md 12.7] */
} sgs_offset_rule;

/* A walk over the records of one batch, and what it found. */
typedef struct sgs_append_walk {
    sgs_offset_rule offset_rule;
    int64_t records_count;
    int64_t max_timestamp;    /* -1 when none has one */
    int64_t bad_offset_index; /* the first record that breaks the rule, -1 = none does */
    int64_t bad_offset;
} sgs_append_walk;

/** Load the header of batch `index` from its bytes. The rows are the caller's, and another of his threads may write to
 *  them at any time: of a row, only the position is relied on, read once a call and compared with the size.
 *  @return SGS_ILLEGAL_ARGUMENT: a position outside the data; otherwise as sgs_batch_header_load */
sgs_status sgs_append_header_load(const sgs_append_request *request, size_t index, sgs_batch_header *header,
                                  sgs_error *err);
/** Load batch `index` of the request from its bytes. */
sgs_status sgs_append_batch_load(const sgs_append_request *request, size_t index, sgs_append_batch *batch,
                                 sgs_error *err);
/** The rules per batch [format.md 12.3], in Kafka's order. */
sgs_status sgs_append_batch_check(const sgs_append_batch *batch, int8_t first_magic, sgs_error *err);
/** Whether a batch of our own builder can be taken by its header: nothing asks for its keys or its smallest timestamp,
 *  and its largest is in range. */
bool sgs_append_header_suffices(const sgs_validation_options *options, const sgs_batch_header *header);
/** Whether the topic takes the timestamp [format.md 12.4]; the differences wrap as Java's do. */
bool sgs_append_timestamp_is_in_range(const sgs_validation_options *options, int64_t timestamp);
/** Note a wrong record. @return SGS_RESOURCE when there is no memory for it */
sgs_status sgs_append_note(const sgs_append_batch *batch, int64_t index, sgs_record_fault_kind kind, int64_t value,
                           sgs_error *err);
/** Fail the batch when records of it were noted. */
sgs_status sgs_append_judge(const sgs_append_batch *batch, sgs_error *err);

/** Find the records, decompressed into the validator's scratch buffer when need be. */
sgs_status sgs_append_section_open(const sgs_append_batch *batch, sgs_append_section *section, sgs_error *err);
/** Look at every record [format.md 12.4]; wrong ones are noted and fail the batch at its end, bytes that are no record
 *  at once. */
sgs_status sgs_append_batch_walk(const sgs_append_batch *batch, sgs_append_section section, sgs_append_walk *walk,
                                 sgs_error *err);
/** The next record with its timestamp; offsets are not looked at. Only for what was walked before. */
sgs_status sgs_append_section_next(sgs_append_section *section, const sgs_append_batch *batch, sgs_record *record,
                                   bool *found, sgs_error *err);

/** Edit a checked batch and count its records into the result.
 *  @param records_count  how far the offset counter moves
 *  @param max_timestamp  of the records */
sgs_status sgs_append_stamp(const sgs_append_batch *batch, int64_t records_count, int64_t max_timestamp,
                            sgs_error *err);
/** Assign in place [format.md 12.5]. */
sgs_status sgs_append_in_place(const sgs_append_request *request, sgs_error *err);
/** Check, and write again with another magic or codec where that is needed [format.md 12.6, 12.7].
 *  @param is_rebuilt  set when the batch was not edited in place: then, and after sgs_append_convert, what was written
 *                     is at the end of validator->output */
sgs_status sgs_append_convert(const sgs_append_request *request, sgs_error *err);
sgs_status sgs_append_compressed(const sgs_append_request *request, bool *is_rebuilt, sgs_error *err);
/** Put batches that were edited in place, with their rows, behind what was written to validator->output. */
sgs_status sgs_append_copy_to_output(const sgs_append_request *request, size_t first, size_t count, sgs_error *err);

#endif
