/* segment_kit.c - see segment_kit.h. */
#include "segment_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"
#include "test.h"

void segment_kit_open(segment_kit *kit)
{
    const temporary directory = temporary_open();
    segment_kit_open_on(kit, sgs_env_posix(), directory.fd);
    kit->directory = directory;
}

void segment_kit_open_on(segment_kit *kit, const sgs_env *base, int directory_fd)
{
    memset(kit, 0, sizeof *kit);
    memory_env_init(&kit->memory, base);
    kit->codecs.max_decompressed_batch_bytes = 1 << 20;
    kit->codecs.max_record_bytes = 1 << 20;
    sgs_header_cache_init(&kit->cache, sgs_env_memory(&kit->memory.env));
    sgs_header_view_init(&kit->headers, &kit->cache);
    kit->context = (sgs_segment_context){
        .env = &kit->memory.env,
        .directory_fd = directory_fd,
        .writable = true,
        .index_interval_bytes = 4096,
        .max_index_bytes = 10485760,
        .segment_bytes = 1 << 20,
        .max_batch_bytes = INT32_MAX,
        .codecs = &kit->codecs,
        .headers = &kit->headers,
    };
}

void segment_kit_close(segment_kit *kit)
{
    if (kit->segment != NULL)
        EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    kit->segment = NULL;
    sgs_header_cache_deinit(&kit->cache);
    EXPECT_TRUE(memory_env_is_balanced(&kit->memory));
    if (kit->directory.path[0] != '\0')
        temporary_close(&kit->directory);
}

sgs_status segment_kit_segment(segment_kit *kit, int64_t base_offset, bool create)
{
    return sgs_log_segment_open(&kit->context, base_offset, SGS_SUFFIX_NONE, create, &kit->segment, &kit->err);
}

sgs_status segment_kit_crash(segment_kit *kit)
{
    const int64_t base_offset = sgs_log_segment_base_offset(kit->segment);
    sgs_log_segment_close_quietly(kit->segment);
    kit->segment = NULL;
    return segment_kit_segment(kit, base_offset, false);
}

/* Records behind the header; the last one takes `value_size` bytes of value. */
static size_t write_records(uint8_t *out, size_t room, int32_t records, size_t value_size)
{
    static const uint8_t value[1 << 16];
    const sgs_bytes none = { .data = NULL, .size = -1 };
    uint8_t *large = NULL;
    const uint8_t *data = value;
    if (value_size > sizeof value) {
        large = calloc(1, value_size);
        data = large;
    }
    size_t used = 0;
    for (int32_t i = 0; i < records; ++i) {
        const sgs_bytes bytes = { .data = data, .size = i == records - 1 ? (int32_t)value_size : 0 };
        const size_t size = (size_t)sgs_record_size(i, i, none, bytes, NULL, 0);
        if (out != NULL) {
            if (used + size > room) {
                printf("segment_kit_batch: no room\n");
                exit(99);
            }
            (void)sgs_record_write(out + used, i, i, none, bytes, NULL, 0);
        }
        used += size;
    }
    free(large);
    return used;
}

size_t segment_kit_batch(uint8_t *out, size_t room, int64_t base_offset, int32_t records, int64_t timestamp,
                         size_t size)
{
    const size_t least = SGS_BATCH_HEADER_BYTES + write_records(NULL, 0, records, 0);
    size_t value_size = size > least ? size - least : 0;
    /* the varints of the sizes take up to some bytes of it */
    while (value_size > 0 && size > 0 && SGS_BATCH_HEADER_BYTES + write_records(NULL, 0, records, value_size) > size)
        --value_size;
    const size_t total = SGS_BATCH_HEADER_BYTES + write_records(out + SGS_BATCH_HEADER_BYTES,
                                                                room - SGS_BATCH_HEADER_BYTES, records, value_size);
    const sgs_batch_header header = {
        .base_offset = base_offset,
        .last_offset = base_offset + (records - 1),
        .base_timestamp = timestamp,
        .max_timestamp = timestamp < 0 ? -1 : timestamp + records - 1,
        .producer_id = SGS_NO_PRODUCER_ID,
        .producer_epoch = SGS_NO_PRODUCER_EPOCH,
        .base_sequence = SGS_NO_SEQUENCE,
        .partition_leader_epoch = 3,
        .records_count = records,
        .size_bytes = (int32_t)total,
        .magic = 2,
    };
    sgs_batch_header_store(&header, out);
    (void)sgs_batch_seal(out, total);
    return total;
}

sgs_status segment_kit_append(segment_kit *kit, int64_t base_offset, int32_t records, int64_t timestamp, size_t size)
{
    const size_t room = size + 64 + (size_t)records * 32;
    uint8_t *bytes = malloc(room);
    sgs_batch_header row;
    const size_t total = segment_kit_batch(bytes, room, base_offset, records, timestamp, size);
    sgs_status status = sgs_batch_header_load(bytes, total, 0, &row, &kit->err);
    const sgs_slice slice = { bytes, total };
    if (status == SGS_OK)
        status = sgs_log_segment_append(kit->segment, &slice, 1, &row, 1, &kit->poisoned, &kit->err);
    free(bytes);
    return status;
}

void segment_kit_fill(segment_kit *kit, int count, size_t size)
{
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, i * 10, size), &kit->err);
}

sgs_status segment_kit_flush(segment_kit *kit, bool indexes)
{
    return sgs_log_segment_flush(kit->segment, indexes, SGS_BARRIER(APPENDED_RECORDS), &kit->err);
}

int64_t segment_kit_file_size(const segment_kit *kit, sgs_segment_file kind)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_file_name(sgs_log_segment_base_offset(kit->segment), kind, SGS_SUFFIX_NONE, name);
    return temporary_read(&kit->directory, name, NULL, 0);
}

int64_t segment_kit_read_offset(segment_kit *kit, int64_t offset)
{
    const sgs_segment_read request = {
        .start_offset = offset,
        .max_size = 1,
        .max_position = sgs_log_segment_size(kit->segment),
        .min_one_message = true,
    };
    sgs_buffer out;
    sgs_segment_fetch fetch;
    sgs_batch_header row;
    int64_t answer = -2;
    sgs_buffer_init(&out, sgs_env_memory(&kit->memory.env));
    if (sgs_log_segment_read(kit->segment, &request, &out, &fetch, &kit->err) == SGS_OK) {
        answer = -1;
        if (fetch.found &&
            (out.size != (size_t)fetch.size || sgs_batch_check(out.data, out.size, 0, &kit->err) != SGS_OK ||
             sgs_batch_header_load(out.data, out.size, 0, &row, &kit->err) != SGS_OK))
            answer = -2;
        else if (fetch.found)
            answer = row.base_offset == fetch.base_offset && row.last_offset >= offset ? row.base_offset : -2;
    }
    sgs_buffer_deinit(&out);
    return answer;
}

uint32_t segment_kit_offset_entries(segment_kit *kit)
{
    sgs_offset_index *index;
    EXPECT_OK(sgs_log_segment_offset_index(kit->segment, &index, &kit->err), &kit->err);
    return sgs_abstract_index_entries(&index->base);
}

uint32_t segment_kit_time_entries(segment_kit *kit)
{
    sgs_time_index *index;
    EXPECT_OK(sgs_log_segment_time_index(kit->segment, &index, &kit->err), &kit->err);
    return sgs_abstract_index_entries(&index->base);
}

void segment_kit_entry_is(segment_kit *kit, uint32_t n, int64_t offset, int32_t position)
{
    sgs_offset_index *index;
    sgs_offset_position entry = { -1, -1 };
    EXPECT_OK(sgs_log_segment_offset_index(kit->segment, &index, &kit->err), &kit->err);
    EXPECT_OK(sgs_offset_index_entry(index, n, &entry, &kit->err), &kit->err);
    EXPECT_EQ_I64(entry.offset, offset);
    EXPECT_EQ_I64(entry.position, position);
}

void segment_kit_time_entry_is(segment_kit *kit, uint32_t n, int64_t timestamp, int64_t offset)
{
    sgs_time_index *index;
    sgs_timestamp_offset entry = { -7, -7 };
    EXPECT_OK(sgs_log_segment_time_index(kit->segment, &index, &kit->err), &kit->err);
    EXPECT_OK(sgs_time_index_entry(index, n, &entry, &kit->err), &kit->err);
    EXPECT_EQ_I64(entry.timestamp, timestamp);
    EXPECT_EQ_I64(entry.offset, offset);
}

int64_t segment_kit_next_offset(segment_kit *kit)
{
    int64_t next = -1;
    bool ends_clean = false;
    EXPECT_OK(sgs_log_segment_read_next_offset(kit->segment, &next, &ends_clean, &kit->err), &kit->err);
    EXPECT_TRUE(ends_clean);
    return next;
}

int64_t segment_kit_max_timestamp(segment_kit *kit)
{
    sgs_timestamp_offset found = { -7, -7 };
    bool is_partial = false;
    EXPECT_OK(sgs_log_segment_max_timestamp(kit->segment, &found, &is_partial, &kit->err), &kit->err);
    return found.timestamp;
}

int32_t segment_kit_truncate_to(segment_kit *kit, int64_t offset)
{
    int32_t bytes_cut = -1;
    EXPECT_OK(sgs_log_segment_truncate_to(kit->segment, offset, &bytes_cut, &kit->err), &kit->err);
    return bytes_cut;
}

sgs_scan_options segment_kit_strict_scan(void)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = true;
    return options;
}

sgs_recovery segment_kit_recover(segment_kit *kit, int64_t cut_at)
{
    const sgs_scan_options options = segment_kit_strict_scan();
    sgs_recovery recovery = { .truncated_bytes = -1 };
    EXPECT_OK(sgs_log_segment_recover(kit->segment, &options, cut_at, NULL, &recovery, &kit->err), &kit->err);
    return recovery;
}
