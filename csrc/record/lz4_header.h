/* lz4_header.h - the checksum byte of an LZ4 frame header, right and as Kafka got it wrong at magic 0 [format.md 8.3].
 *
 *     04 22 4d 18 | FLG | BD | content size, 8 bytes when FLG has bit 3 | HC
 * HC is the second byte of xxHash32 over FLG, BD and content size. Kafka's first encoder hashed the magic number too;
 * message sets of magic 0 keep that value, and readers of magic 0 do not look at it (Kafka KafkaLZ4BlockInputStream). */
#ifndef SGS_RECORD_LZ4_HEADER_H
#define SGS_RECORD_LZ4_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Store the right byte (`historic` false) or the historic one. Bytes that do not begin as a frame stay as they are. */
void sgs_lz4_header_stamp(uint8_t *frame, size_t size, bool historic);

#endif
