/* crash_model.c - see crash_model.h. */
#include "crash_model.h"

#include <string.h>

static int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }
static int64_t smaller(int64_t one, int64_t other) { return one < other ? one : other; }

static int64_t end_of(const model_state *state, size_t count)
{
    return count == 0 ? state->log_start : larger(state->log_start, state->batches[count - 1].last_offset + 1);
}

int64_t model_data_end(const model_state *state) { return end_of(state, state->count); }

void model_apply(model_state *state, const crash_operation *operation, const model_batch *appended)
{
    const int64_t offset = operation->argument;
    switch (operation->kind) {
    case CRASH_append:
        state->batches[state->count++] = *appended;
        state->log_end = appended->last_offset + 1;
        break;
    case CRASH_flush:
    case CRASH_close:
    case CRASH_kill:
        state->durable = state->log_end;
        break;
    case CRASH_truncate_to:
        if (offset >= state->log_end)
            break;
        while (state->count > 0 && state->batches[state->count - 1].last_offset >= offset)
            --state->count;
        state->log_start = smaller(state->log_start, offset);
        state->log_end = state->durable = offset;
        break;
    case CRASH_truncate_fully:
        state->count = 0;
        state->log_start = state->log_end = state->durable = offset;
        break;
    case CRASH_delete_records:
        state->log_start = larger(state->log_start, smaller(offset, state->log_end));
        break;
    case CRASH_roll:
    case CRASH_background:
    case CRASH_new_epoch:
    case CRASH_KINDS_COUNT:
        break;
    }
}

size_t model_during(const model_state *before, const crash_operation *operation, const model_batch *appended,
                    model_state ways[MODEL_WAYS_MAX])
{
    const int64_t offset = operation->argument;
    const bool shortens =
        (operation->kind == CRASH_truncate_to && offset < before->log_end) || operation->kind == CRASH_truncate_fully;
    ways[0] = *before;
    if (operation->kind == CRASH_append) {
        model_apply(&ways[0], operation, appended);
        return 1;
    }
    if (operation->kind != CRASH_delete_records && !shortens)
        return 1;
    ways[1] = *before;
    model_apply(&ways[1], operation, NULL);
    if (operation->kind == CRASH_delete_records)
        return 2;
    if (operation->kind == CRASH_truncate_to && offset > before->log_start) {
        ways[0].durable = smaller(before->durable, offset);
        return 2;
    }
    /* The whole log goes [DUR-18]: what is left is a prefix, which may begin at the new start already, or the empty log. What
     * was deleted before does not come back on the way [DUR-5]. */
    ways[0].durable = 0;
    ways[2] = ways[0];
    ways[2].log_start = larger(offset, before->log_start);
    return 3;
}

/* Whether the readable ones of the first `count` batches are the bytes that were found. */
static bool are_the_bytes(const model_found *found, const model_state *state, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
        const model_batch *const batch = &state->batches[i];
        if (batch->last_offset < state->log_start)
            continue;
        if (batch->size > found->size - at || memcmp(found->bytes + at, batch->bytes, batch->size) != 0)
            return false;
        at += batch->size;
    }
    return at == found->size;
}

/* How many batches are left, as far as the records go that were found; more than there are when it cannot be this state. */
static size_t count_kept(const model_found *found, const model_state *state)
{
    const size_t none = state->count + 1;
    if (found->log_start != state->log_start)
        return none;
    for (size_t kept = state->count + 1; kept-- > 0;) {
        if (kept < state->count) { /* one less: may it be lost? */
            const model_batch *const lost = &state->batches[kept];
            if (lost->last_offset >= state->log_start && lost->last_offset < state->durable)
                return none;
        }
        const int64_t end = end_of(state, kept); /* a truncation may leave a hole behind it */
        const int64_t highest = kept < state->count ? state->batches[kept].base_offset : state->log_end;
        if (found->log_end >= end && found->log_end <= larger(end, highest) && are_the_bytes(found, state, kept))
            return kept;
    }
    return none;
}

bool model_is_possible(const model_found *found, const model_state *state)
{
    return count_kept(found, state) <= state->count;
}

void model_narrow(model_state *state, const model_found *found)
{
    const size_t kept = count_kept(found, state);
    state->count = kept < state->count ? kept : state->count;
    state->log_end = found->log_end;
    state->durable = smaller(state->durable, found->log_end);
}
