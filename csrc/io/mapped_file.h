/* mapped_file.h - a small file seen through a shared mapping that grows in steps and never moves.
 *
 * The address range of the largest size is mapped once, also beyond the end of the file; the file grows beneath it
 * (allocate_space: a write through the mapping never is the first to need a disk block [DUR-25]) and is trimmed at the end.
 * So readers need no lock against growth. Length 0 has no mapping (IDX-2's port note). In heap mode the same bytes live in
 * memory and flush() writes them back, for directories that are not trusted or not local [DUR-27].
 * THREADS  one writer; readers touch only bytes that the writer published. */
#ifndef SGS_IO_MAPPED_FILE_H
#define SGS_IO_MAPPED_FILE_H

#include "io/env.h"

typedef struct sgs_mapped_file {
    uint8_t *data;            /* NULL when nothing is mapped */
    uint32_t length;          /* bytes of the file that are there */
    uint32_t reserved_length; /* bytes of address space, or of heap */
    int fd;                   /* -1 when closed */
    bool writable, heap;
} sgs_mapped_file;

/** Take over `fd` (closed by close). Maps max(current size, max_size). */
sgs_status sgs_mapped_file_open(sgs_mapped_file *file, const sgs_env *env, int fd, const char *name, uint32_t max_size,
                                bool writable, bool heap, sgs_error *err);
/** Make the file at least `length` bytes long (zeros), up to reserved_length. */
sgs_status sgs_mapped_file_grow(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                sgs_error *err);
/** Cut or extend the file to exactly `length`; a length above the reserved range remaps (no reader may be there). */
sgs_status sgs_mapped_file_resize(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                  sgs_error *err);
/** Mapping forced (heap: written back), then the file synced [IDX-13 of 4.4.0]. `used` = bytes that matter. */
sgs_status sgs_mapped_file_flush(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 sgs_error *err);
/** Unmap and close, without trimming. Twice is harmless. */
sgs_status sgs_mapped_file_close(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err);

#endif
