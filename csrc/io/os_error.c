/* os_error.c - from errno to a status and a sentence. */
#include "io/os_error.h"

#include <errno.h>
#include <stdio.h>

sgs_status sgs_os_error_status(int os_error, sgs_status otherwise)
{
    SGS_EXPECT(os_error > 0 && otherwise != SGS_OK);
    switch (os_error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return SGS_DISK_FULL;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOLCK:
        return SGS_RESOURCE;
    case EROFS:
    case EACCES:
    case EPERM:
    case ETXTBSY:
        return SGS_PERMISSION;
    case ENOENT:
        return SGS_NOT_FOUND;
    case EEXIST:
        return SGS_ALREADY_EXISTS;
    case ENOTDIR:
    case EISDIR:
    case ELOOP: /* a link where none is followed [DUR-99] */
    case ENXIO: /* a socket */
        return SGS_NOT_A_LOG;
    case ENOTEMPTY:
        return SGS_ILLEGAL_STATE;
    case ENAMETOOLONG:
        return SGS_ILLEGAL_ARGUMENT;
    default:
        return otherwise;
    }
}

/* What a status has one sentence for, though there is more to say. */
static const char *reason(int os_error, sgs_status status)
{
    switch (os_error) {
    case EROFS:
        return "the file system is read-only";
    case EFBIG:
        return "the file would be larger than this process, or the file system, allows";
    case EDQUOT:
        return "the disk quota is used up";
    case EISDIR:
        return "it is a directory, expected a regular file";
    case ENXIO:
        return "it is a socket or device, expected a regular file";
    case ELOOP:
        return "a loop of symbolic links, or one where none is followed";
    default:
        return sgs_status_text(status);
    }
}

sgs_status sgs_fail_os(sgs_error *err, sgs_status status, int os_error, const char *doing, const char *file)
{
    SGS_EXPECT(status != SGS_OK && os_error > 0);
    /* The system's own text is left to the caller's language (os.strerror): asking for it here depends on the locale. */
    (void)sgs_fail(err, status, "cannot %s: %s (errno %d)", doing, reason(os_error, status), os_error);
    err->os_error = os_error;
    if (os_error == EISDIR || os_error == ENXIO) {
        (void)snprintf(err->found, sizeof err->found, "%s", os_error == EISDIR ? "a directory" : "a socket or device");
        (void)snprintf(err->expected, sizeof err->expected, "a regular file");
    }
    return sgs_fail_in_file(err, file);
}
