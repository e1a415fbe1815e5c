/* record_section.h - the bytes of a batch's records, whatever its codec: borrowed when plain, decompressed into a
 * scratch buffer otherwise. The one place where a batch is opened for its records [DUR-85: bounds, magic, CRC, then
 * structure]. */
#ifndef SGS_RECORD_RECORD_SECTION_H
#define SGS_RECORD_RECORD_SECTION_H

#include "record/codec.h"
#include "record/record.h"

/** Check a complete batch (CRC when asked), decompress its section into `scratch` (cleared first) when it has a codec,
 *  and start `reader` on the records. `scratch` and `batch` must outlive the reader. Messages of magic 0 and 1 are
 *  written again as records of magic 2 in `scratch` (legacy_records.h): reader->batch then has the offset of the first
 *  one and their count. Bytes behind the batch are not looked at. A record count above section bytes / 7 is refused
 *  before anything is sized by it [DUR-87]. */
sgs_status sgs_record_section_open(const uint8_t *batch, size_t size, bool check_crc, const sgs_codec_table *codecs,
                                   sgs_buffer *scratch, sgs_record_reader *reader, sgs_error *err);
/** Check the CRC of a complete batch whose records are not wanted. `header` is that of `batch`.
 *  @return SGS_OK, or SGS_CORRUPT_RECORD naming the batch's offset and both checksums */
sgs_status sgs_record_section_check_crc(const sgs_batch_header *header, const uint8_t *batch, sgs_error *err);

#endif
