/* plain_scan.h - the scanners of format.md 9 written out plainly, a byte at a time: what fuzz targets compare with. */
#ifndef SGS_FUZZ_PLAIN_SCAN_H
#define SGS_FUZZ_PLAIN_SCAN_H

#include "record/batch_scan.h"

/** Big-endian, signed. */
int64_t plain_number(const uint8_t *at, int width);
/** Of a whole batch of any magic. */
bool plain_crc_is_right(const uint8_t *batch, int64_t size);

typedef struct plain_batch {
    int64_t position, size;
    int64_t base_offset, last_offset; /* saturated */
    int64_t max_timestamp;
    int64_t epoch; /* -1 = none */
    int8_t magic;
} plain_batch;

typedef struct plain_scan {
    sgs_scan_stop stop;
    int64_t valid_bytes, next_offset, batches_count, last_epoch;
} plain_scan;

/** @param batches  gets the first `room` good batches; may be NULL */
plain_scan plain_scan_run(const sgs_scan_options *options, const uint8_t *data, int64_t size, plain_batch *batches,
                          int64_t room);

#endif
