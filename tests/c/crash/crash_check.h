/* crash_check.h - what is looked at after a crash: the records; thoroughly, also indexes, a second open, a crash of the
 * recovery, and how the log goes on. */
#ifndef SGS_TEST_CRASH_CRASH_CHECK_H
#define SGS_TEST_CRASH_CRASH_CHECK_H

#include "crash_run.h"

/* What a log may be, as it is found; how it is opened, and goes on. */
typedef struct crash_expectation {
    const small_log_settings *settings;
    int32_t epoch;
    uint64_t seed; /* of the crash of the recovery */
    size_t ways_count;
    model_state ways[MODEL_WAYS_MAX];
} crash_expectation;

typedef struct crash_checker {
    const sgs_env *base;
    sgs_buffer found; /* of the log that was looked at last */
    char why[CRASH_WHY_BYTES];
} crash_checker;

void crash_checker_init(crash_checker *checker, const sgs_env *base);
void crash_checker_deinit(crash_checker *checker);

/** The disk that a crash of a run leaves. @return NULL, and `why`, when it cannot be made */
sgs_sim_disk *crash_image_of(crash_checker *checker, const crash_run *run, const sgs_sim_crash *crash);
/** What may be there after a crash of a run. */
void crash_expect(crash_expectation *expected, const crash_run *run, const sgs_sim_crash *crash);
/** Open the log on an image as the next process would, read it, and compare it with what may be there [DUR-1, DUR-2, DUR-5].
 *  @param thoroughly  also: indexes lead to the records [DUR-53]; what was found is on the disk, and another open changes
 *                     nothing; a crash of the recovery leaves as much [DUR-56]; an append goes on behind it
 *  @return false, and `why` */
bool crash_check_image(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *image, bool thoroughly);

/* ---- of a log that is open ---- */

/** All of its batches that can be read, in order, into `found`. */
sgs_status crash_read_all(crash_checker *checker, const small_log *log, sgs_error *err);
/** Every offset and every timestamp leads to its batch [DUR-53]. @return false, and `why` */
bool crash_check_look_ups(crash_checker *checker, const small_log *log, const model_state *state);
/** @return which of the states it is, the number of them when it is none, and `why` */
size_t crash_way_of(crash_checker *checker, const model_found *found, const model_state *ways, size_t count,
                    const char *when);

#endif
