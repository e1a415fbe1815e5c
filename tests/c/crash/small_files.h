/* small_files.h - checkpoints of the small log: each one number, written so that it is there whole or not at all [DUR-21]. */
#ifndef SGS_TEST_CRASH_SMALL_FILES_H
#define SGS_TEST_CRASH_SMALL_FILES_H

#include "io/env.h"

typedef struct small_file {
    const char *name;
    sgs_barrier content_barrier, name_barrier;
} small_file;

extern const small_file small_recovery_point, small_log_start;
extern const small_file small_contiguous_from; /* from where on no offset is missing [DUR-64] */
extern const small_file small_emptied_at;      /* a full truncation takes every .log away [DUR-18] */
extern const small_file small_clean_end;       /* where a log ended that was closed */

/** name.tmp, fsync. The number is believed once it has been put in place. */
sgs_status small_file_prepare(const sgs_env *env, int directory_fd, const small_file *file, int64_t number,
                              sgs_error *err);
/** Rename, fsync of the directory. */
sgs_status small_file_put(const sgs_env *env, int directory_fd, const small_file *file, sgs_error *err);
/** Both. */
sgs_status small_file_write(const sgs_env *env, int directory_fd, const small_file *file, int64_t number,
                            sgs_error *err);
/** @param number  -1 when there is no such file, or it is not whole */
sgs_status small_file_read(const sgs_env *env, int directory_fd, const small_file *file, int64_t *number,
                           sgs_error *err);
/** Unlink; one that is not there is fine. @param was_there  may be NULL */
sgs_status small_file_remove(const sgs_env *env, int directory_fd, const char *name, bool *was_there, sgs_error *err);

#endif
