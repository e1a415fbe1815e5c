/* directory_fingerprint.h - one number for all names of a directory, to tell whether anything of it has changed.
 *
 * It covers of each name: the name, kind, size, inode and time of change, which nobody can set, and the bytes of small files:
 * file systems give times in steps, and two changes within one step have one time. Larger files are told by their times.
 * THREADS  no state. */
#ifndef SGS_IO_DIRECTORY_FINGERPRINT_H
#define SGS_IO_DIRECTORY_FINGERPRINT_H

#include "io/env.h"

enum { SGS_FINGERPRINT_CONTENT_BYTES = 4096 }; /* of a larger file the bytes are not read */

/** Fingerprint of a directory; the order in which the system lists the names is no matter.
 *  @param except  a name that does not count: that of the file which is to hold the number
 *  @param out     0 or more, written only when SGS_OK is returned
 *  @return also SGS_NOT_FOUND when a name went meanwhile, and any error of listing or reading */
sgs_status sgs_directory_fingerprint(const sgs_env *env, int directory_fd, const char *except, int64_t *out,
                                     sgs_error *err);

#endif
