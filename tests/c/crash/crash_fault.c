/* crash_fault.c - see crash_fault.h. */
#include "crash_fault.h"

#include <string.h>

bool crash_fault_parse(crash_fault *fault, const char *text)
{
    static const char without[] = "--without=";
    if (strcmp(text, "--promise-more") == 0)
        return fault->promises_more = true;
    if (strncmp(text, without, sizeof without - 1) != 0)
        return false;
    for (int number = 0; number < SGS_BARRIER_COUNT; ++number)
        if (strcmp(sgs_barrier_describe((sgs_barrier)number).name, text + sizeof without - 1) == 0)
            fault->without = (sgs_barrier)number;
    return fault->without != SGS_BARRIER_COUNT;
}

sgs_status crash_fault_numbers(const crash_fault *fault, const sgs_sim_disk *disk, sgs_buffer *numbers, sgs_error *err)
{
    const int64_t end = fault->without == SGS_BARRIER_COUNT ? 0 : sgs_sim_effects(disk);
    for (int64_t number = 1; number <= end; ++number)
        if (sgs_sim_event_of(disk, number).barrier == fault->without)
            SGS_TRY(sgs_buffer_append(numbers, &number, sizeof number, err));
    return SGS_OK;
}

void crash_fault_promise(const crash_fault *fault, crash_run *run)
{
    for (size_t i = 0; fault->promises_more && i < run->steps_count; ++i)
        run->steps[i].before.durable = run->steps[i].before.log_end;
}
