/* barrier.c - the list of barriers as text, for messages, tests and documents. */
#include "io/barrier.h"

#include "base/status.h"

#define SYNC_TEXT(id, kind, rules, without) { #id, SGS_BARRIER_IS_##kind, rules, without },
#define FILE_TEXT(id, rules, kind, without, name_kind, name_without) \
    { #id "_CONTENT", SGS_BARRIER_IS_##kind, rules, without },       \
        { #id "_NAME", SGS_BARRIER_IS_##name_kind, rules, name_without },

static const sgs_barrier_text texts[SGS_BARRIER_COUNT] = { SGS_BARRIERS(SYNC_TEXT, FILE_TEXT) };

sgs_barrier_text sgs_barrier_describe(sgs_barrier barrier)
{
    SGS_EXPECT((unsigned)barrier < SGS_BARRIER_COUNT);
    return texts[barrier];
}
