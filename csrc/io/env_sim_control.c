/* env_sim_control.c - what a test asks of a simulated disk, beside its environment. */
#include <string.h>

#include "io/env_sim_state.h"

const sgs_env *sgs_sim_env(const sgs_sim_disk *disk) { return &disk->env; }

int64_t sgs_sim_effects(const sgs_sim_disk *disk) { return disk->effects; }

int64_t sgs_sim_calls(const sgs_sim_disk *disk, sgs_sim_call call)
{
    SGS_EXPECT((unsigned)call <= SGS_SIM_ANY_CALL && disk->calls[call] <= disk->calls[SGS_SIM_ANY_CALL]);
    return disk->calls[call];
}

int64_t sgs_sim_failed_calls(const sgs_sim_disk *disk) { return disk->failed_calls; }

int64_t sgs_sim_open_descriptors(const sgs_sim_disk *disk)
{
    const sgs_sim_descriptor *descriptors = (const sgs_sim_descriptor *)disk->descriptors.data;
    int64_t count = 0;
    for (size_t i = 0; i < disk->descriptors.size / sizeof *descriptors; ++i)
        count += descriptors[i].is_open;
    return count;
}

bool sgs_sim_is_off(const sgs_sim_disk *disk) { return disk->is_off; }

void sgs_sim_watch(sgs_sim_disk *disk, sgs_sim_watcher watch, void *context)
{
    disk->watch = watch;
    disk->watch_context = context;
}

void sgs_sim_set_wall_clock(sgs_sim_disk *disk, int64_t wall_clock_ms)
{
    sgs_error unused;
    sgs_sim_take(disk);
    if (wall_clock_ms > disk->wall_clock_ms)
        disk->monotonic_ns += (wall_clock_ms - disk->wall_clock_ms) * 1000000;
    disk->wall_clock_ms = wall_clock_ms;
    (void)sgs_sim_leave(disk, SGS_OK, "", &unused);
}

void sgs_sim_set_room(sgs_sim_disk *disk, int64_t bytes)
{
    SGS_EXPECT(bytes >= -1);
    disk->room = bytes;
}

void sgs_sim_cut_power_after(sgs_sim_disk *disk, int64_t effects)
{
    SGS_EXPECT(effects >= -1);
    disk->cut_after = effects;
}

void sgs_sim_fail(sgs_sim_disk *disk, sgs_sim_call call, int64_t nth, int os_error, bool for_ever)
{
    SGS_EXPECT((unsigned)call <= SGS_SIM_ANY_CALL && nth >= 0 && (nth == 0 || os_error > 0));
    disk->plans[call] =
        (sgs_sim_plan){ .fail_at = nth > 0 ? disk->calls[call] + nth : 0, .os_error = os_error, .for_ever = for_ever };
}

sgs_sim_event sgs_sim_event_of(const sgs_sim_disk *disk, int64_t number)
{
    SGS_EXPECT(number >= 1 && number <= disk->effects);
    const sgs_sim_effect *log = sgs_sim_log(disk);
    size_t low = 0, high = sgs_sim_log_length(disk);
    while (low < high) { /* the first of that number; numbers ascend, and a store has that of the effect before it */
        const size_t middle = low + (high - low) / 2;
        if (log[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    SGS_EXPECT(low < sgs_sim_log_length(disk) && log[low].number == number);
    const sgs_sim_effect *found = &log[low];
    return (sgs_sim_event){ .call = found->call,
                            .name = sgs_sim_text(disk, found->name_at),
                            .to = sgs_sim_text(disk, found->to_at),
                            .position = found->position,
                            .bytes_count = (int64_t)found->bytes_count,
                            .barrier = found->kind == SGS_SIM_SYNC ? found->barrier : SGS_BARRIER_COUNT };
}

/* ---- what a disk holds, in one number ---- */

static uint64_t mix(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * 0x9E3779B97F4A7C15U;
    return digest ^ (digest >> 32);
}

static uint64_t mix_bytes(uint64_t digest, const uint8_t *bytes, size_t size)
{
    uint64_t word = 0;
    size_t at = 0;
    for (; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        digest = mix(digest, word);
    }
    word = 0;
    if (size > at)
        memcpy(&word, bytes + at, size - at);
    return mix(mix(digest, word), size);
}

/* What has a name in a directory that has one: a file is what it holds, at its path. Directories come before what was made in
 * them, and stay where they were made. */
uint64_t sgs_sim_digest(sgs_sim_disk *disk)
{
    enum { NO_NAME = 0, OF_ROOT = 1 };
    uint64_t digest = 0; /* a sum: names have no order */
    for (uint32_t number = 0; number < sgs_sim_node_count(disk); ++number)
        sgs_sim_node_at(disk, number)->path_digest = number == SGS_SIM_ROOT ? OF_ROOT : NO_NAME;
    for (uint32_t number = 0; number < sgs_sim_node_count(disk); ++number) {
        const sgs_sim_node *node = sgs_sim_node_at(disk, number);
        const sgs_sim_entry *entry = (const sgs_sim_entry *)node->entries.data;
        for (size_t i = 0; node->path_digest != NO_NAME && i < node->entries.size / sizeof *entry; ++i) {
            sgs_sim_node *child = sgs_sim_node_at(disk, entry[i].node);
            SGS_EXPECT(child != node && (!child->is_directory || child->path_digest == NO_NAME)); /* a tree */
            child->path_digest = mix_bytes(node->path_digest, (const uint8_t *)entry[i].name, strlen(entry[i].name));
            digest += mix_bytes(child->path_digest, child->data, child->is_directory ? 0 : (size_t)child->size);
        }
    }
    return digest;
}
