/* status.c - filling in errors. */
#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STATUS_NAME(name, text) #name,
#define STATUS_TEXT(name, text) text,
static const char *const status_names[] = { SGS_STATUS_MAP(STATUS_NAME) };
static const char *const status_texts[] = { SGS_STATUS_MAP(STATUS_TEXT) };
#undef STATUS_NAME
#undef STATUS_TEXT

static void reset(sgs_error *err, sgs_status status)
{
    err->status = status;
    err->os_error = 0;
    err->position = -1;
    err->file[0] = '\0';
    err->message[0] = '\0';
    err->found[0] = '\0';
    err->expected[0] = '\0';
}

sgs_status sgs_fail(sgs_error *err, sgs_status status, const char *format, ...)
{
    reset(err, status);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return status;
}

sgs_status sgs_fail_at(sgs_error *err, sgs_status status, int64_t position, const char *expected,
                       const char *found_format, ...)
{
    reset(err, status);
    err->position = position;
    (void)snprintf(err->expected, sizeof err->expected, "%s", expected);
    va_list arguments;
    va_start(arguments, found_format);
    (void)vsnprintf(err->found, sizeof err->found, found_format, arguments);
    va_end(arguments);
    /* the sentence does not name the position: who prints the error puts it in front, as `position` */
    (void)snprintf(err->message, sizeof err->message, "expected %s, found %s", err->expected, err->found);
    return status;
}

sgs_status sgs_fail_too_large(sgs_error *err, sgs_status status, uint64_t bytes, uint64_t limit)
{
    char expected[SGS_ERROR_VALUE_BYTES];
    (void)snprintf(expected, sizeof expected, "at most %" PRIu64 " bytes", limit);
    return sgs_fail_at(err, status, -1, expected, "%" PRIu64 " bytes", bytes);
}

sgs_status sgs_say(sgs_error *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->message, sizeof err->message, format, arguments);
    va_end(arguments);
    return err->status;
}

sgs_status sgs_fail_assertion(sgs_error *err, const char *fact, const char *function)
{
    return sgs_fail(err, SGS_INTERNAL, "an invariant of segstore is broken in %s: %s", function, fact);
}

sgs_status sgs_fail_in_file(sgs_error *err, const char *file)
{
    if (err->file[0] != '\0')
        return err->status; /* the innermost caller knows best */
    const size_t size = strlen(file);
    const size_t room = sizeof err->file - 1;
    const char *kept = size > room ? file + (size - room) : file;
    (void)snprintf(err->file, sizeof err->file, "%s", kept);
    return err->status;
}

const char *sgs_status_name(sgs_status status)
{
    return (unsigned)status < (unsigned)SGS_STATUS_COUNT ? status_names[status] : "?";
}

const char *sgs_status_text(sgs_status status)
{
    return (unsigned)status < (unsigned)SGS_STATUS_COUNT ? status_texts[status] : "?";
}

#ifdef SGS_ASSERTIONS
#include <stdlib.h>

_Noreturn void sgs_assert_failed(const char *fact, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, fact);
    abort();
}
#endif
