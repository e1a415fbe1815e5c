/* status.h - one result type for every fallible function of the core.
 *
 * A function that can fail returns sgs_status and takes `sgs_error *err` last. `err` is never NULL; it is filled by
 * sgs_fail() and its relatives and holds nothing meaningful when SGS_OK is returned. Results go through out-pointers
 * that are written only on SGS_OK. One X-macro makes the enum, the names and the texts; segstore/status_errors.py has
 * one exception class per name (a test compares the two lists).
 *
 * Messages hold names, offsets, positions and sizes, never payload bytes [DUR-105]. */
#ifndef SGS_BASE_STATUS_H
#define SGS_BASE_STATUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SGS_STATUS_MAP(X)                                                                                        \
    X(OK, "no error")                                                                                            \
    /* bytes are wrong */                                                                                        \
    X(CORRUPT_RECORD, "a batch is damaged")                      /* Kafka CorruptRecordException */              \
    X(INVALID_RECORD, "a record or batch has a wrong structure") /* Kafka InvalidRecordException */              \
    X(CORRUPT_INDEX, "an index is damaged")                      /* Kafka CorruptIndexException */               \
    X(CORRUPT_LOG, "acknowledged data is damaged")               /* [DUR-51] */                                  \
    X(UNSUPPORTED_FORMAT, "a format this version does not know") /* [DUR-95] */                                  \
    X(LIMIT_EXCEEDED, "a configured limit was exceeded")         /* [DUR-92] */                                  \
    X(CODEC, "compressed data cannot be decoded")                                                                \
    X(CODEC_MISSING, "no provider for a compression codec")                                                      \
    /* the caller is wrong */                                                                                    \
    X(ILLEGAL_ARGUMENT, "an argument is out of range")             /* Kafka IllegalArgumentException */          \
    X(ILLEGAL_STATE, "the object is in the wrong state")           /* Kafka IllegalStateException */             \
    X(INVALID_OFFSET, "an offset does not increase")               /* Kafka InvalidOffsetException */            \
    X(INDEX_OFFSET_OVERFLOW, "an offset does not fit an index")    /* Kafka IndexOffsetOverflowException */      \
    X(SEGMENT_OFFSET_OVERFLOW, "an offset does not fit a segment") /* Kafka LogSegmentOffsetOverflowException */ \
    X(CLOSED, "the object is closed")                                                                            \
    /* the environment failed [DUR-30..DUR-42] */                                                                \
    X(NOT_FOUND, "a file or directory does not exist")                                                           \
    X(DIRECTORY_REPLACED, "another directory is at the path")                                                    \
    X(ALREADY_EXISTS, "a file exists already")                                                                   \
    X(NOT_A_LOG, "not a log directory")                                                                          \
    X(PERMISSION, "permission denied")                                                                           \
    X(LOCKED, "locked by another writer")                                                                        \
    X(DISK_FULL, "no space left")                                                                                \
    X(RESOURCE, "out of memory or descriptors")                                                                  \
    X(READ_IO, "a read failed")                                                                                  \
    X(WRITE_IO, "a write failed")                                                                                \
    X(FSYNC_FAILED, "a sync failed")                                                                             \
    X(CLOSE_FAILED, "a close failed")                                                                            \
    X(SEND_FAILED, "the destination takes no more")                                                              \
    X(LOG_TRUNCATED, "the log became shorter") /* [DUR-77] */                                                    \
    X(CALLBACK, "a callback failed")           /* the exception is pending in the caller's language */           \
    X(INTERNAL, "an invariant of segstore is broken")

#define SGS_STATUS_ENUM(name, text) SGS_##name,
typedef enum sgs_status { SGS_STATUS_MAP(SGS_STATUS_ENUM) SGS_STATUS_COUNT } sgs_status;
#undef SGS_STATUS_ENUM

enum { SGS_ERROR_FILE_BYTES = 256, SGS_ERROR_TEXT_BYTES = 256, SGS_ERROR_VALUE_BYTES = 96 };

typedef struct sgs_error {
    sgs_status status;
    int32_t os_error;                     /* errno of the failed call, or 0 */
    int64_t position;                     /* byte in `file` or in the buffer, -1 when it does not apply */
    char file[SGS_ERROR_FILE_BYTES];      /* name relative to the partition directory, "" when there is none */
    char message[SGS_ERROR_TEXT_BYTES];   /* one sentence */
    char found[SGS_ERROR_VALUE_BYTES];    /* "" when it does not apply */
    char expected[SGS_ERROR_VALUE_BYTES]; /* "" when it does not apply */
} sgs_error;

#if defined(__GNUC__)
#define SGS_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#else
#define SGS_PRINTF(format_at, first_at)
#endif

/** Fill `err` with a status and a sentence; file, found and expected become empty, position -1.
 *  @return `status`, so that a caller can `return sgs_fail(...)` */
sgs_status sgs_fail(sgs_error *err, sgs_status status, const char *format, ...) SGS_PRINTF(3, 4);

/** Fill `err` for bad bytes: where they are, what was expected, what was found (formatted). The message is made of the
 *  last two.
 *  @param position  byte position in the file or buffer, -1 when it does not apply */
sgs_status sgs_fail_at(sgs_error *err, sgs_status status, int64_t position, const char *expected,
                       const char *found_format, ...) SGS_PRINTF(5, 6);

/** Fill `err` for something of more bytes than it may have; sgs_say gives it a better sentence. */
sgs_status sgs_fail_too_large(sgs_error *err, sgs_status status, uint64_t bytes, uint64_t limit);

/** Put another sentence into `err`, which somebody further down has filled; all else stays. @return err->status */
sgs_status sgs_say(sgs_error *err, const char *format, ...) SGS_PRINTF(2, 3);

/** Fill `err` for a fact that does not hold, in the function of that name. @return SGS_INTERNAL */
sgs_status sgs_fail_assertion(sgs_error *err, const char *fact, const char *function);

/** Note the file that `err` is about, unless one is noted already. Long names keep their end. @return err->status */
sgs_status sgs_fail_in_file(sgs_error *err, const char *file);

/** Return the status of `call` from the function around it, unless it is SGS_OK. */
#define SGS_TRY(call)                      \
    do {                                   \
        const sgs_status status_ = (call); \
        if (status_ != SGS_OK)             \
            return status_;                \
    } while (0)

/** @return "CORRUPT_RECORD" for SGS_CORRUPT_RECORD; "?" for a value outside the enum. */
const char *sgs_status_name(sgs_status status);
/** @return the text of SGS_STATUS_MAP; "?" for a value outside the enum. */
const char *sgs_status_text(sgs_status status);

/* Assertions are for our own mistakes, never for bytes from disk or arguments from Python [DUR-44]. In tests and fuzzing
 * (-DSGS_ASSERTIONS) one that fails prints and aborts; the core proper never does [DUR-43]. In wheels SGS_ASSERT returns
 * SGS_INTERNAL from the function around it, and the handle takes no more changes. SGS_EXPECT is for functions that
 * cannot fail, and for what every append or read would pay for: wheels do not check it once more. In segment/, index/ and
 * io/ there is at least one for every 40 lines (tests/tidy counts); each stands on one line, which coverage leaves out. */

/** For assertions: the caller must hold the flag; this tells whether any thread does. It takes a flag that is free. */
static inline bool sgs_is_held(atomic_flag *flag)
{
    return atomic_flag_test_and_set_explicit(flag, memory_order_relaxed);
}

#ifdef SGS_ASSERTIONS
_Noreturn void sgs_assert_failed(const char *fact, const char *file, int line);
#define SGS_EXPECT(fact) ((fact) ? (void)0 : sgs_assert_failed(#fact, __FILE__, __LINE__))
#define SGS_ASSERT(fact, err)     \
    do {                          \
        (void)sizeof((err) != 0); \
        SGS_EXPECT(fact);         \
    } while (0)
#else
#define SGS_EXPECT(fact) ((void)(0 && (fact))) /* compiled, so that it cannot rot, and never evaluated */
#define SGS_ASSERT(fact, err)                                  \
    do {                                                       \
        if (!(fact))                                           \
            return sgs_fail_assertion((err), #fact, __func__); \
    } while (0)
#endif

#endif
