/* crash_script.h - scripts of operations on a small log, as text and as numbers.
 *
 *     append(2,70) flush roll truncate_to(4) kill
 *
 * is a script: an append is of so many records and at least so many bytes. */
#ifndef SGS_TEST_CRASH_CRASH_SCRIPT_H
#define SGS_TEST_CRASH_CRASH_SCRIPT_H

#include "small_log.h"

/* clang-format off */
#define CRASH_KINDS(X) \
    X(append) X(flush) X(roll) X(truncate_to) X(truncate_fully) X(delete_records) X(background) X(new_epoch) X(close) X(kill)
/* clang-format on */

#define CRASH_ENUM(name) CRASH_##name,
typedef enum crash_kind { CRASH_KINDS(CRASH_ENUM) CRASH_KINDS_COUNT } crash_kind;
#undef CRASH_ENUM

typedef struct crash_operation {
    crash_kind kind;
    int32_t argument; /* records, or an offset */
    int32_t bytes;    /* of an append, at least */
} crash_operation;

enum { CRASH_OPERATIONS_MAX = 32, CRASH_TEXT_BYTES = 1024 };

typedef struct crash_script {
    small_log_settings settings;
    crash_operation operations[CRASH_OPERATIONS_MAX];
    size_t count;
} crash_script;

/** @return false when the text is none */
bool crash_script_parse(crash_script *script, const char *operations);
bool crash_settings_parse(small_log_settings *settings, const char *text);
/** @return `text` */
const char *crash_script_text(const crash_script *script, char text[CRASH_TEXT_BYTES]);
const char *crash_settings_text(const small_log_settings *settings, char text[CRASH_TEXT_BYTES]);

/** How many operations the exhaustive scripts are made of, and how many settings they run with. */
size_t crash_alphabet_count(void);
size_t crash_settings_count(void);
/** The n-th script of `length` operations of the alphabet, behind batches that are on the disk.
 *  @param number  below alphabet_count to the power of `length` */
void crash_script_of_number(crash_script *script, size_t settings, int length, size_t number);
/** A script that is drawn from a seed. */
void crash_script_of_seed(crash_script *script, uint64_t seed);

/** splitmix64: the next number of a state. */
uint64_t crash_draw(uint64_t *random);

#endif
