/* A control batch is right by its CRC and may still hold any key and value. The type and the marker must be read or
 * refused, never beyond key and value; and what was read, written again, is the same bytes. [format.md 6, DUR-96]
 * INPUT   1 byte of flags, 1 byte size of the key, then key and value.   ORACLE  the format written out plainly. */
#include "record/control_record.h"

#include <string.h>

#include "fuzz/fuzz_input.h"

enum { NULL_KEY = 1, NULL_VALUE = 2, TYPES_COUNT = 7 };

/* Memory of exactly this size, so that a byte beyond it is caught. */
static sgs_bytes copy(const uint8_t *data, size_t size, bool is_null)
{
    if (is_null)
        return (sgs_bytes){ NULL, -1 };
    uint8_t *const bytes = malloc(size + 1);
    FUZZ_CHECK(bytes != NULL);
    if (size > 0)
        memcpy(bytes + 1, data, size);
    return (sgs_bytes){ bytes + 1, (int32_t)size };
}

static void discard(sgs_bytes bytes)
{
    if (bytes.size >= 0)
        free((uint8_t *)(uintptr_t)bytes.data - 1);
}

static int32_t number(const uint8_t *at, unsigned width) /* big-endian, signed */
{
    int64_t value = (int8_t)at[0];
    for (unsigned i = 1; i < width; ++i)
        value = value * 256 + at[i];
    return (int32_t)value;
}

static bool plain_type(const sgs_record *record, int32_t *stored)
{
    if (record->key.size < 4 || number(record->key.data, 2) < 0)
        return false;
    *stored = number(record->key.data + 2, 2);
    return true;
}

static sgs_status plain_marker(const sgs_record *record, sgs_end_transaction_marker *marker)
{
    int32_t stored;
    if (!plain_type(record, &stored))
        return SGS_INVALID_RECORD;
    if (stored != 0 && stored != 1)
        return SGS_ILLEGAL_ARGUMENT;
    if (record->value.size < 6 || number(record->value.data, 2) < 0)
        return SGS_INVALID_RECORD;
    *marker = (sgs_end_transaction_marker){ stored == 0 ? SGS_CONTROL_ABORT : SGS_CONTROL_COMMIT,
                                            number(record->value.data + 2, 4) };
    return SGS_OK;
}

static void check_type(const sgs_record *record)
{
    sgs_control_type type;
    sgs_error err;
    int16_t id;
    int32_t stored;
    const bool is_good = plain_type(record, &stored);
    const sgs_status status = sgs_control_record_type(record, &type, &id, &err);
    FUZZ_CHECK(status == (is_good ? SGS_OK : SGS_INVALID_RECORD));
    if (!is_good) {
        FUZZ_CHECK(err.status == status && err.message[0] != '\0');
        return;
    }
    const bool is_known = stored >= 0 && stored < TYPES_COUNT;
    FUZZ_CHECK(id == stored && type == (is_known ? (sgs_control_type)stored : SGS_CONTROL_UNKNOWN));
    FUZZ_CHECK((strcmp(sgs_control_type_name(type), "UNKNOWN") == 0) == !is_known);
    if (!is_known)
        return;
    uint8_t key[SGS_CONTROL_KEY_BYTES];
    sgs_control_record_store_key(type, key);
    FUZZ_CHECK(memcmp(key + 2, record->key.data + 2, 2) == 0);
    FUZZ_CHECK(number(record->key.data, 2) != 0 || memcmp(key, record->key.data, sizeof key) == 0);
}

static void check_marker(const sgs_record *record)
{
    sgs_end_transaction_marker marker, plain;
    sgs_error err;
    const sgs_status expected = plain_marker(record, &plain);
    const sgs_status status = sgs_control_record_end_transaction(record, &marker, &err);
    FUZZ_CHECK(status == expected);
    if (status != SGS_OK) {
        FUZZ_CHECK(err.status == status && err.message[0] != '\0');
        return;
    }
    FUZZ_CHECK(marker.type == plain.type && marker.coordinator_epoch == plain.coordinator_epoch);
    uint8_t value[SGS_END_TRANSACTION_VALUE_BYTES];
    sgs_control_record_store_marker(marker.coordinator_epoch, value);
    FUZZ_CHECK(memcmp(value + 2, record->value.data + 2, 4) == 0);
    FUZZ_CHECK(number(record->value.data, 2) != 0 || memcmp(value, record->value.data, sizeof value) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    const uint8_t wanted = fuzz_take_u8(&input);
    const size_t key_size = wanted < input.size ? wanted : input.size;
    const sgs_record record = {
        .offset = 7,
        .key = copy(input.bytes, key_size, (flags & NULL_KEY) != 0),
        .value = copy(input.bytes + key_size, input.size - key_size, (flags & NULL_VALUE) != 0),
    };
    check_type(&record);
    check_marker(&record);
    discard(record.key);
    discard(record.value);
    return 0;
}
