/* fault_script.c - see fault_script.h. */
#include "fault_script.h"

#include <errno.h>
#include <inttypes.h>

/* ---- from bytes ---- */

enum { SYNC = 1, HEAP = 2, PREALLOCATE = 4, THOROUGHLY = 7 };

small_log_settings fault_script_settings(uint8_t byte)
{
    static const uint32_t segments[] = { 300, 600, 1200, 100000 }, intervals[] = { 1, 150, 400, 100000 };
    return (small_log_settings){
        .sync = (byte & SYNC) != 0,
        .heap_indexes = (byte & HEAP) != 0,
        .preallocate = (byte & PREALLOCATE) != 0,
        .segment_bytes = segments[byte >> 3 & 3],
        .index_bytes = (byte >> 5 & 1) != 0 ? 24 : 4096,
        .interval_bytes = intervals[byte >> 6],
    };
}

static fault_step call_of(uint8_t a, uint8_t b, uint8_t c)
{
    static const int errors[] = { EIO, ENOSPC, EMFILE, EACCES };
    /* Those that a log makes at all; a kind twice is drawn twice as often. */
    static const sgs_sim_call calls[] = {
        SGS_SIM_ANY_CALL,       SGS_SIM_ANY_CALL,     SGS_SIM_ANY_CALL,       SGS_SIM_ANY_CALL,       SGS_SIM_write_at,
        SGS_SIM_write_at,       SGS_SIM_sync_data,    SGS_SIM_sync_file,      SGS_SIM_sync_directory, SGS_SIM_rename,
        SGS_SIM_unlink,         SGS_SIM_open_file,    SGS_SIM_open_directory, SGS_SIM_read_at,        SGS_SIM_truncate,
        SGS_SIM_allocate_space, SGS_SIM_map,          SGS_SIM_file_info,      SGS_SIM_file_info_at,   SGS_SIM_close,
        SGS_SIM_list_directory, SGS_SIM_sync_mapping,
    };
    return (fault_step){ .kind = FAULT_CALL,
                         .call = calls[a % (sizeof calls / sizeof calls[0])],
                         .number = 1 + b % 64,
                         .os_error = errors[c % 4],
                         .for_ever = (c & 4) != 0 };
}

static fault_step append_of(uint8_t a, uint8_t b)
{
    return (fault_step){ .kind = FAULT_OPERATION, .operation = { CRASH_append, 1 + a % 4, 70 + 4 * b } };
}

static fault_step step_of(const uint8_t bytes[FAULT_STEP_BYTES])
{
    enum { READ = 0, CALL, ALLOCATION, ROOM, HEAL, POWER_CUT, FIRST_OPERATION };
    const uint8_t kind = bytes[0] % 32, a = bytes[1], b = bytes[2], c = bytes[3];
    switch (kind) {
    case READ:
        return (fault_step){ .kind = FAULT_READ };
    case CALL:
        return call_of(a, b, c);
    case ALLOCATION:
        return (fault_step){ .kind = FAULT_ALLOCATION, .number = 1 + a % 32, .for_ever = (c & 4) != 0 };
    case ROOM:
        return (fault_step){ .kind = FAULT_ROOM, .number = 8 * a + b % 8 };
    case HEAL:
        return (fault_step){ .kind = FAULT_HEAL };
    case POWER_CUT:
        return (fault_step){ .kind = FAULT_POWER_CUT, .number = a % 32, .fate = (sgs_sim_fate)(b % 3), .seed = c };
    default:
        break;
    }
    const int operation = kind - FIRST_OPERATION; /* what is left over appends */
    if (operation == CRASH_append || operation >= CRASH_KINDS_COUNT)
        return append_of(a, b);
    return (fault_step){ .kind = FAULT_OPERATION, .operation = { (crash_kind)operation, a, 0 } };
}

void fault_script_decode(fault_script *script, const uint8_t *bytes, size_t size)
{
    uint8_t head[FAULT_HEAD_BYTES] = { 0 };
    for (size_t i = 0; i < size && i < FAULT_HEAD_BYTES; ++i)
        head[i] = bytes[i];
    script->operations = (crash_script){ .settings = fault_script_settings(head[0]) };
    script->thoroughly = (head[1] & THOROUGHLY) == THOROUGHLY; /* one in eight: it takes as long as all the rest */
    script->fate = (sgs_sim_fate)(head[1] >> 3 & 3);
    script->seed = head[2];
    script->count = 0;
    for (size_t at = FAULT_HEAD_BYTES; at + FAULT_STEP_BYTES <= size && script->count < FAULT_STEPS_MAX;
         at += FAULT_STEP_BYTES)
        script->steps[script->count++] = step_of(bytes + at);
}

/* ---- in words ---- */

static void print_step(const fault_step *step, FILE *out)
{
    const crash_script one = { .operations = { step->operation }, .count = 1 };
    char text[CRASH_TEXT_BYTES];
    const char *const how_often = step->for_ever ? "for ever" : "once";
    switch (step->kind) {
    case FAULT_OPERATION:
        (void)fprintf(out, "%s", crash_script_text(&one, text));
        break;
    case FAULT_READ:
        (void)fprintf(out, "read");
        break;
    case FAULT_CALL:
        (void)fprintf(out, "from call %" PRId64 " of %s on: errno %d, %s", step->number, sgs_sim_call_name(step->call),
                      step->os_error, how_often);
        break;
    case FAULT_ALLOCATION:
        (void)fprintf(out, "from allocation %" PRId64 " on: none, %s", step->number, how_often);
        break;
    case FAULT_ROOM:
        (void)fprintf(out, "room for %" PRId64 " bytes", step->number);
        break;
    case FAULT_HEAL:
        (void)fprintf(out, "nothing fails any more");
        break;
    case FAULT_POWER_CUT:
        (void)fprintf(out, "power cut behind %" PRId64 " effects, fate %d, seed %" PRIu64, step->number,
                      (int)step->fate, step->seed);
        break;
    }
}

void fault_script_print(const fault_script *script, FILE *out)
{
    char text[CRASH_TEXT_BYTES];
    (void)fprintf(out, "settings %s\n", crash_settings_text(&script->operations.settings, text));
    for (size_t i = 0; i < script->count; ++i) {
        (void)fprintf(out, "%6zu  ", i + 1);
        print_step(&script->steps[i], out);
        (void)fprintf(out, "\n");
    }
    (void)fprintf(out, "   end  fate %d, seed %" PRIu64 "%s\n", (int)script->fate, script->seed,
                  script->thoroughly ? ", looked at in every way" : "");
}
