/* utf8_java.h - bytes to valid UTF-8 as Java's `new String(bytes, UTF_8)` decodes them [format.md 18.2].
 *
 * Each malformed sequence becomes one U+FFFD. How long a malformed sequence is differs from the web standard (and from
 * Python's errors="replace"): the length rules are in sgs_utf8_java_step. */
#ifndef SGS_RECORD_UTF8_JAVA_H
#define SGS_RECORD_UTF8_JAVA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SGS_UTF8_REPLACEMENT_BYTES = 3 }; /* U+FFFD is EF BF BD: text grows to three times its size at most */

/** Length of the sequence at `at` (which is below `end`). `*valid` says whether it is a character or malformed. */
size_t sgs_utf8_java_step(const uint8_t *at, const uint8_t *end, bool *valid);
/** true when `data` is well-formed UTF-8 */
bool sgs_utf8_is_valid(const uint8_t *data, size_t size);
/** Bytes that sgs_utf8_java_replace writes. */
size_t sgs_utf8_java_replaced_size(const uint8_t *data, size_t size);
/** Copy `data` to `out` (3 * size bytes of room), malformed sequences replaced. @return the byte behind what was
 *  written */
uint8_t *sgs_utf8_java_replace(uint8_t *out, const uint8_t *data, size_t size);

#endif
