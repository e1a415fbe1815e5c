/* segment_answers.h - reads and look-ups by time on a segment, compared with a walk over all of its batches. */
#ifndef SGS_FUZZ_SEGMENT_ANSWERS_H
#define SGS_FUZZ_SEGMENT_ANSWERS_H

#include "fuzz/plain_segment.h"

typedef struct segment_question {
    sgs_log_segment *segment;
    const plain_segment *plain;
    const sgs_segment_context *context;
    int64_t offset; /* where the input wants to look; others are looked at as well */
    int32_t read_size;
    bool exactly;       /* the batches fill the .log, and its index leads to them: each read has one answer */
    bool times_exactly; /* so does the time index */
} segment_question;

void segment_answers_check(const segment_question *question);
/** One read, by `question->exactly`. */
void segment_answers_check_read(const segment_question *question, int64_t offset);
/** The greatest timestamp, by `question->times_exactly`. */
void segment_answers_check_max_timestamp(const segment_question *question);

#endif
