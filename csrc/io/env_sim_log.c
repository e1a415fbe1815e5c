/* env_sim_log.c - the log of effects: nothing on the disk changes but by applying one. */
#include <string.h>

#include "io/env_sim_state.h"

enum { PINNED_BYTES = 64 << 10 };

sgs_status sgs_sim_add_node(sgs_sim_disk *disk, bool is_directory, uint32_t *node, sgs_error *err)
{
    sgs_sim_node made = { .is_directory = is_directory, .modified_ms = disk->wall_clock_ms };
    sgs_buffer_init(&made.entries, disk->nodes.memory);
    *node = sgs_sim_node_count(disk);
    return sgs_buffer_append(&disk->nodes, &made, sizeof made, err);
}

sgs_sim_entry *sgs_sim_find(const sgs_sim_node *directory, const char *name)
{
    SGS_EXPECT(directory->is_directory);
    sgs_sim_entry *entries = (sgs_sim_entry *)directory->entries.data;
    const size_t count = directory->entries.size / sizeof *entries;
    for (size_t i = 0; i < count; ++i)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

sgs_status sgs_sim_keep_bytes(sgs_sim_disk *disk, const void *data, size_t size, size_t *at, sgs_error *err)
{
    *at = disk->bytes.size;
    return sgs_buffer_append(&disk->bytes, data, size, err);
}

static sgs_status no_memory(sgs_error *err) { return sgs_fail(err, SGS_RESOURCE, "no memory for a simulated file"); }

static sgs_status set_capacity(const sgs_sim_disk *disk, sgs_sim_node *file, int64_t capacity, sgs_error *err)
{
    SGS_EXPECT(!file->may_not_move && capacity > file->capacity);
    uint8_t *data = disk->base->reallocate(disk->base, file->data, (size_t)capacity);
    if (data == NULL)
        return no_memory(err);
    file->data = data;
    file->capacity = capacity;
    return SGS_OK;
}

sgs_status sgs_sim_make_room(sgs_sim_disk *disk, uint32_t node, int64_t size, sgs_error *err)
{
    sgs_sim_node *file = sgs_sim_node_at(disk, node);
    if (size <= file->capacity)
        return SGS_OK;
    if (file->may_not_move)
        return sgs_fail(err, SGS_RESOURCE, "a simulated file that is or was mapped cannot grow beyond %lld bytes",
                        (long long)file->capacity);
    return set_capacity(disk, file, size > 2 * file->capacity ? size : 2 * file->capacity, err);
}

sgs_status sgs_sim_pin(sgs_sim_disk *disk, uint32_t node, int64_t size, bool is_writable, sgs_error *err)
{
    sgs_sim_node *file = sgs_sim_node_at(disk, node);
    SGS_EXPECT(!file->is_directory && size >= 0);
    int64_t wanted = size > file->size ? size : file->size;
    if (!file->may_not_move && wanted < PINNED_BYTES)
        wanted = PINNED_BYTES;
    else if (!file->may_not_move)
        wanted *= 2;
    sgs_status status = sgs_sim_make_room(disk, node, wanted, err);
    if (status == SGS_OK && is_writable && file->shadow == NULL) {
        file->shadow = disk->base->allocate(disk->base, (size_t)file->capacity);
        if (file->shadow == NULL)
            status = no_memory(err);
        else if (file->size > 0)
            memcpy(file->shadow, file->data, (size_t)file->size);
    }
    SGS_EXPECT(status != SGS_OK || (file->capacity >= size && file->capacity >= file->size));
    if (status == SGS_OK)
        file->may_not_move = true;
    return status;
}

/* ---- applying ---- */

static void resize(sgs_sim_node *file, int64_t size)
{
    SGS_EXPECT(size >= 0 && size <= file->capacity);
    if (size > file->size) { /* also when it was longer before: what lies behind the end reads as zero */
        memset(file->data + file->size, 0, (size_t)(size - file->size));
        if (file->shadow != NULL)
            memset(file->shadow + file->size, 0, (size_t)(size - file->size));
    }
    file->size = size;
}

static void put(sgs_sim_node *file, int64_t position, const uint8_t *bytes, size_t count)
{
    SGS_EXPECT(position >= 0 && position + (int64_t)count <= file->capacity);
    if (count == 0)
        return;
    if (position + (int64_t)count > file->size)
        resize(file, position + (int64_t)count);
    memcpy(file->data + position, bytes, count);
    if (file->shadow != NULL)
        memcpy(file->shadow + position, bytes, count);
}

static void drop_name(sgs_sim_node *directory, const char *name)
{
    sgs_sim_entry *entry = sgs_sim_find(directory, name);
    if (entry == NULL)
        return;
    SGS_EXPECT(directory->entries.size >= sizeof *entry);
    directory->entries.size -= sizeof *entry;
    *entry = *(const sgs_sim_entry *)(const void *)(directory->entries.data + directory->entries.size);
}

static sgs_status set_name(sgs_sim_node *directory, const char *name, uint32_t node, sgs_error *err)
{
    sgs_sim_entry *entry = sgs_sim_find(directory, name);
    if (entry != NULL) {
        entry->node = node;
        return SGS_OK;
    }
    sgs_sim_entry made = { .node = node };
    SGS_EXPECT(strlen(name) < sizeof made.name);
    memcpy(made.name, name, strlen(name) + 1);
    return sgs_buffer_append(&directory->entries, &made, sizeof made, err);
}

static sgs_status apply(sgs_sim_disk *disk, const sgs_sim_effect *effect, sgs_error *err)
{
    sgs_sim_node *node = sgs_sim_node_at(disk, effect->node);
    const char *name = sgs_sim_text(disk, effect->name_at);
    sgs_status status = SGS_OK;
    switch (effect->kind) {
    case SGS_SIM_MAKE:
        return set_name(node, name, effect->other, err);
    case SGS_SIM_REMOVE:
        drop_name(node, name);
        return SGS_OK;
    case SGS_SIM_MOVE:
        status = set_name(node, sgs_sim_text(disk, effect->to_at), effect->other, err);
        if (status == SGS_OK)
            drop_name(node, name);
        return status;
    case SGS_SIM_WRITE:
    case SGS_SIM_STORE:
        status = sgs_sim_make_room(disk, effect->node, effect->position + (int64_t)effect->bytes_count, err);
        if (status == SGS_OK)
            put(node, effect->position, disk->bytes.data + effect->bytes_at, effect->bytes_count);
        break;
    case SGS_SIM_RESIZE:
        status = sgs_sim_make_room(disk, effect->node, effect->position, err);
        if (status == SGS_OK)
            resize(node, effect->position);
        break;
    case SGS_SIM_SYNC:
    case SGS_SIM_DROP:
    case SGS_SIM_NOTHING:
        return SGS_OK;
    }
    node->modified_ms = disk->wall_clock_ms;
    return status;
}

sgs_status sgs_sim_replay(sgs_sim_disk *disk, const sgs_sim_effect *effect, sgs_error *err)
{
    SGS_EXPECT(effect->number >= 0 && effect->position >= 0);
    SGS_EXPECT(effect->node < sgs_sim_node_count(disk) && effect->other < sgs_sim_node_count(disk));
    sgs_status status = sgs_buffer_reserve(&disk->log, sizeof *effect, err);
    if (status == SGS_OK)
        status = apply(disk, effect, err);
    return status == SGS_OK ? sgs_buffer_append(&disk->log, effect, sizeof *effect, err) : status;
}

sgs_status sgs_sim_do(sgs_sim_disk *disk, sgs_sim_effect effect, sgs_error *err)
{
    SGS_EXPECT(!disk->is_off && sgs_is_held(&disk->is_busy));
    effect.number = disk->effects + 1;
    const sgs_status status = sgs_sim_replay(disk, &effect, err);
    if (status == SGS_OK)
        ++disk->effects;
    return status;
}

/* ---- mappings ---- */

static sgs_status notice_in(sgs_sim_disk *disk, uint32_t node, sgs_error *err)
{
    const sgs_sim_node *file = sgs_sim_node_at(disk, node);
    if (file->shadow == NULL || memcmp(file->data, file->shadow, (size_t)file->size) == 0)
        return SGS_OK;
    SGS_EXPECT(file->may_not_move && file->size > 0);
    int64_t first = 0, end = file->size;
    while (file->data[first] == file->shadow[first])
        ++first;
    while (file->data[end - 1] == file->shadow[end - 1])
        --end;
    SGS_EXPECT(first < end);
    sgs_sim_effect store = { .kind = SGS_SIM_STORE,
                             .call = SGS_SIM_map,
                             .number = disk->effects,
                             .node = node,
                             .position = first,
                             .bytes_count = (size_t)(end - first) };
    const sgs_status status = sgs_sim_keep_bytes(disk, file->data + first, store.bytes_count, &store.bytes_at, err);
    return status == SGS_OK ? sgs_sim_replay(disk, &store, err) : status;
}

sgs_status sgs_sim_notice_stores(sgs_sim_disk *disk, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (uint32_t node = 0; status == SGS_OK && node < sgs_sim_node_count(disk); ++node)
        status = notice_in(disk, node, err);
    return status;
}
