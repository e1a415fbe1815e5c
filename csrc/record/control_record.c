/* control_record.c - parsing and writing of control record keys and transaction markers. */
#include "record/control_record.h"

#include <inttypes.h>

#include "base/bytes.h"

enum { CURRENT_VERSION = 0, TYPE_AT = 2, COORDINATOR_EPOCH_AT = 2 };

static const char *const type_names[] = {
    [SGS_CONTROL_ABORT] = "ABORT",
    [SGS_CONTROL_COMMIT] = "COMMIT",
    [SGS_CONTROL_LEADER_CHANGE] = "LEADER_CHANGE",
    [SGS_CONTROL_SNAPSHOT_HEADER] = "SNAPSHOT_HEADER",
    [SGS_CONTROL_SNAPSHOT_FOOTER] = "SNAPSHOT_FOOTER",
    [SGS_CONTROL_KRAFT_VERSION] = "KRAFT_VERSION",
    [SGS_CONTROL_KRAFT_VOTERS] = "KRAFT_VOTERS",
};

const char *sgs_control_type_name(sgs_control_type type)
{
    return type >= SGS_CONTROL_ABORT && type <= SGS_CONTROL_KRAFT_VOTERS ? type_names[type] : "UNKNOWN";
}

sgs_status sgs_control_record_type(const sgs_record *record, sgs_control_type *type, int16_t *id, sgs_error *err)
{
    if (record->key.size < SGS_CONTROL_KEY_BYTES)
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "control record at offset %" PRId64 ": a key of %" PRId32 " bytes, expected 4", record->offset,
                        record->key.size);
    const int16_t version = sgs_load_be_i16(record->key.data);
    if (version < CURRENT_VERSION)
        return sgs_fail(err, SGS_INVALID_RECORD, "control record at offset %" PRId64 ": a key of version %d",
                        record->offset, version);
    const int16_t stored = sgs_load_be_i16(record->key.data + TYPE_AT);
    *type = stored >= SGS_CONTROL_ABORT && stored <= SGS_CONTROL_KRAFT_VOTERS ? (sgs_control_type)stored
                                                                              : SGS_CONTROL_UNKNOWN;
    if (id != NULL)
        *id = stored;
    return SGS_OK;
}

sgs_status sgs_control_record_end_transaction(const sgs_record *record, sgs_end_transaction_marker *marker,
                                              sgs_error *err)
{
    sgs_control_type type = SGS_CONTROL_UNKNOWN;
    const sgs_status status = sgs_control_record_type(record, &type, NULL, err);
    if (status != SGS_OK)
        return status;
    if (type != SGS_CONTROL_ABORT && type != SGS_CONTROL_COMMIT) /* before the value is looked at, as in Kafka */
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                        "control record at offset %" PRId64 ": %s is not a transaction marker", record->offset,
                        sgs_control_type_name(type));
    if (record->value.size >= 2 && sgs_load_be_i16(record->value.data) < CURRENT_VERSION)
        return sgs_fail(err, SGS_INVALID_RECORD, "transaction marker at offset %" PRId64 ": version %d", record->offset,
                        sgs_load_be_i16(record->value.data));
    if (record->value.size < SGS_END_TRANSACTION_VALUE_BYTES)
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "transaction marker at offset %" PRId64 ": a value of %" PRId32 " bytes, expected 6",
                        record->offset, record->value.size);
    *marker = (sgs_end_transaction_marker){
        .type = type,
        .coordinator_epoch = sgs_load_be_i32(record->value.data + COORDINATOR_EPOCH_AT),
    };
    return SGS_OK;
}

void sgs_control_record_store_key(sgs_control_type type, uint8_t key[SGS_CONTROL_KEY_BYTES])
{
    SGS_EXPECT(type != SGS_CONTROL_UNKNOWN);
    sgs_store_be_i16(key, CURRENT_VERSION);
    sgs_store_be_i16(key + TYPE_AT, (int16_t)type);
}

void sgs_control_record_store_marker(int32_t coordinator_epoch, uint8_t value[SGS_END_TRANSACTION_VALUE_BYTES])
{
    sgs_store_be_i16(value, CURRENT_VERSION);
    sgs_store_be_i32(value + COORDINATOR_EPOCH_AT, coordinator_epoch);
}
