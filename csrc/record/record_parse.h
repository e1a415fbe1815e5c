/* record_parse.h - the one parser of magic 2 records, inlined into the record reader and the column decoder [format.md
 * 5].
 *
 * Every varint read is bounded by the section's end, every length by the record's own end. A record's varints are short
 * and of the same size as its neighbour's, so the branches below are predicted; the next record begins at a place that
 * only the size field decides, so records do not wait for each other. */
#ifndef SGS_RECORD_RECORD_PARSE_H
#define SGS_RECORD_RECORD_PARSE_H

#include "base/varint.h"
#include "record/record.h"

enum { SGS_RECORD_MIN_BYTES = 7 }; /* size, attributes, two deltas, two null lengths, header count */

typedef struct sgs_record_fields {
    const uint8_t *key, *value; /* NULL when null */
    const uint8_t *headers;     /* checked; they end at `next` */
    const uint8_t *next;        /* the byte behind the record */
    int64_t timestamp_delta;
    int32_t offset_delta;
    int32_t key_size, value_size; /* -1 = null */
    int32_t headers_count;
    int8_t attributes;
} sgs_record_fields;

/* Why bytes are not a record; for messages. */
typedef const char *sgs_record_fault;

/** Fill `err`: the batch's offset, which of its records, and what is wrong. @return SGS_INVALID_RECORD */
sgs_status sgs_record_fail(const sgs_batch_header *batch, int32_t index, sgs_record_fault fault, sgs_error *err);

/** Fill found and expected of `err` for a record above the limit [DUR-92]; the caller names it with sgs_say.
 *  @return SGS_LIMIT_EXCEEDED */
sgs_status sgs_record_fail_size(int64_t size_bytes, int64_t limit, sgs_error *err);

/* Which sizes are null: -1 alone [DUR-91], or any below 0 as for Kafka's readers [format.md 5]. */
typedef enum sgs_null_sizes { SGS_NULL_IS_MINUS_ONE, SGS_NULL_IS_NEGATIVE } sgs_null_sizes;

/** Check `count` headers that must end exactly at `end`. @return NULL when they are good */
sgs_record_fault sgs_record_check_headers(const uint8_t *at, const uint8_t *end, int32_t count, sgs_null_sizes nulls);

/* As the readers of base/varint.h, but the slow call gets a copy of the position, so that the position itself can live
 * in a register. */
static inline bool sgs_parse_varint(const uint8_t **next, const uint8_t *end, int32_t *value)
{
    const uint8_t *at = *next;
    if (end - at >= 2) {
        const uint32_t first = at[0];
        if (first < 0x80) {
            *value = sgs_zigzag_decode32(first);
            *next = at + 1;
            return true;
        }
        const uint32_t second = at[1];
        if (second < 0x80) {
            *value = sgs_zigzag_decode32((first & 0x7F) | (second << 7));
            *next = at + 2;
            return true;
        }
    }
    uint32_t pattern;
    if (!sgs_uvarint_read_long(&at, end, &pattern))
        return false;
    *value = sgs_zigzag_decode32(pattern);
    *next = at;
    return true;
}

static inline bool sgs_parse_varlong(const uint8_t **next, const uint8_t *end, int64_t *value)
{
    const uint8_t *at = *next;
    if (end - at >= 3) {
        const uint64_t first = at[0];
        if (first < 0x80) {
            *value = sgs_zigzag_decode64(first);
            *next = at + 1;
            return true;
        }
        const uint64_t second = at[1];
        if (second < 0x80) {
            *value = sgs_zigzag_decode64((first & 0x7F) | (second << 7));
            *next = at + 2;
            return true;
        }
        const uint64_t third = at[2];
        if (third < 0x80) { /* a batch that spans seconds to minutes */
            *value = sgs_zigzag_decode64((first & 0x7F) | ((second & 0x7F) << 7) | (third << 14));
            *next = at + 3;
            return true;
        }
    }
    uint64_t pattern;
    if (!sgs_uvarlong_read_long(&at, end, &pattern))
        return false;
    *value = sgs_zigzag_decode64(pattern);
    *next = at;
    return true;
}

/** Parse the record at `at`; `nulls` is a constant where speed matters. @return NULL and `*fields`, or what is wrong */
static inline sgs_record_fault sgs_record_parse_by(sgs_null_sizes nulls, const uint8_t *at, const uint8_t *section_end,
                                                   sgs_record_fields *fields)
{
    const int32_t least_size = nulls == SGS_NULL_IS_NEGATIVE ? INT32_MIN : -1;
    int32_t size;
    if (!sgs_parse_varint(&at, section_end, &size))
        return "the section ends, or a number is too long, where a record's size should be";
    if (size < 0)
        return "a record has a negative size";
    if (size > section_end - at)
        return "a record is larger than what is left of its batch";
    const uint8_t *const end = at + size;
    if (size < SGS_RECORD_MIN_BYTES - 1)
        return "a record is smaller than its fields";
    fields->next = end;
    fields->attributes = (int8_t)*at++;
    if (!sgs_parse_varlong(&at, section_end, &fields->timestamp_delta))
        return "a record's timestamp delta is not a number";
    if (!sgs_parse_varint(&at, section_end, &fields->offset_delta))
        return "a record's offset delta is not a number";

    int32_t key_size;
    if (!sgs_parse_varint(&at, section_end, &key_size))
        return "a key size is not a number";
    if (key_size < least_size || key_size > end - at) /* [DUR-91]; also when a number above went beyond the record */
        return "a key reaches beyond its record";
    fields->key_size = key_size < 0 ? -1 : key_size;
    fields->key = key_size < 0 ? NULL : at;
    at += key_size < 0 ? 0 : key_size;

    int32_t value_size;
    if (!sgs_parse_varint(&at, section_end, &value_size))
        return "a value size is not a number";
    if (value_size < least_size || value_size > end - at)
        return "a value reaches beyond its record";
    fields->value_size = value_size < 0 ? -1 : value_size;
    fields->value = value_size < 0 ? NULL : at;
    at += value_size < 0 ? 0 : value_size;

    if (!sgs_parse_varint(&at, section_end, &fields->headers_count))
        return "a header count is not a number";
    fields->headers = at;
    if (fields->headers_count != 0)
        return sgs_record_check_headers(at, end, fields->headers_count, nulls);
    if (at != end)
        return "a record does not end at its declared size";
    return NULL;
}

static inline sgs_record_fault sgs_record_parse(const uint8_t *at, const uint8_t *section_end,
                                                sgs_record_fields *fields)
{
    return sgs_record_parse_by(SGS_NULL_IS_MINUS_ONE, at, section_end, fields);
}

#endif
