/* columns_latest.c - of a chunk of parsed records, those that are the last ones of their keys. */
#include "record/columns_state.h"

/* All keys are hashed before the map is asked for the first: meanwhile its slots come from memory. */
static void hash_keys(const sgs_offset_map *map, const sgs_chunk *chunk, sgs_key_hash *hashes)
{
    for (int64_t i = 0; i < chunk->rows; ++i)
        if (chunk->key_sizes[i] >= 0)
            sgs_offset_map_hash(map, chunk->keys[i], (size_t)chunk->key_sizes[i], &hashes[i]);
}

static sgs_status note_keys(sgs_offset_map *map, sgs_chunk *chunk, sgs_error *err)
{
    sgs_key_hash hashes[SGS_CHUNK_ROWS];
    SGS_TRY(sgs_offset_map_reserve(map, (int32_t)chunk->rows, err)); /* a hash asks for a slot where it is now */
    hash_keys(map, chunk, hashes);
    for (int64_t i = 0; i < chunk->rows; ++i)
        if (chunk->key_sizes[i] >= 0)
            SGS_TRY(sgs_offset_map_put_hashed(map, &hashes[i], chunk->offsets[i], err));
    return SGS_OK;
}

static void move_row(sgs_chunk *chunk, int64_t from, int64_t to)
{
    chunk->offsets[to] = chunk->offsets[from];
    chunk->timestamps[to] = chunk->timestamps[from];
    chunk->keys[to] = chunk->keys[from];
    chunk->key_sizes[to] = chunk->key_sizes[from];
    chunk->values[to] = chunk->values[from];
    chunk->value_sizes[to] = chunk->value_sizes[from];
    chunk->headers[to] = chunk->headers[from];
    chunk->headers_sizes[to] = chunk->headers_sizes[from];
    chunk->header_counts[to] = chunk->header_counts[from];
}

static void keep_latest(const sgs_offset_map *map, sgs_chunk *chunk)
{
    sgs_key_hash hashes[SGS_CHUNK_ROWS];
    const int64_t count = chunk->rows;
    hash_keys(map, chunk, hashes);
    chunk->rows = 0;
    chunk->key_bytes = chunk->value_bytes = 0;
    chunk->key_nulls = chunk->value_nulls = chunk->headers_count = chunk->headerless_rows = 0;
    for (int64_t i = 0; i < count; ++i) {
        if (chunk->key_sizes[i] < 0 || chunk->value_sizes[i] < 0 ||
            sgs_offset_map_get_hashed(map, &hashes[i]) != chunk->offsets[i])
            continue;
        move_row(chunk, i, chunk->rows++);
        chunk->key_bytes += (size_t)chunk->key_sizes[chunk->rows - 1];
        chunk->value_bytes += (size_t)chunk->value_sizes[chunk->rows - 1];
        chunk->headers_count += chunk->header_counts[chunk->rows - 1];
        chunk->headerless_rows += chunk->header_counts[chunk->rows - 1] == 0;
    }
}

sgs_status sgs_columns_latest(sgs_columns *columns, sgs_error *err)
{
    sgs_offset_map *const map = columns->options.last_offsets;
    if (!columns->options.notes_last_offsets) {
        keep_latest(map, &columns->chunk);
        return SGS_OK;
    }
    SGS_TRY(note_keys(map, &columns->chunk, err));
    columns->chunk.rows = 0;
    return SGS_OK;
}
