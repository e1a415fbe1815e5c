/* abstract_index.c - open, grow, cut and close; the search is in index_search.c. */
#include "index/abstract_index.h"

#include <inttypes.h>
#include <string.h>
#include <threads.h>
#include <time.h>

enum {
    FIRST_STEP_BYTES = 4096, /* a step is as long as the file already is, between these two [DUR-25] */
    LAST_STEP_BYTES = 65536,
    FOLIO_BYTES = 2 << 20,    /* the largest of the page cache */
    FIRST_MEMORY_BYTES = 512, /* in memory it doubles: most indexes of an idle partition stay this small */
    WRITE_STEP_BYTES = 512,   /* docs/decisions/index-mode.md */
    SPARE_MEMORY_BYTES = 4096,
    LOOK_AGAIN_NS = 50000,
    /* A look-up takes microseconds, and each attempt gives the processor away; but on a machine with more to do than it has
     * processors one may be off its own for a tenth of a second, and a segment without its indexes costs more than that. */
    ALONE_ATTEMPTS = 1000000,
    MOST_ENTRY_BYTES = 12,
};

static uint32_t smaller(uint32_t one, uint32_t other) { return one < other ? one : other; }

static uint32_t used_bytes(const sgs_abstract_index *index)
{
    return sgs_abstract_index_entries(index) * index->entry_size;
}

/* What holds whenever its one writer is between two steps; a resize may break it for Kafka [IDX-9]. */
static void expect_invariant(const sgs_abstract_index *index)
{
    SGS_EXPECT(!index->grow_in_steps || index->next_slot == sgs_abstract_index_entries(index));
    SGS_EXPECT(sgs_abstract_index_entries(index) <= index->seen_entries);
    SGS_EXPECT(index->next_slot * index->entry_size <= index->file.length);
    SGS_EXPECT(index->file.length <= index->file.reserved_length);
    SGS_EXPECT(index->backed_length <= index->file.length);
    SGS_EXPECT(!index->file.writable || index->file.written_length <= used_bytes(index));
    /* a look-up of before a cut may read all that it has seen */
    SGS_EXPECT(!index->file.heap || index->seen_entries * index->entry_size <= sgs_mapped_file_memory(&index->file));
}

/* The one who waits sleeps: the other one writes to a file. */
static void take_file(sgs_abstract_index *index)
{
    const struct timespec moment = { .tv_nsec = LOOK_AGAIN_NS };
    while (index->file.heap && atomic_flag_test_and_set_explicit(&index->file_turn, memory_order_acquire))
        (void)thrd_sleep(&moment, NULL);
}

static void leave_file(sgs_abstract_index *index)
{
    SGS_EXPECT(!index->file.heap || sgs_is_held(&index->file_turn));
    if (index->file.heap)
        atomic_flag_clear_explicit(&index->file_turn, memory_order_release);
}

/* A look-up that begins from here on meets the new block: it is counted before it asks for the address. */
static void release_old_memory(sgs_abstract_index *index, const sgs_env *env)
{
    if (atomic_load_explicit(&index->readers, memory_order_seq_cst) == 0)
        sgs_mapped_file_release_old(&index->file, env);
}

static sgs_status set_memory(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t size,
                             sgs_error *err)
{
    SGS_TRY(sgs_mapped_file_set_memory(&index->file, env, name, size, err));
    release_old_memory(index, env);
    return SGS_OK;
}

/* Every entry, and nothing else where the index grows in steps: Kafka's full size stays until it is trimmed. */
static sgs_status write_all(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    if (!index->file.heap || !index->file.writable || index->has_rest)
        return SGS_OK;
    (void)sgs_abstract_index_enter(index); /* the block stays */
    take_file(index);
    const uint32_t used = smaller(used_bytes(index), index->file.length);
    const sgs_status status = sgs_mapped_file_write(&index->file, env, name, used, index->grow_in_steps, err);
    leave_file(index);
    sgs_abstract_index_leave(index);
    return status;
}

void sgs_abstract_index_settle_file(sgs_abstract_index *index, const sgs_env *env, const char *name)
{
    sgs_error ignored;
    if (write_all(index, env, name, &ignored) != SGS_OK)
        index->is_stale = true;
}

sgs_status sgs_abstract_index_write_piece(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                          sgs_error *err)
{
    if (!index->file.heap)
        return SGS_OK;
    const uint32_t used = used_bytes(index);
    /* The first entry goes at once: its block is asked for while there is room, and not from what a close needs. */
    const uint32_t written = index->file.written_length;
    SGS_EXPECT(written <= used); /* what was cut off, or never was an entry, is written again */
    if (used < written + (written == 0 ? index->entry_size : WRITE_STEP_BYTES) ||
        atomic_flag_test_and_set_explicit(&index->file_turn, memory_order_acquire))
        return SGS_OK; /* a flush is writing: the next entry comes with another piece */
    const sgs_status status = sgs_mapped_file_write(&index->file, env, name, used, false, err);
    leave_file(index);
    index->is_stale = index->is_stale || status != SGS_OK;
    return status == SGS_INTERNAL ? status : SGS_OK;
}

/* Wait until no look-up is inside; those that begin meanwhile see no entry. */
static bool left_alone(sgs_abstract_index *index)
{
    const uint32_t entries = sgs_abstract_index_entries(index);
    atomic_store_explicit(&index->entries, 0, memory_order_seq_cst);
    int attempts = 0;
    while (atomic_load_explicit(&index->readers, memory_order_seq_cst) != 0 && attempts < ALONE_ATTEMPTS) {
        thrd_yield();
        ++attempts;
    }
    if (attempts < ALONE_ATTEMPTS) {
        index->seen_entries = entries;
        return true; /* the caller publishes the entries again when it is done */
    }
    atomic_store_explicit(&index->entries, entries, memory_order_seq_cst);
    return false;
}

/* After the file became longer, and before look-ups go on in one that became shorter. */
static void note_readable_entries(sgs_abstract_index *index)
{
    const uint32_t readable = index->grow_in_steps ? UINT32_MAX : index->file.length / index->entry_size;
    atomic_store_explicit(&index->readable_entries, readable, memory_order_relaxed);
}

/* Behind a change: a flush beside it, which saw none of it or a part, lowers the flag before it begins. */
static void note_change(sgs_abstract_index *index)
{
    atomic_store_explicit(&index->needs_flush, true, memory_order_release);
}

/* Change the length of the file below running look-ups. */
static sgs_status set_length(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t length,
                             sgs_error *err)
{
    const uint32_t entries = sgs_abstract_index_entries(index);
    const bool cuts = length / index->entry_size < index->seen_entries;
    const bool moves = length > index->file.reserved_length;
    SGS_EXPECT(index->file.writable && length % index->entry_size == 0);
    SGS_EXPECT(!index->grow_in_steps || length / index->entry_size >= entries);
    /* in memory nothing is taken from under a look-up */
    if (!index->file.heap && (cuts || moves) && !left_alone(index)) {
        sgs_fail(err, SGS_RESOURCE, "lookups do not leave the index");
        return sgs_fail_in_file(err, name);
    }
    take_file(index);
    const sgs_status status = sgs_mapped_file_resize(&index->file, env, name, length, err);
    leave_file(index);
    SGS_EXPECT(status != SGS_OK || index->file.length == length);
    index->backed_length = smaller(index->backed_length, index->file.length);
    note_readable_entries(index);
    atomic_store_explicit(&index->entries, entries, memory_order_seq_cst);
    note_change(index);
    return status;
}

/* [DUR-80] the entries before the first whose key does not increase. A first entry of zeros is an entry unless another
 * one follows: (0, base offset) is possible in a time index. */
static uint32_t increasing_prefix(const sgs_abstract_index *index, uint32_t whole)
{
    if (whole == 0)
        return 0;
    SGS_EXPECT((uint64_t)whole * index->entry_size <= index->file.length);
    const int64_t first = sgs_abstract_index_field(index, 0, SGS_INDEX_KEY);
    if (index->file.writable && sgs_abstract_index_field(index, whole - 1, SGS_INDEX_KEY) > first)
        return whole;
    int64_t previous = first;
    for (uint32_t slot = 1; slot < whole; ++slot) {
        const int64_t key = sgs_abstract_index_field(index, slot, SGS_INDEX_KEY);
        if (key <= previous) {
            static const uint8_t zeros[MOST_ENTRY_BYTES];
            const bool is_padding =
                slot == 1 && memcmp(sgs_abstract_index_entry(index, 0), zeros, index->entry_size) == 0;
            return is_padding ? 0 : slot;
        }
        previous = key;
    }
    return whole;
}

/* Whether bytes that are no padding follow the entries that count: the first and the last of them are looked at. */
static bool has_rest(const sgs_abstract_index *index, uint32_t entries, uint32_t whole)
{
    static const uint8_t zeros[MOST_ENTRY_BYTES];
    const uint32_t torn = index->file.length - whole * index->entry_size;
    SGS_EXPECT(entries <= whole && torn < index->entry_size);
    if (torn > 0 && memcmp(index->file.data + whole * index->entry_size, zeros, torn) != 0)
        return true;
    return entries < whole && (memcmp(sgs_abstract_index_entry(index, entries), zeros, index->entry_size) != 0 ||
                               memcmp(sgs_abstract_index_entry(index, whole - 1), zeros, index->entry_size) != 0);
}

static sgs_status open_descriptor(const sgs_env *env, int directory_fd, const char *name, bool writable, int *fd,
                                  bool *created, sgs_error *err)
{
    *created = false;
    sgs_status status = env->open_file(env, directory_fd, name, writable ? SGS_OPEN_WRITE : SGS_OPEN_READ, fd, err);
    if (status != SGS_NOT_FOUND || !writable)
        return status;
    status = env->open_file(env, directory_fd, name, SGS_OPEN_CREATE, fd, err);
    *created = status == SGS_OK;
    return status;
}

static sgs_status load_file(sgs_abstract_index *index, const sgs_env *env, const char *name, bool created,
                            uint32_t max_size, sgs_error *err)
{
    sgs_status status = SGS_OK;
    uint32_t entries = 0;
    if (created) {
        index->max_entries = max_size / index->entry_size;
        if (!index->grow_in_steps)
            status = sgs_mapped_file_resize(&index->file, env, name, max_size, err);
    } else {
        const uint32_t whole = index->file.length / index->entry_size;
        entries = index->grow_in_steps ? increasing_prefix(index, whole) : whole;
        index->max_entries = whole;
        index->has_rest = index->grow_in_steps && has_rest(index, entries, whole);
        if (index->has_rest)
            index->max_entries = entries;
        if (entries < whole && index->file.writable && !index->has_rest) {
            status = sgs_mapped_file_resize(&index->file, env, name, entries * index->entry_size, err);
            index->max_entries = entries;
            if (status == SGS_OK && index->file.heap) /* of a preallocated file */
                status = set_memory(index, env, name, index->file.length, err);
        }
    }
    if (index->grow_in_steps) /* such a file never had a hole: what wrote it asked for blocks */
        index->backed_length = index->file.length;
    if (index->file.writable) /* a torn entry behind the others: what takes its place is written as a whole */
        sgs_mapped_file_forget_written(&index->file, entries * index->entry_size);
    index->seen_entries = index->next_slot = entries;
    note_readable_entries(index);
    atomic_store_explicit(&index->entries, entries, memory_order_release);
    return status;
}

sgs_status sgs_abstract_index_open(sgs_abstract_index *index, const sgs_env *env, int directory_fd, const char *name,
                                   int64_t base_offset, uint8_t entry_size, const sgs_index_options *options,
                                   sgs_error *err)
{
    *index = (sgs_abstract_index){
        .file = { .fd = -1 },
        .base_offset = base_offset,
        .entry_size = entry_size,
        .grow_in_steps = options->grow_in_steps,
        .needs_flush = true,
    };
    SGS_EXPECT(entry_size == SGS_INT32_KEY_ENTRY_BYTES || entry_size == MOST_ENTRY_BYTES);
    const uint32_t max_size = options->max_size_bytes - options->max_size_bytes % entry_size;

    int fd;
    bool created;
    sgs_status status = open_descriptor(env, directory_fd, name, options->writable, &fd, &created, err);
    if (status == SGS_NOT_FOUND && !options->writable) {
        index->is_open = true; /* as an empty file */
        return SGS_OK;
    }
    if (status != SGS_OK)
        return status;

    sgs_error ignored;
    if (created && max_size == 0) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "an index of at most %" PRIu32 " bytes has no room for an entry of %d",
                 options->max_size_bytes, (int)entry_size);
        status = sgs_fail_in_file(err, name);
    }
    if (status == SGS_OK)
        status = sgs_mapped_file_open(&index->file, env, fd, name, max_size, options->writable, options->heap, err);
    if (status != SGS_OK) {
        (void)env->close(env, fd, name, &ignored);
        return status;
    }
    status = load_file(index, env, name, created, max_size, err);
    if (status != SGS_OK) {
        (void)sgs_mapped_file_close(&index->file, env, name, &ignored);
        return status;
    }
    expect_invariant(index);
    index->is_open = true;
    return SGS_OK;
}

sgs_status sgs_abstract_index_resize(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t size,
                                     bool *changed, sgs_error *err)
{
    if (!index->file.writable) {
        sgs_fail(err, index->is_open ? SGS_ILLEGAL_STATE : SGS_CLOSED, "the index cannot be resized");
        return sgs_fail_in_file(err, name);
    }
    const uint32_t rounded = size - size % index->entry_size;
    const uint32_t used = used_bytes(index);
    const bool had_rest = index->has_rest; /* entries come in its place */
    if (had_rest)
        SGS_TRY(set_length(index, env, name, used, err));
    index->has_rest = false;
    const uint32_t length = index->file.length;
    /* grown in steps, the length is the one that the file may reach */
    const uint32_t promised = index->max_entries * index->entry_size;
    if (rounded == (index->grow_in_steps && length <= promised ? promised : length)) {
        index->max_entries = rounded / index->entry_size; /* fewer where the rest of the file was no entries */
        *changed = had_rest;
        return SGS_OK;
    }
    if (rounded < used && index->grow_in_steps) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%" PRIu32 " bytes of the index are in use, %" PRIu32 " are too few", used,
                 rounded);
        return sgs_fail_in_file(err, name);
    }
    if (!index->grow_in_steps || rounded < length) {
        const sgs_status status = set_length(index, env, name, rounded, err);
        if (status != SGS_OK)
            return status;
    }
    index->max_entries = rounded / index->entry_size;
    if (index->next_slot > index->max_entries) {
        index->next_slot = 0;
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%" PRIu32 " bytes of the index were in use, %" PRIu32 " are left", used,
                 rounded);
        return sgs_fail_in_file(err, name);
    }
    SGS_EXPECT(!index->grow_in_steps || rounded >= used);
    expect_invariant(index);
    *changed = true;
    return SGS_OK;
}

sgs_status sgs_abstract_index_trim(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    if (!index->file.writable || index->has_rest)
        return SGS_OK;
    const uint32_t entries = sgs_abstract_index_entries(index);
    const uint32_t used = entries * index->entry_size;
    if (used != index->file.length) {
        const sgs_status status = set_length(index, env, name, used, err);
        if (status != SGS_OK)
            return status;
    }
    SGS_EXPECT(index->file.length == used);
    index->max_entries = entries;
    if (!index->file.heap)
        return SGS_OK;
    sgs_error ignored; /* more memory than is needed does no harm */
    if (entries >= index->seen_entries && sgs_mapped_file_memory(&index->file) >= used + SPARE_MEMORY_BYTES)
        (void)set_memory(index, env, name, used, &ignored);
    return write_all(index, env, name, err);
}

sgs_status sgs_abstract_index_flush(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    if (!index->file.writable || !atomic_exchange_explicit(&index->needs_flush, false, memory_order_acq_rel))
        return SGS_OK;
    const uint32_t used = used_bytes(index);
    const uint32_t there = smaller(used, index->file.length); /* less after [IDX-9] */
    sgs_status status = write_all(index, env, name, err);
    if (status == SGS_OK) /* in memory everything is written: from here on the block may be given back */
        status =
            sgs_mapped_file_flush(&index->file, env, name, index->file.heap ? 0 : there, SGS_BARRIER(INDEXES), err);
    if (status != SGS_OK)
        note_change(index);
    return status;
}

sgs_status sgs_abstract_index_close(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    if (!index->is_open)
        return SGS_OK;
    const sgs_status trimmed = sgs_abstract_index_trim(index, env, name, err);
    sgs_error later;
    const sgs_status closed = sgs_mapped_file_close(&index->file, env, name, trimmed == SGS_OK ? err : &later);
    SGS_EXPECT(index->file.fd < 0 && !index->file.writable); /* also when the close has failed */
    index->is_open = false;
    return trimmed != SGS_OK ? trimmed : closed;
}

void sgs_abstract_index_close_handler(sgs_abstract_index *index, const sgs_env *env, const char *name)
{
    sgs_error ignored;
    if (index->is_open)
        (void)sgs_mapped_file_close(&index->file, env, name, &ignored);
    index->is_open = false;
}

/* Kafka's full-size files are sparse: a store into a hole of a full disk would be a SIGBUS [DUR-25]. A store asks for all
 * blocks of its folio, which is one page of the page cache or more: reads of the file make large folios. A folio lies at a
 * multiple of its size, so none has blocks in one part and holes in the other. */
static sgs_status give_blocks(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t needed,
                              sgs_error *err)
{
    SGS_EXPECT(!index->file.heap);
    SGS_EXPECT(needed <= index->file.length);
    if (index->backed_length >= needed)
        return SGS_OK;
    const uint32_t end_of_folio = (needed + FOLIO_BYTES - 1) / FOLIO_BYTES * FOLIO_BYTES;
    const uint32_t target = smaller(end_of_folio, index->file.length);
    SGS_EXPECT(target > index->backed_length);
    SGS_TRY(env->allocate_space(env, index->file.fd, name, target, err));
    index->backed_length = target;
    return SGS_OK;
}

/* Memory for the next entry of an index that is long enough. */
static sgs_status give_memory(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t needed,
                              sgs_error *err)
{
    const uint32_t memory = sgs_mapped_file_memory(&index->file);
    SGS_EXPECT(index->file.heap && needed <= index->file.length);
    if (memory >= needed)
        return SGS_OK;
    const uint32_t twice = memory < FIRST_MEMORY_BYTES ? FIRST_MEMORY_BYTES : 2 * memory;
    const uint32_t size = smaller(twice, index->file.length);
    return set_memory(index, env, name, size > needed ? size : needed, err);
}

static uint32_t next_step(const sgs_abstract_index *index, uint32_t length)
{
    if (index->file.heap)
        return length < FIRST_MEMORY_BYTES ? FIRST_MEMORY_BYTES : length;
    return length < FIRST_STEP_BYTES ? FIRST_STEP_BYTES : smaller(length, LAST_STEP_BYTES);
}

static sgs_status grow_by_step(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    const uint32_t length = index->file.length;
    const uint32_t used = index->next_slot * index->entry_size;
    SGS_EXPECT(used <= length); /* what is left is no negative number */
    if (length - used >= index->entry_size)
        return index->file.heap ? give_memory(index, env, name, used + index->entry_size, err)
                                : give_blocks(index, env, name, used + index->entry_size, err);
    const uint32_t step = next_step(index, length);
    const uint32_t most = smaller(length + step, index->max_entries * index->entry_size);
    const uint32_t target = most - most % index->entry_size;
    if (target < used + index->entry_size)
        return sgs_fail(err, SGS_DISK_FULL, "the index is as long as it may be");
    if (target > index->file.reserved_length && !index->file.heap) { /* raised since */
        SGS_TRY(set_length(index, env, name, target, err));
        return give_blocks(index, env, name, target, err);
    }
    if (target > index->file.reserved_length)
        index->file.reserved_length = target;
    SGS_EXPECT(target > length);
    SGS_TRY(sgs_mapped_file_grow(&index->file, env, name, target, err));
    if (index->file.heap)
        release_old_memory(index, env);
    else
        index->backed_length = target;
    expect_invariant(index);
    return SGS_OK;
}

sgs_status sgs_abstract_index_make_room(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    const sgs_status status = grow_by_step(index, env, name, err);
    SGS_EXPECT(status != SGS_OK || (index->next_slot + 1) * index->entry_size <= index->file.length);
    index->is_stale = index->is_stale || status != SGS_OK;
    if (status == SGS_OK || status == SGS_INTERNAL)
        return status;
    return sgs_fail(err, SGS_DISK_FULL, "the index cannot grow beyond %" PRIu32 " entries",
                    sgs_abstract_index_entries(index));
}

sgs_status sgs_abstract_index_reset(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t max_size,
                                    sgs_error *err)
{
    bool changed;
    sgs_abstract_index_keep(index, 0);
    const sgs_status status = sgs_abstract_index_resize(index, env, name, max_size, &changed, err);
    if (status == SGS_OK)
        index->is_stale = false;
    return status;
}

void sgs_abstract_index_keep(sgs_abstract_index *index, uint32_t entries)
{
    const uint32_t before = sgs_abstract_index_entries(index);
    SGS_EXPECT(entries <= before);
    SGS_EXPECT(before <= index->seen_entries);
    const uint32_t there = index->has_rest ? index->file.length / index->entry_size : before;
    index->has_rest = false; /* it may name what is cut */
    index->next_slot = entries;
    atomic_store_explicit(&index->entries, entries, memory_order_seq_cst);
    if (index->file.heap) {
        take_file(index);
        sgs_mapped_file_forget_written(&index->file, entries * index->entry_size);
        leave_file(index);
        note_change(index);
        return;
    }
    if (!index->grow_in_steps || !index->file.writable)
        return;
    SGS_EXPECT(before * index->entry_size <= index->file.length);
    for (uint32_t slot = entries; slot < there; ++slot)
        sgs_abstract_index_store(index, slot, 0, 0);
    note_change(index);
}

bool sgs_abstract_index_publish(sgs_abstract_index *index)
{
    const uint32_t entries = sgs_abstract_index_entries(index) + 1;
    index->next_slot += 1;
    if (entries > index->seen_entries)
        index->seen_entries = entries;
    atomic_store_explicit(&index->entries, entries, memory_order_seq_cst);
    expect_invariant(index);
    note_change(index);
    return index->next_slot == entries;
}
