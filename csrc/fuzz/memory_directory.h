/* memory_directory.h - an environment with one directory of a few files, in memory: thousands of openings a second, and
 * nothing touches a disk. No mappings: indexes are opened on the heap. One thread. */
#ifndef SGS_FUZZ_MEMORY_DIRECTORY_H
#define SGS_FUZZ_MEMORY_DIRECTORY_H

#include "io/env.h"

enum { MEMORY_FILES_MAX = 4, MEMORY_FILE_ROOM = 1 << 16, MEMORY_NAME_BYTES = 48 };

typedef struct memory_file {
    char name[MEMORY_NAME_BYTES]; /* "" = the place is free */
    uint8_t *bytes;               /* of `room`: no more than was ever written; zeros follow up to `size` */
    size_t size, room;
    int open_count;
} memory_file;

typedef struct memory_directory {
    sgs_env env;
    memory_file files[MEMORY_FILES_MAX];
    int64_t live_allocations;
} memory_directory;

void memory_directory_init(memory_directory *directory);
void memory_directory_deinit(memory_directory *directory);
void memory_directory_put(memory_directory *directory, const char *name, const uint8_t *bytes, size_t size);
/** A file that is one hole: `size` zeros, which are nowhere, beyond MEMORY_FILE_ROOM too. Nobody may write to it. */
void memory_directory_put_hole(memory_directory *directory, const char *name, size_t size);
/** @return the file, NULL when there is none */
const memory_file *memory_directory_find(const memory_directory *directory, const char *name);
/** Whether all descriptors and all memory were given back. */
bool memory_directory_is_balanced(const memory_directory *directory);

#endif
