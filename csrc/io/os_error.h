/* os_error.h - from errno to a status: what the caller may do about it decides, not the call that failed [DUR-30..DUR-40]. */
#ifndef SGS_IO_OS_ERROR_H
#define SGS_IO_OS_ERROR_H

#include "base/status.h"

/** @param otherwise  the operation's own status: SGS_READ_IO, SGS_WRITE_IO
 *  @return full disk, resource, permission and wrong kind of file by their own status, anything else `otherwise` */
sgs_status sgs_os_error_status(int os_error, sgs_status otherwise);

/** Fill `err`: "cannot <doing>: <text of the status> (errno <n>)", errno and the file. @return `status` */
sgs_status sgs_fail_os(sgs_error *err, sgs_status status, int os_error, const char *doing, const char *file);

#endif
