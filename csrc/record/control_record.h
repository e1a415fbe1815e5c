/* control_record.h - what the records of a control batch say [format.md 6, DUR-96].
 *
 * KEY                   i16 version | i16 type                Kafka ControlRecordType
 * VALUE of ABORT/COMMIT i16 version | i32 coordinator epoch   Kafka EndTransactionMarker
 * Newer versions are read as version 0, and what follows the known fields is ignored. */
#ifndef SGS_RECORD_CONTROL_RECORD_H
#define SGS_RECORD_CONTROL_RECORD_H

#include "record/record.h"

typedef enum sgs_control_type {
    SGS_CONTROL_UNKNOWN = -1, /* to be ignored; never written */
    SGS_CONTROL_ABORT = 0,
    SGS_CONTROL_COMMIT = 1,
    SGS_CONTROL_LEADER_CHANGE = 2,
    SGS_CONTROL_SNAPSHOT_HEADER = 3,
    SGS_CONTROL_SNAPSHOT_FOOTER = 4,
    SGS_CONTROL_KRAFT_VERSION = 5,
    SGS_CONTROL_KRAFT_VOTERS = 6,
} sgs_control_type;

enum { SGS_CONTROL_KEY_BYTES = 4, SGS_END_TRANSACTION_VALUE_BYTES = 6 };

typedef struct sgs_end_transaction_marker {
    sgs_control_type type; /* ABORT or COMMIT */
    int32_t coordinator_epoch;
} sgs_end_transaction_marker;

/** @param id  the type's number as stored, also where it is unknown; may be NULL
 *  @return SGS_INVALID_RECORD: no key, fewer than 4 bytes, a negative version. Kafka ControlRecordType.parse */
sgs_status sgs_control_record_type(const sgs_record *record, sgs_control_type *type, int16_t *id, sgs_error *err);
/** "ABORT", "COMMIT", ... and "UNKNOWN", as Kafka names them. */
const char *sgs_control_type_name(sgs_control_type type);
/** @return SGS_ILLEGAL_ARGUMENT when the record is another kind of control record; SGS_INVALID_RECORD: no or a short
 *          value, a negative version. Kafka EndTransactionMarker.deserialize */
sgs_status sgs_control_record_end_transaction(const sgs_record *record, sgs_end_transaction_marker *marker,
                                              sgs_error *err);

/* the writing side: key and value of a marker */
void sgs_control_record_store_key(sgs_control_type type, uint8_t key[SGS_CONTROL_KEY_BYTES]);
void sgs_control_record_store_marker(int32_t coordinator_epoch, uint8_t value[SGS_END_TRANSACTION_VALUE_BYTES]);

#endif
