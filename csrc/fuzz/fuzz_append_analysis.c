/* What a client, a leader or a snapshot sends may be any bytes. The checks before an append must find the first rule that
 * is broken, in Kafka's order, and say of what is good as much as the batches say. [format.md 12.1, APP-4, DUR-85]
 * INPUT   1 byte origin, 1 byte leader epoch, 2 bytes largest message, then the run of batches.
 * ORACLE  the rules one after the other, over plain_scan.c. */
#include "record/append_analysis.h"

#include <string.h>

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/plain_scan.h"
#include "record_kit.h"

enum { PARAMETERS_BYTES = 4, BATCHES_MAX = 256, BATCHES_BYTES_MAX = BATCHES_MAX * 26 };

static bool keeps_offsets(const sgs_append_rules *rules)
{
    return rules->origin != SGS_ORIGIN_CLIENT && rules->origin != SGS_ORIGIN_COORDINATOR;
}

static int codec_of(const uint8_t *data, const plain_batch *batch)
{
    return data[batch->position + (batch->magic < 2 ? 17 : 22)] & 7;
}

static sgs_append_refusal plain_refusal(const sgs_append_rules *rules, const uint8_t *data, const plain_batch *batch,
                                        int64_t previous_offset)
{
    if (rules->origin == SGS_ORIGIN_RAFT_LEADER && batch->epoch != rules->leader_epoch)
        return SGS_APPEND_OTHER_EPOCH;
    if (rules->origin == SGS_ORIGIN_CLIENT && batch->magic == 2 && batch->base_offset != 0)
        return SGS_APPEND_BASE_OFFSET;
    if (rules->origin != SGS_ORIGIN_REPLICATION && batch->size > rules->max_message_bytes)
        return SGS_APPEND_TOO_LARGE;
    if (!plain_crc_is_right(data + batch->position, batch->size))
        return SGS_APPEND_DAMAGED;
    if (keeps_offsets(rules) && batch->last_offset <= previous_offset)
        return SGS_APPEND_OUT_OF_ORDER;
    if (codec_of(data, batch) > 4)
        return SGS_APPEND_UNKNOWN_CODEC;
    return SGS_APPEND_ACCEPTED;
}

static sgs_append_analysis plain_analysis(const sgs_append_rules *rules, const uint8_t *data, int64_t size)
{
    static plain_batch batches[BATCHES_MAX];
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
    options.check_crc = false;
    const plain_scan scan = plain_scan_run(&options, data, size, batches, BATCHES_MAX);
    sgs_append_analysis analysis = {
        .first_offset = -1, .last_offset = -1, .max_timestamp = -1, .last_leader_epoch = -1
    };
    for (int64_t i = 0; i < scan.batches_count; ++i) {
        const plain_batch *const batch = &batches[i];
        if (rules->origin == SGS_ORIGIN_REPLICATION && batch->epoch != -1 && batch->epoch > rules->leader_epoch)
            break; /* of a newer leader: the follower asks that one */
        analysis.refusal = plain_refusal(rules, data, batch, analysis.last_offset);
        if (analysis.refusal != SGS_APPEND_ACCEPTED)
            return analysis;
        if (i == 0)
            analysis.first_offset = batch->base_offset;
        analysis.batches_count = (size_t)i + 1;
        analysis.valid_bytes = batch->position + batch->size;
        analysis.last_offset = batch->last_offset;
        analysis.last_leader_epoch = (int32_t)batch->epoch;
        if (batch->max_timestamp > analysis.max_timestamp)
            analysis.max_timestamp = batch->max_timestamp;
        if (codec_of(data, batch) != 0)
            analysis.source_codec = codec_of(data, batch);
    }
    if (scan.stop == SGS_SCAN_CORRUPT)
        analysis.refusal = SGS_APPEND_DAMAGED;
    return analysis;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    static const sgs_append_origin origins[] = { SGS_ORIGIN_CLIENT, SGS_ORIGIN_COORDINATOR, SGS_ORIGIN_REPLICATION,
                                                 SGS_ORIGIN_RAFT_LEADER };
    sgs_append_rules rules = { .origin = origins[fuzz_take_u8(&input) % 4] };
    rules.leader_epoch = (int8_t)fuzz_take_u8(&input);
    rules.max_message_bytes = fuzz_take_u16(&input);
    if (input.size > BATCHES_BYTES_MAX)
        input.size = BATCHES_BYTES_MAX;
    static const uint8_t nothing[1];
    const uint8_t *const run = input.size > 0 ? input.bytes : nothing;
    sgs_batch_table table;
    sgs_append_analysis found;
    sgs_error err;
    sgs_batch_table_init(&table, kit_memory());
    const sgs_append_analysis expected = plain_analysis(&rules, run, (int64_t)input.size);
    const sgs_status status = sgs_analyze_append(run, input.size, &rules, &table, &found, &err);

    FUZZ_CHECK(found.refusal == expected.refusal && (status == SGS_OK) == (found.refusal == SGS_APPEND_ACCEPTED));
    FUZZ_CHECK(status == SGS_OK || (err.status == status && err.message[0] != '\0'));
    FUZZ_CHECK(found.batches_count == expected.batches_count && found.valid_bytes == expected.valid_bytes);
    FUZZ_CHECK(found.first_offset == expected.first_offset && found.last_offset == expected.last_offset);
    FUZZ_CHECK(found.max_timestamp == expected.max_timestamp && found.source_codec == expected.source_codec);
    FUZZ_CHECK(found.last_leader_epoch == expected.last_leader_epoch);
    FUZZ_CHECK(status != SGS_OK || sgs_batch_table_count(&table) == found.batches_count);
    sgs_batch_table_deinit(&table);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_run(data, size, max_size, seed, PARAMETERS_BYTES);
}
