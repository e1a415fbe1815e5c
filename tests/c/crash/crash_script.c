/* crash_script.c - see crash_script.h. */
#include "crash_script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

#define CRASH_NAME(name) #name,
static const char *const kind_names[] = { CRASH_KINDS(CRASH_NAME) };
#undef CRASH_NAME

static bool parse_operation(crash_operation *operation, const char *word)
{
    char name[32];
    int argument = 0, bytes = 0;
    const int fields = sscanf(word, "%31[a-z_](%d,%d)", name, &argument, &bytes);
    if (fields < 1)
        return false;
    for (size_t kind = 0; kind < CRASH_KINDS_COUNT; ++kind) {
        if (strcmp(name, kind_names[kind]) != 0)
            continue;
        *operation = (crash_operation){ (crash_kind)kind, argument, bytes };
        return argument >= 0 && bytes >= 0 && bytes <= 4096 &&
               (kind != CRASH_append || (argument > 0 && argument < 16));
    }
    return false;
}

bool crash_script_parse(crash_script *script, const char *operations)
{
    char text[CRASH_TEXT_BYTES], *rest = NULL;
    if (strlen(operations) >= sizeof text)
        return false;
    strcpy(text, operations);
    script->count = 0;
    for (char *word = strtok_r(text, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        if (script->count == CRASH_OPERATIONS_MAX || !parse_operation(&script->operations[script->count++], word))
            return false;
    }
    return script->count > 0;
}

const char *crash_script_text(const crash_script *script, char text[CRASH_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < script->count && used < CRASH_TEXT_BYTES; ++i) {
        const crash_operation *operation = &script->operations[i];
        const char *const name = kind_names[operation->kind], *const gap = i > 0 ? " " : "";
        const size_t room = CRASH_TEXT_BYTES - used;
        int written;
        if (operation->kind == CRASH_append)
            written = snprintf(text + used, room, "%s%s(%d,%d)", gap, name, operation->argument, operation->bytes);
        else if (operation->kind >= CRASH_truncate_to && operation->kind <= CRASH_delete_records)
            written = snprintf(text + used, room, "%s%s(%d)", gap, name, operation->argument);
        else
            written = snprintf(text + used, room, "%s%s", gap, name);
        used += (size_t)written;
    }
    return text;
}

#define SETTINGS_FORM "sync=%d,heap_indexes=%d,preallocate=%d,segment_bytes=%u,index_bytes=%u,interval_bytes=%u"

bool crash_settings_parse(small_log_settings *settings, const char *text)
{
    int sync, heap, preallocate;
    const int fields = sscanf(text, SETTINGS_FORM, &sync, &heap, &preallocate, &settings->segment_bytes,
                              &settings->index_bytes, &settings->interval_bytes);
    settings->sync = sync != 0;
    settings->heap_indexes = heap != 0;
    settings->preallocate = preallocate != 0;
    return fields == 6;
}

const char *crash_settings_text(const small_log_settings *settings, char text[CRASH_TEXT_BYTES])
{
    (void)snprintf(text, CRASH_TEXT_BYTES, SETTINGS_FORM, settings->sync, settings->heap_indexes, settings->preallocate,
                   settings->segment_bytes, settings->index_bytes, settings->interval_bytes);
    return text;
}

/* ---- every script of some length ---- */

/* Batches 0-1 2 3-5 6 7-8, in three segments, and the log goes on at 9. */
static const crash_operation prelude[] = {
    { CRASH_append, 2, 90 }, { CRASH_append, 1, 80 }, { CRASH_roll, 0, 0 },    { CRASH_append, 3, 100 },
    { CRASH_append, 1, 80 }, { CRASH_roll, 0, 0 },    { CRASH_append, 2, 90 }, { CRASH_flush, 0, 0 },
};

static const crash_operation alphabet[] = {
    { CRASH_append, 1, 80 },        { CRASH_append, 3, 600 },       { CRASH_flush, 0, 0 },
    { CRASH_roll, 0, 0 },           { CRASH_truncate_to, 8, 0 },    { CRASH_truncate_to, 4, 0 }, /* inside batches */
    { CRASH_truncate_to, 7, 0 },    { CRASH_truncate_fully, 2, 0 }, { CRASH_truncate_fully, 20, 0 },
    { CRASH_delete_records, 4, 0 }, { CRASH_delete_records, 9, 0 }, { CRASH_background, 0, 0 },
    { CRASH_new_epoch, 0, 0 },      { CRASH_close, 0, 0 },          { CRASH_kill, 0, 0 },
};

static const small_log_settings settings_of_all[] = {
    { .segment_bytes = 400, .index_bytes = 4096, .interval_bytes = 60 },
    { .sync = true, .segment_bytes = 100000, .index_bytes = 24, .interval_bytes = 1 },
    { .preallocate = true, .segment_bytes = 1000, .index_bytes = 4096, .interval_bytes = 150 },
    { .heap_indexes = true, .sync = true, .segment_bytes = 300, .index_bytes = 4096, .interval_bytes = 1 },
};

size_t crash_alphabet_count(void) { return sizeof alphabet / sizeof alphabet[0]; }

size_t crash_settings_count(void) { return sizeof settings_of_all / sizeof settings_of_all[0]; }

void crash_script_of_number(crash_script *script, size_t settings, int length, size_t number)
{
    script->settings = settings_of_all[settings];
    script->count = sizeof prelude / sizeof prelude[0];
    memcpy(script->operations, prelude, sizeof prelude);
    for (int i = 0; i < length; ++i) {
        script->operations[script->count++] = alphabet[number % crash_alphabet_count()];
        number /= crash_alphabet_count();
    }
}

/* ---- a script by chance ---- */

uint64_t crash_draw(uint64_t *random)
{
    uint64_t value = *random += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

static int32_t draw_below(uint64_t *random, int32_t limit) { return (int32_t)(crash_draw(random) % (uint64_t)limit); }

static small_log_settings draw_settings(uint64_t *random)
{
    static const uint32_t segments[] = { 300, 600, 1200, 100000 }, indexes[] = { 24, 4096 },
                          intervals[] = { 1, 150, 400 };
    return (small_log_settings){
        .sync = draw_below(random, 3) == 0,
        .heap_indexes = draw_below(random, 4) == 0,
        .preallocate = draw_below(random, 5) == 0,
        .segment_bytes = segments[draw_below(random, 4)],
        .index_bytes = indexes[draw_below(random, 2)],
        .interval_bytes = intervals[draw_below(random, 3)],
    };
}

static crash_operation draw_append(uint64_t *random)
{
    static const int32_t bytes[] = { 70, 70, 90, 130, 200, 520, 1100 };
    return (crash_operation){ CRASH_append, 1 + draw_below(random, 4), bytes[draw_below(random, 7)] };
}

void crash_script_of_seed(crash_script *script, uint64_t seed)
{
    static const crash_kind kinds[] = {
        CRASH_flush,          CRASH_flush,          CRASH_roll,       CRASH_truncate_to, CRASH_truncate_to,
        CRASH_truncate_fully, CRASH_delete_records, CRASH_background, CRASH_background,  CRASH_new_epoch,
        CRASH_close,          CRASH_kill,           CRASH_kill
    };
    uint64_t random = seed;
    int32_t end = 0; /* about where the log ends: offsets are drawn up to there */
    script->settings = draw_settings(&random);
    script->count = 3 + (size_t)draw_below(&random, 14);
    for (size_t i = 0; i < script->count; ++i) {
        crash_operation *operation = &script->operations[i];
        if (draw_below(&random, 2) == 0) {
            *operation = draw_append(&random);
            end += operation->argument;
            continue;
        }
        *operation = (crash_operation){ kinds[draw_below(&random, sizeof kinds / sizeof kinds[0])], 0, 0 };
        if (operation->kind == CRASH_truncate_to)
            end = operation->argument = draw_below(&random, end + 1);
        else if (operation->kind == CRASH_truncate_fully)
            end = operation->argument = draw_below(&random, end + 6);
        else if (operation->kind == CRASH_delete_records)
            operation->argument = draw_below(&random, end + 1);
    }
}
