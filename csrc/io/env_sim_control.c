/* env_sim_control.c - what a test asks of a simulated disk, beside its environment. */
#include "io/env_sim_state.h"

const sgs_env *sgs_sim_env(const sgs_sim_disk *disk) { return &disk->env; }

int64_t sgs_sim_effects(const sgs_sim_disk *disk) { return disk->effects; }

int64_t sgs_sim_calls(const sgs_sim_disk *disk, sgs_sim_call call) { return disk->calls[call]; }

bool sgs_sim_is_off(const sgs_sim_disk *disk) { return disk->is_off; }

void sgs_sim_set_room(sgs_sim_disk *disk, int64_t bytes) { disk->room = bytes; }

void sgs_sim_cut_power_after(sgs_sim_disk *disk, int64_t effects) { disk->cut_after = effects; }

void sgs_sim_fail(sgs_sim_disk *disk, sgs_sim_call call, int64_t nth, int os_error, bool for_ever)
{
    disk->plans[call] =
        (sgs_sim_plan){ .fail_at = nth > 0 ? disk->calls[call] + nth : 0, .os_error = os_error, .for_ever = for_ever };
}

sgs_sim_event sgs_sim_event_of(const sgs_sim_disk *disk, int64_t number)
{
    const sgs_sim_effect *log = sgs_sim_log(disk);
    size_t low = 0, high = sgs_sim_log_length(disk);
    while (low < high) { /* the first of that number; numbers ascend, and a store has that of the effect before it */
        const size_t middle = low + (high - low) / 2;
        if (log[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    const sgs_sim_effect *found = &log[low];
    return (sgs_sim_event){ .call = found->call,
                            .name = sgs_sim_text(disk, found->name_at),
                            .to = sgs_sim_text(disk, found->to_at),
                            .position = found->position,
                            .bytes_count = (int64_t)found->bytes_count,
                            .barrier = found->kind == SGS_SIM_SYNC ? found->barrier : SGS_BARRIER_COUNT };
}
