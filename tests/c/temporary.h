/* temporary.h - a directory of a test's own, and files written and read there behind the back of the code under test. */
#ifndef SGS_TEST_TEMPORARY_H
#define SGS_TEST_TEMPORARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct temporary {
    char path[256];
    int fd; /* of the directory */
} temporary;

/** Make a new empty directory below $TMPDIR. Ends the program when it cannot: a test without one proves nothing. */
temporary temporary_open(void);
/** Remove the directory with all it holds. */
void temporary_close(temporary *directory);
/** Create or replace a file. */
void temporary_write(const temporary *directory, const char *name, const void *data, size_t size);
/** Read at most `room` bytes. @return how many the file has, -1 when there is no such file */
int64_t temporary_read(const temporary *directory, const char *name, void *data, size_t room);
bool temporary_has(const temporary *directory, const char *name);

#endif
