/* append_writer.h - what the validator writes again: one builder, of the magic asked for, behind one face. */
#ifndef SGS_RECORD_APPEND_WRITER_H
#define SGS_RECORD_APPEND_WRITER_H

#include "record/batch_builder.h"
#include "record/legacy_builder.h"
#include "record/validate_rules.h"

typedef struct sgs_append_writer {
    const sgs_append_request *request;
    sgs_batch_builder current; /* magic 2 */
    sgs_legacy_builder legacy; /* magic 0 and 1 */
    int64_t next_offset;
    bool is_legacy;
} sgs_append_writer;

void sgs_append_writer_init(sgs_append_writer *writer, const sgs_append_request *request);
void sgs_append_writer_deinit(sgs_append_writer *writer);
/** Begin with the next offset of the result; producer, epoch and sequence are those of the header `first`.
 *  @return what the builders refuse [format.md 10] */
sgs_status sgs_append_writer_start(sgs_append_writer *writer, const sgs_batch_header *first, sgs_error *err);
/** Append the records of a checked batch, `limit` at most, at the next offsets.
 *  @return SGS_ILLEGAL_ARGUMENT also for headers below magic 2 */
sgs_status sgs_append_writer_add(sgs_append_writer *writer, const sgs_append_batch *batch, sgs_append_section section,
                                 int64_t limit, sgs_error *err);
/** Put what was written and its rows behind validator->output and count it into the result. */
sgs_status sgs_append_writer_finish(sgs_append_writer *writer, sgs_error *err);

#endif
