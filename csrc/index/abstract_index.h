/* abstract_index.h - what the offset and the time index share: fixed-size entries in a mapped file, a warm-section binary
 * search, resize and trim [IDX-1..IDX-18], Kafka AbstractIndex.
 *
 * INVARIANT  entries * entry_size <= file.length, and next_slot == entries; entries only grows by append, after the entry's
 * bytes [IDX-18]. Without grow_in_steps a resize may break both, as in Kafka [IDX-9]: what is cut off is never read again.
 * file.writable is true only while the index is open.
 * Names are not stored: they follow from the segment's base offset and suffix, and come in with each call that needs one.
 *
 * HOW MANY ENTRIES AN EXISTING FILE HAS. Kafka believes that a file is full up to its last whole entry, zeros included
 * [IDX-2]; with grow_in_steps false so do we. Otherwise only the prefix whose keys strictly increase counts [DUR-80]: a
 * preallocated tail of zeros (a crash, or the live log of another process) fools no search. A writable index drops that
 * tail from the file when it opens, so that no later write meets a hole [DUR-25]. Other bytes after the prefix are damage,
 * and has_rest is true. They may prove that records are missing, so the file keeps them until the index is rebuilt, cut or
 * appended to [DUR-7, DUR-53]. Every entry is compared when the file is only read; a writable one is trusted when its last
 * key is above its first, since recovery has rebuilt whatever an unclean stop left behind [DUR-52]. And a search that meets
 * keys out of order says SGS_CORRUPT_INDEX [DUR-53].
 *
 * IN MEMORY (heap) entries reach the file in pieces of WRITE_STEP_BYTES, and all of them with a trim, a flush or a close. What
 * is written earlier is for other processes that look beside us: after a crash recovery rebuilds what no flush has covered
 * [DUR-52]. A write that fails makes the index stale, as a step that fails does [DUR-25].
 *
 * THREADS  one appender under the partition lock; look-ups may run beside it. They are counted (`readers`): a cut below
 * entries that a look-up may still believe in, and a move of the mapping, wait until it has left [IDX-17]. Bytes of entries
 * are read and written with relaxed atomic accesses, so a look-up that races a truncation sees an old or a new number. It
 * compares what it has found with what it looks for: an append may have taken the slot meanwhile. */
#ifndef SGS_INDEX_ABSTRACT_INDEX_H
#define SGS_INDEX_ABSTRACT_INDEX_H

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "io/mapped_file.h"

typedef struct sgs_index_options {
    uint32_t max_size_bytes; /* segment.index.bytes */
    bool writable;           /* false: nothing is created; a missing file counts as empty */
    bool heap;               /* [DUR-27] */
    bool grow_in_steps;      /* [DUR-25, DUR-80, DUR-53]; false = Kafka: the whole size at once [DUR-62] */
} sgs_index_options;

typedef struct sgs_abstract_index {
    sgs_mapped_file file;
    int64_t base_offset;
    uint32_t max_entries; /* of the configured or present size, Kafka's maxEntries [IDX-2] */
    _Atomic uint32_t entries;
    _Atomic uint32_t readers;          /* look-ups inside */
    _Atomic uint32_t readable_entries; /* UINT32_MAX with grow_in_steps, else what the file has room for [IDX-9] */
    uint32_t next_slot;                /* where the next entry goes: Kafka's write position */
    uint32_t seen_entries;             /* the most that a look-up inside may have seen */
    uint32_t backed_length;            /* mapped: there are blocks up to here, and may be holes behind it [DUR-25] */
    uint8_t entry_size;                /* 8 or 12 */
    atomic_flag file_turn;             /* in heap mode: who writes the file, or takes entries away that are in it */
    bool is_open, grow_in_steps;
    bool has_rest;           /* the file goes on behind the entries that count, and not with zeros [DUR-53] */
    atomic_bool needs_flush; /* something may not be on the disk: all of it at first, for all that the index knows */
    bool is_stale;           /* a grow or a write failed: rewrite or remove at roll or close [DUR-25] */
} sgs_abstract_index;

/* the first and the second field of an entry; offsets are absolute */
typedef enum sgs_index_field { SGS_INDEX_KEY, SGS_INDEX_VALUE } sgs_index_field;
typedef enum sgs_search_mode { SGS_LARGEST_LOWER_BOUND, SGS_SMALLEST_UPPER_BOUND } sgs_search_mode;

enum { SGS_INDEX_NO_SLOT = -1 };

/** [IDX-1] A failed open leaves the index closed; Kafka's quirk stays: a file created for a maximum below one entry is
 *  left behind, empty. @return also SGS_LIMIT_EXCEEDED for a file above 2^31 - 1 bytes [DUR-97] */
sgs_status sgs_abstract_index_open(sgs_abstract_index *index, const sgs_env *env, int directory_fd, const char *name,
                                   int64_t base_offset, uint8_t entry_size, const sgs_index_options *options,
                                   sgs_error *err);
/** [IDX-9] With grow_in_steps a size below the used bytes is refused before anything is cut. Kafka fails after the cut, and
 *  forgets where to write: look-ups of what is gone fail from then on, and the next entry goes to slot 0.
 *  @param changed  false when the length was this already
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT; SGS_CLOSED; SGS_RESOURCE when look-ups do not leave the range that would go */
sgs_status sgs_abstract_index_resize(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t size,
                                     bool *changed, sgs_error *err);
/** [IDX-10] nothing on a closed or read-only index. In memory: every entry is in the file then. */
sgs_status sgs_abstract_index_trim(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err);
/** [IDX-13 of 4.4.0] nothing on a closed, missing or read-only index, nor on one that has not changed since the last */
sgs_status sgs_abstract_index_flush(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err);
/** [IDX-14] trim, then unmap whatever the trim said; read-only and closed indexes are only unmapped. */
sgs_status sgs_abstract_index_close(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err);
/** Unmap without trim or write. */
void sgs_abstract_index_close_handler(sgs_abstract_index *index, const sgs_env *env, const char *name);
/** Room for one more entry: grows the file by a step, and gives blocks to what may be a hole of a file that was there.
 *  @return SGS_OK; SGS_DISK_FULL whatever has failed, which ends the index and never an append [DUR-25]; but SGS_INTERNAL
 *          for a broken invariant [DUR-44]. The index is stale then. */
sgs_status sgs_abstract_index_make_room(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                        sgs_error *err);
/** [IDX-11] zero entries at the maximum size. */
sgs_status sgs_abstract_index_reset(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t max_size,
                                    sgs_error *err);
/** Keep the first `entries`. Kafka leaves the bytes of the others [OFX-5]; with grow_in_steps they become zero, so that
 *  they are padding, not stale entries, to whoever opens the file after a crash [DUR-80]. */
void sgs_abstract_index_keep(sgs_abstract_index *index, uint32_t entries);
/** In memory: end the file behind the last entry, so that no other process meets what was cut off. A failure makes the index
 *  stale. */
void sgs_abstract_index_settle_file(sgs_abstract_index *index, const sgs_env *env, const char *name);
/** In memory: write the last entries when there are enough of them. @return SGS_OK, or SGS_INTERNAL [DUR-44] */
sgs_status sgs_abstract_index_write_piece(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                          sgs_error *err);
/** Publish one more entry, whose bytes have been stored in `next_slot`.
 *  @return false when it is not the last one then, after a resize that failed [OFX-4] */
bool sgs_abstract_index_publish(sgs_abstract_index *index);

/** Begin a look-up. @return the number of entries that it may touch, until sgs_abstract_index_leave */
uint32_t sgs_abstract_index_enter(const sgs_abstract_index *index);
void sgs_abstract_index_leave(const sgs_abstract_index *index);
/** Between enter and leave: [IDX-6..IDX-8] the slot, or SGS_INDEX_NO_SLOT.
 *  @return SGS_CORRUPT_INDEX when two probed keys are out of order and grow_in_steps is on [DUR-53]; when a probed entry,
 *          or the answer, was cut off [IDX-9] */
sgs_status sgs_abstract_index_search(const sgs_abstract_index *index, uint32_t entries, int64_t target,
                                     sgs_index_field field, sgs_search_mode mode, int64_t *slot, sgs_error *err);
/** [IDX-12] */
static inline bool sgs_relative_offset(int64_t base_offset, int64_t offset, int32_t *relative)
{
    int64_t distance;
    if (__builtin_sub_overflow(offset, base_offset, &distance) || distance < 0 || distance > INT32_MAX)
        return false;
    *relative = (int32_t)distance;
    return true;
}

static inline uint32_t sgs_abstract_index_entries(const sgs_abstract_index *index)
{
    return atomic_load_explicit(&((sgs_abstract_index *)(uintptr_t)index)->entries, memory_order_acquire);
}
/** Whether the file has room for an entry below the number that enter returned: only what Kafka cut off is not there. */
static inline bool sgs_abstract_index_is_readable(const sgs_abstract_index *index, uint32_t slot)
{
    sgs_abstract_index *counted = (sgs_abstract_index *)(uintptr_t)index;
    return slot < atomic_load_explicit(&counted->readable_entries, memory_order_relaxed);
}
/** @return err->status, SGS_CORRUPT_INDEX */
sgs_status sgs_abstract_index_fail_cut_off(const sgs_abstract_index *index, uint32_t slot, sgs_error *err);

enum { SGS_INT32_KEY_ENTRY_BYTES = 8 }; /* key int32, value int32; the other kind has a key of int64 */

static inline const uint8_t *sgs_abstract_index_entry(const sgs_abstract_index *index, uint32_t slot)
{
    SGS_EXPECT(index->file.heap || ((size_t)slot + 1) * index->entry_size <= index->file.length);
    SGS_EXPECT(!index->file.heap || ((size_t)slot + 1) * index->entry_size <= sgs_mapped_file_memory(&index->file));
    return index->file.data + (size_t)slot * index->entry_size;
}

/* Entries lie at multiples of 4 bytes in a page-aligned or allocated range. */
static inline uint32_t sgs_index_load_word(const uint8_t *at)
{
    uint8_t bytes[4];
    const uint32_t word = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);
    memcpy(bytes, &word, sizeof bytes);
    return sgs_load_be32(bytes);
}

static inline void sgs_index_store_word(uint8_t *at, uint32_t value)
{
    uint8_t bytes[4];
    uint32_t word;
    sgs_store_be32(bytes, value);
    memcpy(&word, bytes, sizeof word);
    __atomic_store_n((uint32_t *)(void *)at, word, __ATOMIC_RELAXED);
}

static inline int64_t sgs_index_absolute_offset(const sgs_abstract_index *index, uint32_t relative_offset)
{
    /* modulo 2^64, as Java adds; a damaged entry shows as an offset below the base */
    return (int64_t)((uint64_t)index->base_offset + (uint64_t)(int64_t)(int32_t)relative_offset);
}

/** Between enter and leave: field of an entry below the number that enter returned. */
static inline int64_t sgs_abstract_index_field(const sgs_abstract_index *index, uint32_t slot, sgs_index_field field)
{
    const uint8_t *entry = sgs_abstract_index_entry(index, slot);
    if (index->entry_size == SGS_INT32_KEY_ENTRY_BYTES)
        return field == SGS_INDEX_KEY ? sgs_index_absolute_offset(index, sgs_index_load_word(entry))
                                      : (int32_t)sgs_index_load_word(entry + 4);
    if (field == SGS_INDEX_VALUE)
        return sgs_index_absolute_offset(index, sgs_index_load_word(entry + 8));
    return (int64_t)(((uint64_t)sgs_index_load_word(entry) << 32) | sgs_index_load_word(entry + 4));
}

/** Store an entry's two fields (offsets relative) in a slot that has room. */
static inline void sgs_abstract_index_store(sgs_abstract_index *index, uint32_t slot, int64_t key, int32_t value)
{
    uint8_t *entry = index->file.data + (size_t)slot * index->entry_size;
    SGS_EXPECT(((size_t)slot + 1) * index->entry_size <= index->file.length);
    SGS_EXPECT(!index->file.heap || ((size_t)slot + 1) * index->entry_size <= sgs_mapped_file_memory(&index->file));
    SGS_EXPECT(index->file.writable);
    SGS_EXPECT(index->entry_size != SGS_INT32_KEY_ENTRY_BYTES || (key >= 0 && key <= INT32_MAX));
    if (index->entry_size == SGS_INT32_KEY_ENTRY_BYTES) {
        sgs_index_store_word(entry, (uint32_t)(int32_t)key);
        sgs_index_store_word(entry + 4, (uint32_t)value);
        return;
    }
    sgs_index_store_word(entry, (uint32_t)((uint64_t)key >> 32));
    sgs_index_store_word(entry + 4, (uint32_t)key);
    sgs_index_store_word(entry + 8, (uint32_t)value);
}

#endif
