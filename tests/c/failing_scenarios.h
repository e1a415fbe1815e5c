/* failing_scenarios.h - the operations of the core that meet the disk, each as a scenario of failing_calls.h. Lists end with
 * one without a name. */
#ifndef SGS_TEST_FAILING_SCENARIOS_H
#define SGS_TEST_FAILING_SCENARIOS_H

#include "failing_calls.h"

extern const failing_scenario failing_writers[];  /* create, append, cut, seal, flush, close */
extern const failing_scenario failing_readers[];  /* reads, look-ups, listings, what is sent */
extern const failing_scenario failing_repairs[];  /* recoveries, indexes that are damaged, Kafka's profile */
extern const failing_scenario failing_removals[]; /* renames, deletions, descriptors and indexes given up */

/* for failing_calls_explore_memory */
sgs_status failing_build(sgs_memory memory, sgs_error *err);
sgs_status failing_build_snappy(sgs_memory memory, sgs_error *err);
sgs_status failing_build_legacy(sgs_memory memory, sgs_error *err);
sgs_status failing_validate(sgs_memory memory, sgs_error *err);
sgs_status failing_validate_run(sgs_memory memory, sgs_error *err);
sgs_status failing_note(sgs_memory memory, sgs_error *err);
sgs_status failing_note_in_conversion(sgs_memory memory, sgs_error *err);
sgs_status failing_filter(sgs_memory memory, sgs_error *err);
sgs_status failing_iterate(sgs_memory memory, sgs_error *err);
sgs_status failing_scan(sgs_memory memory, sgs_error *err);
sgs_status failing_decode(sgs_memory memory, sgs_error *err);
sgs_status failing_decode_for_spark(sgs_memory memory, sgs_error *err);
sgs_status failing_decode_headers(sgs_memory memory, sgs_error *err);
sgs_status failing_encode(sgs_memory memory, sgs_error *err);
sgs_status failing_rebuild(sgs_memory memory, sgs_error *err);
sgs_status failing_clean(sgs_memory memory, sgs_error *err);
sgs_status failing_offset_map(sgs_memory memory, sgs_error *err);
sgs_status failing_latest(sgs_memory memory, sgs_error *err);

#endif
