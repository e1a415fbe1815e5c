/* mapped_file.h - a small file that grows in steps, seen through a shared mapping or read into memory.
 *
 * MAPPED  The address range of the largest size is mapped once, also beyond the end of the file; the file grows beneath it
 *         (allocate_space: a write through the mapping never is the first to need a disk block [DUR-25]) and is trimmed at the
 *         end. So readers need no lock against growth. Another process that cuts the file ends this one by SIGBUS.
 * HEAP    The bytes are in memory, in proportion to what is used of them, and reach the file by writes: no other process can
 *         take them away [DUR-25, DUR-27]. When memory grows it moves; the old block stays until its owner knows that no
 *         reader is inside. Only resize, write and flush touch the file, which may be shorter than `length`.
 * Length 0 need not have a mapping (IDX-2's port note).
 * THREADS  one writer; readers touch only bytes that the writer published. A flush may run beside the writer's growth: both look at
 *          the length. In heap mode resize, write and flush exclude each other: the owner sees to it. */
#ifndef SGS_IO_MAPPED_FILE_H
#define SGS_IO_MAPPED_FILE_H

#include <stdatomic.h>

#include "io/env.h"

/* [DUR-102] A file that is read into memory has at most this many bytes, or the maximum that its caller gives. */
enum { SGS_INDEX_LIMIT_BYTES = 64 << 20 };

typedef struct sgs_mapped_file {
    uint8_t *_Atomic data;           /* NULL when nothing is mapped */
    _Atomic uint32_t length;         /* bytes of the file that are there; in heap mode, that there may be */
    uint32_t reserved_length;        /* bytes of address space: growth ends there */
    _Atomic uint32_t written_length; /* heap: so many first bytes of the file are those in memory */
    int fd;                          /* -1 when closed */
    bool writable, heap;
} sgs_mapped_file;

/** Take over `fd`: close closes it. When this fails, fd stays the caller's.
 *  Reserves max(current size, max_size), the current size alone when not writable.
 *  @return SGS_OK; SGS_LIMIT_EXCEEDED for a file above 2^31 - 1 bytes, in heap mode also above 64 MiB and max_size
 *          [DUR-97, DUR-102]; the env's error */
sgs_status sgs_mapped_file_open(sgs_mapped_file *file, const sgs_env *env, int fd, const char *name, uint32_t max_size,
                                bool writable, bool heap, sgs_error *err);
/** Make the file at least `length` bytes long (zeros), up to reserved_length. When this fails, nothing has changed.
 *  Heap: memory alone grows. */
sgs_status sgs_mapped_file_grow(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                sgs_error *err);
/** Cut or extend the file to exactly `length`; a length above the reserved range remaps (no reader may be there).
 *  A longer file is sparse, as Kafka's is: no block was asked for. Heap: the file alone, memory stays. */
sgs_status sgs_mapped_file_resize(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                  sgs_error *err);
/** Mapping forced (heap: written), then the file synced [IDX-13 of 4.4.0]. Nothing to do when not writable.
 *  @param used  bytes that matter, at most length */
sgs_status sgs_mapped_file_flush(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 sgs_barrier barrier, sgs_error *err);
/** Unmap and close, without trimming. Heap: nothing is written. Everything is released also when this fails.
 *  Twice is harmless. */
sgs_status sgs_mapped_file_close(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err);

/* ---- heap mode ---- */

/** Bytes of memory; what lies between them and `length` is zeros that nobody has touched. */
uint32_t sgs_mapped_file_memory(const sgs_mapped_file *file);
/** Memory for exactly `length` bytes, the old contents in it, zeros behind. The old block stays for readers that are inside.
 *  @return SGS_RESOURCE */
sgs_status sgs_mapped_file_set_memory(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                      sgs_error *err);
/** Give old blocks back. No reader may be inside that began before the last one was replaced. */
void sgs_mapped_file_release_old(sgs_mapped_file *file, const sgs_env *env);
/** Write what is not in the file of the first `used` bytes, which are in memory; all of it that another process has cut off.
 *  @param exactly  end the file there */
sgs_status sgs_mapped_file_write(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 bool exactly, sgs_error *err);
/** Bytes from there on have changed in memory. */
void sgs_mapped_file_forget_written(sgs_mapped_file *file, uint32_t length);

#endif
