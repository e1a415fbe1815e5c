/* directory_files.h - a partition directory as an input: names and bytes of its files.
 *
 *     settings; then for each file: kind, base offset, size (2 bytes), bytes
 *
 * The kind gives the name, with the base offset in it; beyond the kinds the bytes begin with a name of their own. Of two files
 * of one name the later is there. */
#ifndef SGS_FUZZ_DIRECTORY_FILES_H
#define SGS_FUZZ_DIRECTORY_FILES_H

#include <stdio.h>

#include "fuzz/mutate.h"
#include "io/env_sim.h"

enum { DIRECTORY_FILES_MAX = 24, DIRECTORY_NAME_BYTES = 64, DIRECTORY_HEAD_BYTES = 1, DIRECTORY_FILE_HEAD_BYTES = 4 };

typedef struct directory_file {
    char name[DIRECTORY_NAME_BYTES];
    int64_t base_offset; /* of a .log of the log; else -1 */
    const uint8_t *bytes;
    size_t size;
} directory_file;

typedef struct directory_files {
    uint8_t settings;
    size_t count;
    directory_file files[DIRECTORY_FILES_MAX]; /* no two of one name */
} directory_files;

void directory_files_take(directory_files *files, const uint8_t *data, size_t size);
/** @return NULL when there is none */
const directory_file *directory_files_find(const directory_files *files, const char *name);
/** Make the directory "log" of a disk, with these files, synced. */
void directory_files_put(const directory_files *files, const sgs_env *env);
void directory_files_print(const directory_files *files, FILE *out);
/** Files in, out, twice and of other names, their bytes changed; checksums and offsets of most batches are mended.
 *  @return the new size */
size_t directory_files_mutate(fuzz_random *random, uint8_t *data, size_t size, size_t max_size);

#endif
