/* append_lane.h - the short way of an append for which nothing has to be decided [D11].
 *
 * The layers above know the state of a log: its end, its latest leader epoch, when the active segment has had enough. They
 * put it into a lane, and the next append that fits goes down in one call: the same checks, the same bytes, the same
 * counters. Whatever needs a decision - a roll, another epoch, a producer, a codec, batches to be split, anything that is to
 * be refused - is not taken, and nothing was changed: the layers do it, and their errors are the only ones.
 * Whoever changes the log in another way disarms the lane first. THREADS  under the append lock. */
#ifndef SGS_SEGMENT_APPEND_LANE_H
#define SGS_SEGMENT_APPEND_LANE_H

#include "record/append_analysis.h"
#include "record/log_validator.h"
#include "segment/log_segment.h"

typedef struct sgs_append_lane {
    /* where the log stands; `taken` moves it */
    int64_t next_offset;
    int32_t position; /* where the log ends in the active segment */
    /* what decides that a roll is due [SEG-13], and which batches are too large */
    int64_t max_segment_ms;
    int32_t max_segment_bytes, max_batch_bytes;
    int32_t leader_epoch;
    sgs_batch_table table; /* kept memory */
} sgs_append_lane;

typedef struct sgs_lane_append { /* what the layers answer with */
    bool taken;
    bool poisoned; /* the write failed and could not be undone */
    int64_t first_offset, last_offset, max_timestamp, records_count;
} sgs_lane_append;

void sgs_append_lane_init(sgs_append_lane *lane, sgs_memory memory);
void sgs_append_lane_deinit(sgs_append_lane *lane);

/** One batch as a producer sends it: checked as by the validator's options, its header stamped in a copy, written as that
 *  copy and the caller's bytes. These must not change until the call returns, so that what is written is what was checked:
 *  Python hands down `bytes` alone.
 *  @return SGS_OK, also when it was not taken; that of the write */
sgs_status sgs_append_lane_leader(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                                  const uint8_t *data, size_t size, int64_t now_ms, sgs_lane_append *answer,
                                  sgs_error *err);
/** Batches of our own builder, in their table's row: stamped where they are. */
sgs_status sgs_append_lane_own(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                               uint8_t *data, size_t size, sgs_batch_header *row, int64_t now_ms,
                               sgs_lane_append *answer, sgs_error *err);
/** Batches of another log, as they are: without a gap, all of the lane's epoch. */
sgs_status sgs_append_lane_follower(sgs_append_lane *lane, sgs_log_segment *segment, const uint8_t *data, size_t size,
                                    int32_t leader_epoch, int64_t now_ms, sgs_lane_append *answer, sgs_error *err);

#endif
