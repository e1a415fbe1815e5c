/* mapped_file.h - a small file seen through a shared mapping that grows in steps and never moves.
 *
 * The address range of the largest size is mapped once, also beyond the end of the file; the file grows beneath it
 * (allocate_space: a write through the mapping never is the first to need a disk block [DUR-25]) and is trimmed at the end.
 * So readers need no lock against growth. Length 0 need not have a mapping (IDX-2's port note). In heap mode the same
 * bytes live in memory, and flush and close write them back, for directories that are not trusted or not local [DUR-27].
 * THREADS  one writer; readers touch only bytes that the writer published. A flush may run beside the writer's growth: both look at
 *          the length. */
#ifndef SGS_IO_MAPPED_FILE_H
#define SGS_IO_MAPPED_FILE_H

#include <stdatomic.h>

#include "io/env.h"

/* [DUR-102] A file that is read into memory has at most this many bytes, or the maximum that its caller gives. */
enum { SGS_INDEX_LIMIT_BYTES = 64 << 20 };

typedef struct sgs_mapped_file {
    uint8_t *data;            /* NULL when nothing is mapped */
    _Atomic uint32_t length;  /* bytes of the file that are there; in heap mode, that will be there after close */
    uint32_t reserved_length; /* bytes of address space, or of heap */
    int fd;                   /* -1 when closed */
    bool writable, heap;
} sgs_mapped_file;

/** Take over `fd`: close closes it. When this fails, fd stays the caller's.
 *  Reserves max(current size, max_size), the current size alone when not writable.
 *  @return SGS_OK; SGS_LIMIT_EXCEEDED for a file above 2^31 - 1 bytes, in heap mode also above 64 MiB and max_size
 *          [DUR-97, DUR-102]; the env's error */
sgs_status sgs_mapped_file_open(sgs_mapped_file *file, const sgs_env *env, int fd, const char *name, uint32_t max_size,
                                bool writable, bool heap, sgs_error *err);
/** Make the file at least `length` bytes long (zeros), up to reserved_length. When this fails, nothing has changed. */
sgs_status sgs_mapped_file_grow(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                sgs_error *err);
/** Cut or extend the file to exactly `length`; a length above the reserved range remaps (no reader may be there). */
sgs_status sgs_mapped_file_resize(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                  sgs_error *err);
/** Mapping forced (heap: written back), then the file synced [IDX-13 of 4.4.0]. Nothing to do when not writable.
 *  @param used  bytes that matter, at most length */
sgs_status sgs_mapped_file_flush(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 sgs_barrier barrier, sgs_error *err);
/** Unmap (heap: write back, without a sync) and close, without trimming. Everything is released also when this fails.
 *  Twice is harmless. */
sgs_status sgs_mapped_file_close(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err);

#endif
