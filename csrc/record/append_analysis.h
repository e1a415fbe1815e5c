/* append_analysis.h - the checks on an incoming buffer before offsets are assigned or compared [format.md 12.1; APP-4],
 * Kafka UnifiedLog.analyzeAndValidateRecords: batch by batch, the first rule that is broken decides. */
#ifndef SGS_RECORD_APPEND_ANALYSIS_H
#define SGS_RECORD_APPEND_ANALYSIS_H

#include "record/batch_scan.h"
#include "record/validation.h"

typedef struct sgs_append_rules {
    sgs_append_origin origin;
    int32_t leader_epoch;      /* RAFT_LEADER: that of every batch; REPLICATION: batches of a newer one are left out */
    int32_t max_message_bytes; /* of a whole batch; followers take any */
} sgs_append_rules;

typedef enum sgs_append_refusal { /* in the order of the rules */
                                  SGS_APPEND_ACCEPTED,
                                  SGS_APPEND_OTHER_EPOCH,
                                  SGS_APPEND_BASE_OFFSET,
                                  SGS_APPEND_TOO_LARGE,    /* Kafka RecordTooLargeException */
                                  SGS_APPEND_DAMAGED,      /* the CRC; and what no scanner reads on from */
                                  SGS_APPEND_OUT_OF_ORDER, /* Kafka OffsetsOutOfOrderException */
                                  SGS_APPEND_UNKNOWN_CODEC,
} sgs_append_refusal;

typedef struct sgs_append_analysis { /* of Kafka's LogAppendInfo what is known by now */
    sgs_append_refusal refusal;
    size_t batches_count;
    int64_t valid_bytes;  /* what follows is an incomplete batch, or of a newer epoch: to be cut off */
    int64_t first_offset; /* magic 0 and 1: the last offset of the first batch stands in; -1 = no batch */
    int64_t last_offset;
    int64_t max_timestamp;
    int32_t last_leader_epoch; /* -1 = none */
    int source_codec;
} sgs_append_analysis;

/** @param table  gets the rows of the batches that count; what was there before goes
 *  @return SGS_OK, also without a batch; SGS_INVALID_RECORD, SGS_CORRUPT_RECORD, SGS_LIMIT_EXCEEDED (too large),
 *          SGS_UNSUPPORTED_FORMAT (a codec id from 5 to 7): `analysis->refusal` says which rule; SGS_RESOURCE */
sgs_status sgs_analyze_append(const uint8_t *data, size_t size, const sgs_append_rules *rules, sgs_batch_table *table,
                              sgs_append_analysis *analysis, sgs_error *err);

#endif
