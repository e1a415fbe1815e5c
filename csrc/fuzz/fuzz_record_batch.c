/* The first 61 bytes of anything may be taken for a batch header. It is read or refused, each field is what stands in its
 * place, and stored again it is the same bytes; stamping in place changes the stamped fields and nothing else.
 * [format.md 3, 4, 4.6; DUR-85, DUR-86]
 * INPUT   1 byte of flags, 8 bytes to stamp, then the batch.   ORACLE  the table of fields, a byte at a time. */
#include "record/record_batch.h"

#include <string.h>

#include "base/crc32.h"
#include "base/crc32c.h"
#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"

enum { AS_IT_IS = 1, LOG_APPEND_TIME = 2, POSITION = 77 };

static int64_t number(const uint8_t *at, unsigned width) /* big-endian, signed */
{
    uint64_t value = (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (unsigned i = 0; i < width; ++i)
        value = value << 8 | at[i];
    return (int64_t)value;
}

static bool plain_peek(const uint8_t *batch, size_t size)
{
    if (size < 17)
        return false;
    const bool is_legacy = number(batch + 16, 1) < 2;
    const int64_t length = number(batch + 8, 4);
    return length >= (is_legacy ? 14 : 49) && length <= INT32_MAX - 12 && size >= (is_legacy ? 26 : 61);
}

static void check_fields(const uint8_t *batch, const sgs_batch_header *header)
{
    static const uint8_t zeros[sizeof header->padding];
    const int8_t magic = (int8_t)batch[16];
    FUZZ_CHECK(header->position == POSITION && header->magic == magic);
    FUZZ_CHECK(header->base_offset == number(batch, 8) && header->size_bytes == 12 + number(batch + 8, 4));
    FUZZ_CHECK(memcmp(header->padding, zeros, sizeof zeros) == 0);
    if (magic < 2) {
        FUZZ_CHECK(header->last_offset == header->base_offset && header->producer_id == -1);
        FUZZ_CHECK(header->max_timestamp == (magic == 1 ? number(batch + 18, 8) : -1));
        FUZZ_CHECK(header->base_timestamp == header->max_timestamp && header->base_sequence == -1);
        FUZZ_CHECK(header->records_count == ((batch[17] & 7) == 0 ? 1 : -1) && header->producer_epoch == -1);
        FUZZ_CHECK(header->attributes == batch[17] && header->partition_leader_epoch == -1);
        FUZZ_CHECK(header->crc == (uint32_t)number(batch + 12, 4));
        return;
    }
    int64_t last_offset;
    if (__builtin_add_overflow(number(batch, 8), number(batch + 23, 4), &last_offset))
        last_offset = number(batch + 23, 4) < 0 ? INT64_MIN : INT64_MAX;
    FUZZ_CHECK(header->last_offset == last_offset && header->partition_leader_epoch == number(batch + 12, 4));
    FUZZ_CHECK(header->crc == (uint32_t)number(batch + 17, 4) && header->attributes == number(batch + 21, 2));
    FUZZ_CHECK(header->base_timestamp == number(batch + 27, 8) && header->max_timestamp == number(batch + 35, 8));
    FUZZ_CHECK(header->producer_id == number(batch + 43, 8) && header->producer_epoch == number(batch + 51, 2));
    FUZZ_CHECK(header->base_sequence == number(batch + 53, 4) && header->records_count == number(batch + 57, 4));
    if (magic != 2 || last_offset - number(batch + 23, 4) != number(batch, 8))
        return;
    uint8_t again[SGS_BATCH_HEADER_BYTES];
    sgs_batch_header_store(header, again);
    FUZZ_CHECK(memcmp(again, batch, sizeof again) == 0);
}

static void check_reading(const uint8_t *batch, size_t size)
{
    sgs_batch_header peeked, loaded;
    sgs_error err;
    const bool is_header = plain_peek(batch, size);
    FUZZ_CHECK(sgs_batch_header_peek(batch, size, POSITION, &peeked, &err) ==
               (is_header ? SGS_OK : SGS_CORRUPT_RECORD));
    FUZZ_CHECK(is_header || (err.position == POSITION && err.found[0] != '\0' && err.expected[0] != '\0'));
    const bool is_whole = is_header && (int64_t)size >= 12 + number(batch + 8, 4);
    FUZZ_CHECK(sgs_batch_header_load(batch, size, POSITION, &loaded, &err) == (is_whole ? SGS_OK : SGS_CORRUPT_RECORD));
    if (is_header)
        check_fields(batch, &peeked);
    FUZZ_CHECK(!is_whole || memcmp(&peeked, &loaded, sizeof loaded) == 0);
    if (size < SGS_BATCH_PREFIX_BYTES)
        return;
    int32_t first_size;
    const int64_t length = number(batch + 8, 4);
    const bool is_sized = length >= 14 && length <= INT32_MAX - 12 && batch[16] <= 2;
    FUZZ_CHECK(sgs_batch_first_size(batch, &first_size, &err) == (is_sized ? SGS_OK : SGS_CORRUPT_RECORD));
    FUZZ_CHECK(!is_sized || first_size == 12 + length);
}

static void check_crc(const uint8_t *batch, size_t size)
{
    sgs_error err;
    const bool is_legacy = size > 16 && number(batch + 16, 1) < 2;
    bool is_right = size >= (is_legacy ? 26 : 61);
    if (is_right && is_legacy)
        is_right = (uint32_t)number(batch + 12, 4) == sgs_crc32(0, batch + 16, size - 16);
    else if (is_right)
        is_right = (uint32_t)number(batch + 17, 4) == sgs_crc32c_portable(0, batch + 21, size - 21);
    FUZZ_CHECK(sgs_batch_check(batch, size, POSITION, &err) == (is_right ? SGS_OK : SGS_CORRUPT_RECORD));
    FUZZ_CHECK(is_right || err.position == POSITION);
}

/* Every byte outside [from, to) is as before; the CRC may change where it has to. */
static void check_only(const uint8_t *now, const uint8_t *before, size_t size, size_t from, size_t to)
{
    for (size_t i = 0; i < size; ++i)
        FUZZ_CHECK(now[i] == before[i] || (i >= from && i < to));
}

static void check_stamping(uint8_t *batch, size_t size, int64_t value, bool log_append_time)
{
    uint8_t *const before = malloc(size);
    sgs_error err;
    FUZZ_CHECK(before != NULL);
    memcpy(before, batch, size);
    const bool was_right = sgs_batch_check(batch, size, 0, &err) == SGS_OK;
    sgs_batch_set_last_offset(batch, value);
    check_only(batch, before, size, 0, 8);
    FUZZ_CHECK((uint64_t)number(batch, 8) + (uint64_t)number(batch + 23, 4) == (uint64_t)value);
    memcpy(batch, before, 8);
    sgs_batch_set_leader_epoch(batch, (int32_t)value);
    check_only(batch, before, size, 12, 16);
    FUZZ_CHECK(number(batch + 12, 4) == (int32_t)value);
    FUZZ_CHECK((sgs_batch_check(batch, size, 0, &err) == SGS_OK) == was_right); /* neither is under the CRC */
    memcpy(batch, before, size);
    sgs_batch_set_max_timestamp(batch, size, log_append_time, value);
    const bool was_log_append_time = (before[22] >> 3 & 1) != 0;
    if (was_log_append_time == log_append_time && number(before + 35, 8) == value) {
        FUZZ_CHECK(memcmp(batch, before, size) == 0);
    } else {
        FUZZ_CHECK(memcmp(batch, before, 17) == 0 && memcmp(batch + 23, before + 23, 12) == 0);
        FUZZ_CHECK(memcmp(batch + 43, before + 43, size - 43) == 0);
        FUZZ_CHECK(number(batch + 35, 8) == value && batch[21] == 0);
        FUZZ_CHECK(batch[22] == ((before[22] & 0x77) | (log_append_time ? 8 : 0)));
        FUZZ_CHECK(sgs_batch_check(batch, size, 0, &err) == SGS_OK);
    }
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    const int64_t value = (int64_t)fuzz_take_u64(&input);
    uint8_t *const batch = malloc(input.size + 1);
    FUZZ_CHECK(batch != NULL);
    if (input.size > 0)
        memcpy(batch + 1, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        fuzz_mend_batch(batch + 1, input.size);
    check_reading(batch + 1, input.size);
    check_crc(batch + 1, input.size);
    if (input.size >= SGS_BATCH_HEADER_BYTES && batch[1 + 16] == 2)
        check_stamping(batch + 1, input.size, value, (flags & LOG_APPEND_TIME) != 0);
    free(batch);
    return 0;
}
