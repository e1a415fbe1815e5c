/* record_section.c - from the bytes of a batch to a reader of its records. */
#include "record/record_section.h"

#include <inttypes.h>

#include "record/legacy_records.h"
#include "record/record_parse.h"

/* What the header must hold before the records are looked at [DUR-87, DUR-89, DUR-95]. */
static sgs_status check_header(const sgs_batch_header *batch, sgs_error *err)
{
    if (batch->base_offset < 0 || batch->last_offset < batch->base_offset || batch->last_offset > SGS_MAX_OFFSET)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ": a last offset of %" PRId64,
                        batch->base_offset, batch->last_offset);
    if (batch->records_count < 0 && batch->magic == 2)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ": a records count of %" PRId32,
                        batch->base_offset, batch->records_count);
    if (batch->records_count > 0 && sgs_batch_is_control(batch) && sgs_batch_codec(batch) != SGS_CODEC_NONE)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch at offset %" PRId64 ": control records compressed with %s",
                        batch->base_offset, sgs_codec_name(sgs_batch_codec(batch)));
    return SGS_OK;
}

sgs_status sgs_record_section_check_crc(const sgs_batch_header *header, const uint8_t *batch, sgs_error *err)
{
    if (sgs_batch_check(batch, (size_t)header->size_bytes, -1, err) == SGS_OK)
        return SGS_OK;
    return sgs_say(err, "batch at offset %" PRId64 ": its CRC is not that of its bytes: %s", header->base_offset,
                   err->found);
}

/* Magic, CRC (when asked), and a header that makes sense [DUR-87, DUR-89, DUR-95]. */
static sgs_status check_batch(const sgs_batch_header *header, const uint8_t *batch, bool check_crc, sgs_error *err)
{
    if (header->magic < 0 || header->magic > 2)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch at offset %" PRId64 ": magic %d, expected 0 to 2",
                        header->base_offset, header->magic);
    if (check_crc) {
        const sgs_status status = sgs_record_section_check_crc(header, batch, err);
        if (status != SGS_OK)
            return status;
    }
    return check_header(header, err);
}

sgs_status sgs_record_section_open(const uint8_t *batch, size_t size, bool check_crc, const sgs_codec_table *codecs,
                                   sgs_buffer *scratch, sgs_record_reader *reader, sgs_error *err)
{
    sgs_batch_header header;
    sgs_status status = sgs_batch_header_load(batch, size, -1, &header, err);
    if (status != SGS_OK)
        return status;
    status = check_batch(&header, batch, check_crc, err);
    if (status != SGS_OK)
        return status;

    if (header.magic < 2)
        return sgs_legacy_section_open(batch, size, codecs, scratch, reader, err);
    const uint8_t *section = batch + SGS_BATCH_HEADER_BYTES;
    size_t section_size = (size_t)header.size_bytes - SGS_BATCH_HEADER_BYTES;
    int64_t max_record_bytes = INT64_MAX;
    if (header.records_count == 0) {
        section_size = 0; /* nothing behind the header is looked at [format.md 4.5] */
    } else if (sgs_batch_codec(&header) != SGS_CODEC_NONE) {
        sgs_buffer_clear(scratch);
        status = sgs_codec_decompress(codecs, sgs_batch_codec(&header), section, section_size, scratch, err);
        if (status != SGS_OK)
            return status;
        section = scratch->data;
        section_size = scratch->size;
        max_record_bytes = (int64_t)codecs->max_record_bytes;
    }
    if ((size_t)header.records_count > section_size / SGS_RECORD_MIN_BYTES)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ": %" PRId32 " records in %zu bytes",
                        header.base_offset, header.records_count, section_size);
    sgs_record_reader_init(reader, &header, section, section_size);
    reader->max_record_bytes = max_record_bytes;
    return SGS_OK;
}
