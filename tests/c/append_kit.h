/* append_kit.h - batches and message sets to give to the validator and the filter, and a look at what came out. */
#ifndef SGS_TEST_APPEND_KIT_H
#define SGS_TEST_APPEND_KIT_H

#include "record/batch_builder.h"
#include "record/batch_scan.h"

typedef struct append_kit {
    sgs_buffer data;       /* batches so far */
    sgs_batch_table table; /* of them, after append_kit_scan */
    sgs_error err;
} append_kit;

void append_kit_init(append_kit *kit);
void append_kit_deinit(append_kit *kit);
/** A batch of `count` records "k<i>" = "v", with one header each when `header` is true.
 *  @param timestamps  one per record; NULL: EXAMPLE_T + i */
void append_kit_add(append_kit *kit, const sgs_batch_options *options, int count, const int64_t *timestamps,
                    bool header);
/** The same as messages of magic 0 or 1 with the offsets 0, 1 ...: one entry when there is a codec. */
void append_kit_add_legacy(append_kit *kit, int8_t magic, int codec, int count);
/** Find the batches; CRCs are not looked at. @return how many there are */
size_t append_kit_scan(append_kit *kit);
sgs_batch_header *append_kit_rows(append_kit *kit);

/** Read every record of a run of batches, CRCs checked, and compare: offsets from `first_offset` on without a gap,
 *  timestamps (NULL: EXAMPLE_T + i, modulo `period`), keys "k<i>" and values "v". @return whether all was as it should */
bool append_kit_expect(const uint8_t *data, size_t size, int64_t first_offset, int count, int period,
                       const int64_t *timestamps);

#endif
