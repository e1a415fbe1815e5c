/* test.h - tests in C: named blocks that register themselves, and expectations that say where and what.
 *
 *     TEST(a_name_is_the_claim) { EXPECT_EQ_I64(sgs_varint_size(64), 2); }
 *     TEST_MAIN()
 *
 * An EXPECT_ notes the failure and goes on; a REQUIRE_ leaves the test, for what the rest cannot do without. A program
 * runs its tests in the order of the file, or those whose names contain one of its arguments, prints
 * `N passed, N failed`, and exits with 1 when one failed or none ran. */
#ifndef SGS_TEST_H
#define SGS_TEST_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

typedef struct test_case {
    const char *name;
    void (*run)(void);
    struct test_case *next;
} test_case;

static test_case *test_first, **test_last = &test_first;
/* In the test that runs now: one number of the program, so that what a kit expects counts as well. */
__attribute__((weak)) int test_failures;

static inline void test_register(test_case *entry)
{
    *test_last = entry;
    test_last = &entry->next;
}

#define TEST(name_)                                                 \
    static void name_(void);                                        \
    __attribute__((constructor)) static void register_##name_(void) \
    {                                                               \
        static test_case entry = { #name_, name_, NULL };           \
        test_register(&entry);                                      \
    }                                                               \
    static void name_(void)

__attribute__((format(printf, 3, 4))) static inline bool test_note(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d: ", file, line);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    ++test_failures;
    return false;
}

static inline bool test_true(bool holds, const char *text, const char *file, int line)
{
    return holds || test_note(file, line, "not true: %s", text);
}

static inline bool test_eq_i64(int64_t found, int64_t expected, const char *text, const char *file, int line)
{
    return found == expected || test_note(file, line, "%s is %" PRId64 ", expected %" PRId64, text, found, expected);
}

static inline bool test_eq_u64(uint64_t found, uint64_t expected, const char *text, const char *file, int line)
{
    return found == expected ||
           test_note(file, line, "%s is 0x%" PRIx64 ", expected 0x%" PRIx64, text, found, expected);
}

static inline bool test_eq_text(const char *found, const char *expected, const char *text, const char *file, int line)
{
    return strcmp(found, expected) == 0 ||
           test_note(file, line, "%s is \"%s\", expected \"%s\"", text, found, expected);
}

static inline bool test_mem(const void *found, const void *expected, size_t size, const char *text, const char *file,
                            int line)
{
    for (size_t i = 0; i < size; ++i) {
        const unsigned is = ((const uint8_t *)found)[i];
        const unsigned wanted = ((const uint8_t *)expected)[i];
        if (is != wanted)
            return test_note(file, line, "%s: byte %zu of %zu is 0x%02x, expected 0x%02x", text, i, size, is, wanted);
    }
    return true;
}

static inline bool test_status(sgs_status found, sgs_status expected, const char *text, const char *file, int line)
{
    return found == expected ||
           test_note(file, line, "%s is %s, expected %s", text, sgs_status_name(found), sgs_status_name(expected));
}

/* EXPECT_OK shows the message as well; the expression must have filled `err_`. */
static inline bool test_ok(sgs_status found, const sgs_error *err, const char *text, const char *file, int line)
{
    return found == SGS_OK ||
           test_note(file, line, "%s is %s: %s (file '%s', position %" PRId64 ", errno %d)", text,
                     sgs_status_name(found), err->message, err->file, err->position, (int)err->os_error);
}

#define EXPECT_TRUE(fact) test_true((fact), #fact, __FILE__, __LINE__)
#define EXPECT_EQ_I64(found, expected) test_eq_i64((int64_t)(found), (int64_t)(expected), #found, __FILE__, __LINE__)
#define EXPECT_EQ_U64(found, expected) test_eq_u64((uint64_t)(found), (uint64_t)(expected), #found, __FILE__, __LINE__)
#define EXPECT_TEXT(found, expected) test_eq_text((found), (expected), #found, __FILE__, __LINE__)
#define EXPECT_MEM(found, expected, size) test_mem((found), (expected), (size), #found, __FILE__, __LINE__)
#define EXPECT_STATUS(found, expected) test_status((found), (expected), #found, __FILE__, __LINE__)
#define EXPECT_OK(found, err) test_ok((found), (err), #found, __FILE__, __LINE__)

#define TEST_REQUIRE(holds) \
    do {                    \
        if (!(holds))       \
            return;         \
    } while (0)
#define REQUIRE_TRUE(fact) TEST_REQUIRE(EXPECT_TRUE(fact))
#define REQUIRE_EQ_I64(found, expected) TEST_REQUIRE(EXPECT_EQ_I64(found, expected))
#define REQUIRE_STATUS(found, expected) TEST_REQUIRE(EXPECT_STATUS(found, expected))
#define REQUIRE_OK(found, err) TEST_REQUIRE(EXPECT_OK(found, err))

static inline bool test_wanted(const char *name, int count, char **words)
{
    for (int i = 1; i < count; ++i)
        if (strstr(name, words[i]) != NULL)
            return true;
    return count <= 1;
}

static inline int test_main(int count, char **words)
{
    int passed = 0;
    int failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash must not swallow what was said before it */
    for (test_case *entry = test_first; entry != NULL; entry = entry->next) {
        if (!test_wanted(entry->name, count, words))
            continue;
        test_failures = 0;
        entry->run();
        if (test_failures == 0) {
            ++passed;
        } else {
            ++failed;
            printf("FAILED %s\n", entry->name);
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}

#define TEST_MAIN() \
    int main(int count, char **words) { return test_main(count, words); }

#endif
