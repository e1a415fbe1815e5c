/* env_sim_crash.c - what is left of a simulated disk after a crash.
 *
 * For each file and each directory by itself: what was done to it before its last sync is there; for the rest, its
 * "pending" effects in their order, a style is drawn - all lost, all kept, kept up to one of them, or each piece by
 * itself. The image begins with all that is left, synced. */
#include <string.h>

#include "io/env_sim_state.h"

enum { SMALL_BLOCK_BYTES = 512, LARGE_BLOCK_BYTES = 4096 };

typedef enum style { LOST, KEPT, A_BEGINNING, PIECES } style;

typedef struct builder {
    const sgs_sim_disk *disk;
    const sgs_sim_crash *crash;
    sgs_sim_disk *image;
    size_t log_end; /* effects before the crash */
    uint64_t random;
    int64_t block_bytes;
    sgs_buffer pending; /* const sgs_sim_effect *, of one node */
    sgs_buffer before;  /* as pending: those before the last sync */
    sgs_buffer state;   /* of one file, on the way */
    sgs_buffer result;  /* of one file */
} builder;

/* splitmix64 */
static uint64_t draw(builder *build)
{
    uint64_t value = build->random += 0x9E3779B97F4A7C15U;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

static size_t draw_below(builder *build, size_t limit)
{
    SGS_EXPECT(limit > 0);
    return (size_t)(draw(build) % limit);
}

static style draw_style(builder *build)
{
    if (build->crash->fate != SGS_SIM_BY_SEED)
        return build->crash->fate == SGS_SIM_ALL_LOST ? LOST : KEPT;
    static const style styles[] = { LOST, KEPT, A_BEGINNING, A_BEGINNING, PIECES, PIECES, PIECES, PIECES };
    return styles[draw_below(build, sizeof styles / sizeof styles[0])];
}

static bool is_ignored(const sgs_sim_crash *crash, int64_t number)
{
    for (size_t i = 0; i < crash->ignored_count; ++i)
        if (crash->ignored[i] == number)
            return true;
    return false;
}

/* What is pending loses its bytes: a sync failed, and no later one writes them. Names and sizes are the file system's own,
 * and stay. */
static void drop_bytes(sgs_buffer *pending)
{
    const sgs_sim_effect **effects = (const sgs_sim_effect **)(void *)pending->data;
    const size_t count = pending->size / sizeof *effects;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i)
        if (effects[i]->kind != SGS_SIM_WRITE && effects[i]->kind != SGS_SIM_STORE)
            effects[kept++] = effects[i];
    SGS_EXPECT(kept <= count);
    pending->size = kept * sizeof *effects;
}

/* Sort the effects on one node into those before its last sync and those that are pending. */
static sgs_status collect(builder *build, uint32_t node, sgs_error *err)
{
    SGS_EXPECT(build->log_end <= sgs_sim_log_length(build->disk));
    const sgs_sim_effect *log = sgs_sim_log(build->disk);
    sgs_status status = SGS_OK;
    sgs_buffer_clear(&build->before);
    sgs_buffer_clear(&build->pending);
    for (size_t i = 0; status == SGS_OK && i < build->log_end; ++i) {
        const sgs_sim_effect *effect = &log[i];
        SGS_EXPECT(i == 0 || log[i - 1].number <= effect->number); /* numbers ascend */
        if (effect->node != node || effect->kind == SGS_SIM_NOTHING)
            continue;
        if (effect->kind == SGS_SIM_DROP) {
            drop_bytes(&build->pending);
        } else if (effect->kind != SGS_SIM_SYNC) {
            status = sgs_buffer_append(&build->pending, &effect, sizeof effect, err);
        } else if (!is_ignored(build->crash, effect->number)) {
            status = sgs_buffer_append(&build->before, build->pending.data, build->pending.size, err);
            sgs_buffer_clear(&build->pending);
        }
    }
    return status;
}

static const sgs_sim_effect *const *effects_in(const sgs_buffer *buffer, size_t *count)
{
    *count = buffer->size / sizeof(const sgs_sim_effect *);
    return (const sgs_sim_effect *const *)buffer->data;
}

/* ---- directories ---- */

static sgs_status keep_change(builder *build, uint32_t directory, const sgs_sim_effect *change, sgs_error *err)
{
    SGS_EXPECT(sgs_sim_node_at(build->image, directory)->is_directory && change->node == directory);
    sgs_sim_effect copy = *change; /* names of the copy are those of the disk: the image has its bytes */
    copy.number = 0;
    copy.node = directory;
    return sgs_sim_replay(build->image, &copy, err);
}

static sgs_status sync_node(builder *build, uint32_t node, sgs_error *err)
{
    const sgs_sim_effect sync = { .kind = SGS_SIM_SYNC, .node = node };
    return sgs_sim_replay(build->image, &sync, err);
}

static sgs_status build_directory(builder *build, uint32_t node, sgs_error *err)
{
    size_t count;
    const sgs_sim_effect *const *before = effects_in(&build->before, &count);
    sgs_status status = SGS_OK;
    for (size_t i = 0; status == SGS_OK && i < count; ++i)
        status = keep_change(build, node, before[i], err);

    const sgs_sim_effect *const *pending = effects_in(&build->pending, &count);
    const style chosen = draw_style(build);
    const size_t end = chosen == A_BEGINNING ? draw_below(build, count + 1) : count;
    for (size_t i = 0; status == SGS_OK && chosen != LOST && i < end; ++i)
        if (chosen != PIECES || draw_below(build, 2) == 0)
            status = keep_change(build, node, pending[i], err);
    return status == SGS_OK ? sync_node(build, node, err) : status;
}

/* ---- files ---- */

static sgs_status make_longer(sgs_buffer *bytes, int64_t size, sgs_error *err)
{
    if (size <= (int64_t)bytes->size)
        return SGS_OK;
    const size_t more = (size_t)size - bytes->size;
    const sgs_status status = sgs_buffer_reserve(bytes, more, err);
    if (status == SGS_OK) {
        memset(bytes->data + bytes->size, 0, more);
        bytes->size += more;
    }
    return status;
}

static sgs_status apply_to_state(builder *build, const sgs_sim_effect *effect, sgs_error *err)
{
    sgs_buffer *state = &build->state;
    SGS_EXPECT(effect->position >= 0 && effect->bytes_at + effect->bytes_count <= build->disk->bytes.size);
    const int64_t end = effect->position + (int64_t)effect->bytes_count; /* of a resize: the size */
    const sgs_status status = make_longer(state, end, err);
    if (status != SGS_OK)
        return status;
    if (effect->kind == SGS_SIM_RESIZE)
        state->size = (size_t)end;
    else if (effect->bytes_count > 0)
        memcpy(state->data + effect->position, build->disk->bytes.data + effect->bytes_at, effect->bytes_count);
    return SGS_OK;
}

/* A block of the result as the state has it now; what the state does not reach is zero. */
static void copy_block(builder *build, int64_t from, int64_t end)
{
    SGS_EXPECT(from >= 0 && from < end && end <= (int64_t)build->result.size);
    const int64_t there = (int64_t)build->state.size;
    const int64_t copied = there < from ? from : there < end ? there : end;
    if (copied > from)
        memcpy(build->result.data + from, build->state.data + from, (size_t)(copied - from));
    memset(build->result.data + copied, 0, (size_t)(end - copied));
}

/* Each block as it was after some number of the pending effects, drawn once a block. */
static sgs_status build_pieces(builder *build, const sgs_sim_effect *const *pending, size_t count, sgs_error *err)
{
    int64_t longest = (int64_t)build->state.size;
    for (size_t i = 0; i < count; ++i) {
        const int64_t end = pending[i]->position + (int64_t)pending[i]->bytes_count;
        longest = end > longest ? end : longest;
    }
    const size_t blocks = (size_t)((longest + build->block_bytes - 1) / build->block_bytes);
    const size_t size_after = draw_below(build, count + 1);
    const uint64_t seed = draw(build);
    size_t size = 0;
    sgs_buffer_clear(&build->result);
    sgs_status status = make_longer(&build->result, longest, err);
    for (size_t done = 0; status == SGS_OK && done <= count; ++done) {
        if (done > 0)
            status = apply_to_state(build, pending[done - 1], err);
        if (done == size_after)
            size = build->state.size;
        build->random = seed; /* the same numbers in each round: one a block */
        for (size_t block = 0; status == SGS_OK && block < blocks; ++block) {
            const int64_t from = (int64_t)block * build->block_bytes;
            const int64_t end = from + build->block_bytes < longest ? from + build->block_bytes : longest;
            if (draw_below(build, count + 1) == done)
                copy_block(build, from, end);
        }
    }
    SGS_EXPECT(status != SGS_OK || (int64_t)size <= longest);
    build->result.size = size;
    return status;
}

static sgs_status keep_file(builder *build, uint32_t node, const sgs_buffer *content, sgs_error *err)
{
    SGS_EXPECT(sgs_sim_node_at(build->image, node)->size == 0); /* built once */
    sgs_sim_effect write = { .kind = SGS_SIM_WRITE, .node = node, .bytes_count = content->size };
    sgs_status status = sgs_sim_keep_bytes(build->image, content->data, content->size, &write.bytes_at, err);
    if (status == SGS_OK)
        status = sgs_sim_replay(build->image, &write, err);
    return status == SGS_OK ? sync_node(build, node, err) : status;
}

static sgs_status build_file(builder *build, uint32_t node, sgs_error *err)
{
    size_t count;
    const sgs_sim_effect *const *before = effects_in(&build->before, &count);
    sgs_status status = SGS_OK;
    sgs_buffer_clear(&build->state);
    for (size_t i = 0; status == SGS_OK && i < count; ++i)
        status = apply_to_state(build, before[i], err);

    const sgs_sim_effect *const *pending = effects_in(&build->pending, &count);
    const style chosen = draw_style(build);
    if (status == SGS_OK && chosen == PIECES) {
        status = build_pieces(build, pending, count, err);
        return status == SGS_OK ? keep_file(build, node, &build->result, err) : status;
    }
    size_t end = chosen == LOST ? 0 : count;
    if (chosen == A_BEGINNING)
        end = draw_below(build, count + 1);
    for (size_t i = 0; status == SGS_OK && i < end; ++i)
        status = apply_to_state(build, pending[i], err);
    return status == SGS_OK ? keep_file(build, node, &build->state, err) : status;
}

/* ---- the image ---- */

static sgs_status build_image(builder *build, sgs_error *err)
{
    build->random = build->crash->seed;
    build->block_bytes = draw_below(build, 2) == 0 ? SMALL_BLOCK_BYTES : LARGE_BLOCK_BYTES;
    sgs_status status = SGS_OK;
    for (uint32_t node = 0; status == SGS_OK && node < sgs_sim_node_count(build->disk); ++node) {
        status = collect(build, node, err);
        if (status == SGS_OK && sgs_sim_node_at(build->disk, node)->is_directory)
            status = build_directory(build, node, err);
        else if (status == SGS_OK)
            status = build_file(build, node, err);
    }
    return status;
}

/* Another process, the same disk: everything is there, and as much of it is synced as before. */
static sgs_status repeat_log(builder *build, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (size_t i = 0; status == SGS_OK && i < build->log_end; ++i)
        status = sgs_sim_replay(build->image, &sgs_sim_log(build->disk)[i], err);
    SGS_EXPECT(status != SGS_OK || sgs_sim_log_length(build->image) == build->log_end);
    build->image->effects = build->crash->effects;
    return status;
}

static sgs_status begin(builder *build, uint64_t device, sgs_error *err)
{
    const sgs_sim_disk *disk = build->disk;
    sgs_status status = sgs_sim_open(disk->base, device, &build->image, err);
    if (status != SGS_OK)
        return status;
    build->image->wall_clock_ms = disk->wall_clock_ms;
    build->image->monotonic_ns = disk->monotonic_ns;
    sgs_buffer_clear(&build->image->bytes);
    status = sgs_buffer_append(&build->image->bytes, disk->bytes.data, disk->bytes.size, err);
    for (uint32_t node = SGS_SIM_ROOT + 1; status == SGS_OK && node < sgs_sim_node_count(disk); ++node) {
        uint32_t same;
        status = sgs_sim_add_node(build->image, sgs_sim_node_at(disk, node)->is_directory, &same, err);
        SGS_EXPECT(status != SGS_OK || same == node);
    }
    while (build->log_end < sgs_sim_log_length(disk) &&
           sgs_sim_log(disk)[build->log_end].number <= build->crash->effects)
        ++build->log_end;
    return status;
}

sgs_status sgs_sim_crash_image(sgs_sim_disk *disk, const sgs_sim_crash *crash, uint64_t device, sgs_sim_disk **image,
                               sgs_error *err)
{
    sgs_sim_crash wanted = *crash;
    if (wanted.effects < 0 || wanted.effects > disk->effects)
        wanted.effects = disk->effects;
    SGS_EXPECT(crash->ignored_count == 0 || crash->ignored != NULL);
    builder build = { .disk = disk, .crash = &wanted };
    const sgs_memory memory = sgs_env_memory(disk->base);
    sgs_buffer_init(&build.pending, memory);
    sgs_buffer_init(&build.before, memory);
    sgs_buffer_init(&build.state, memory);
    sgs_buffer_init(&build.result, memory);

    sgs_status status = disk->is_off ? SGS_OK : sgs_sim_notice_stores(disk, err);
    if (status == SGS_OK)
        status = begin(&build, device, err);
    if (status == SGS_OK)
        status = wanted.fate == SGS_SIM_KILLED ? repeat_log(&build, err) : build_image(&build, err);

    sgs_buffer_deinit(&build.pending);
    sgs_buffer_deinit(&build.before);
    sgs_buffer_deinit(&build.state);
    sgs_buffer_deinit(&build.result);
    if (status != SGS_OK)
        sgs_sim_close(build.image);
    else
        *image = build.image;
    return status;
}
