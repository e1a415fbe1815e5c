/* A tool shows a file as it is, good or bad: the iterators that follow Kafka's rules must give records or say why, never
 * read outside the batch, agree with each other, and, where the stricter reader of everybody else has no complaint, with
 * it. [format.md 5, 9; DUR-85]
 * INPUT   one byte of flags, then the batch.   ORACLE  the record reader; one iteration for another. */
#include "record/record_iterator.h"

#include <string.h>

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record/record_section.h"
#include "record_kit.h"

enum { AS_IT_IS = 1, BREAKS = 2 };

/* A stream that breaks in its middle: a codec of 'S' and the bytes, whose last fourth does not come out. */
static sgs_status break_off(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                            sgs_error *err)
{
    (void)context;
    const size_t whole = size > 0 ? (size - 1) / 4 * 3 : 0;
    const sgs_status status = whole <= limit ? sgs_buffer_append(out, data + 1, whole, err) : SGS_OK;
    return status == SGS_OK ? sgs_fail(err, SGS_CODEC, "broken off") : status;
}

typedef struct iteration {
    sgs_buffer scratch;
    sgs_record_iterator iterator;
    sgs_status status;
    bool found;
    sgs_iterated_record record;
} iteration;

static void begin(iteration *it, const uint8_t *batch, size_t size, sgs_iteration kind, const sgs_codec_table *codecs)
{
    sgs_error err;
    sgs_buffer_init(&it->scratch, kit_memory());
    it->status = sgs_record_iterator_open(batch, size, kind, codecs, &it->scratch, &it->iterator, &err);
    it->found = it->status == SGS_OK;
}

static void advance(iteration *it)
{
    sgs_error err;
    it->status = sgs_record_iterator_next(&it->iterator, &it->record, &it->found, &err);
    FUZZ_CHECK(it->status == SGS_OK || (err.status == it->status && err.message[0] != '\0'));
    if (it->status != SGS_OK)
        it->found = false;
    if (it->found)
        for (sgs_bytes rest = it->record.record.headers; rest.size > 0 && it->record.record.headers_count > 0;) {
            sgs_record_header header;
            FUZZ_CHECK(sgs_record_next_header(&rest, &header));
        }
}

static void check_same(const sgs_record *a, const sgs_record *b, bool also_content)
{
    FUZZ_CHECK(a->offset == b->offset && a->timestamp == b->timestamp && a->sequence == b->sequence);
    FUZZ_CHECK(!also_content ||
               (a->key.size == b->key.size && a->value.size == b->value.size && a->headers_count == b->headers_count));
    FUZZ_CHECK(!also_content || a->value.size <= 0 || memcmp(a->value.data, b->value.data, (size_t)a->value.size) == 0);
}

/* Whole is streaming, or nothing of a compressed batch in which something is wrong. */
static void check_whole(const uint8_t *batch, size_t size, const sgs_codec_table *codecs)
{
    iteration streaming, whole;
    begin(&streaming, batch, size, SGS_ITERATE_STREAMING, codecs);
    begin(&whole, batch, size, SGS_ITERATE_WHOLE, codecs);
    /* where no record is to come, only the streaming one looks for a stream */
    const bool is_empty = whole.iterator.batch.magic >= 2 && whole.iterator.batch.records_count == 0;
    while (whole.found && !is_empty) {
        FUZZ_CHECK(streaming.found);
        advance(&streaming);
        advance(&whole);
        FUZZ_CHECK(streaming.found == whole.found && streaming.status == whole.status);
        if (whole.found)
            check_same(&streaming.record.record, &whole.record.record, true);
    }
    while (streaming.found)
        advance(&streaming);
    FUZZ_CHECK(streaming.status == whole.status || is_empty);
    sgs_buffer_deinit(&streaming.scratch);
    sgs_buffer_deinit(&whole.scratch);
}

/* Where the strict reader has no complaint, all iterations give its records. */
static void check_strict(const uint8_t *batch, size_t size, const sgs_codec_table *codecs, sgs_iteration kind)
{
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());
    if (sgs_record_section_open(batch, size, false, codecs, &scratch, &reader, &err) == SGS_OK) {
        sgs_record_reader rehearsal = reader;
        sgs_record record;
        bool found = true;
        sgs_status status = SGS_OK;
        while (status == SGS_OK && found)
            status = sgs_record_reader_next(&rehearsal, &record, &found, &err);
        iteration it;
        begin(&it, batch, size, kind, codecs);
        for (found = status == SGS_OK; found;) {
            if (reader.batch.records_count == 0)
                break; /* where Kafka may look for a stream */
            FUZZ_CHECK(sgs_record_reader_next(&reader, &record, &found, &err) == SGS_OK);
            FUZZ_CHECK(it.found);
            advance(&it);
            FUZZ_CHECK(it.status == SGS_OK && it.found == found);
            const bool is_mixed = reader.batch.magic == 1; /* see fuzz_legacy_records.c */
            if (found && !is_mixed)
                check_same(&record, &it.record.record, kind != SGS_ITERATE_SKIP_KEY_VALUE);
        }
        sgs_buffer_deinit(&it.scratch);
    }
    sgs_buffer_deinit(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    uint8_t *const batch = malloc(input.size + 1);
    FUZZ_CHECK(batch != NULL);
    if (input.size > 0)
        memcpy(batch + 1, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        fuzz_mend_batch(batch + 1, input.size);
    sgs_codec_table codecs = *kit_codecs();
    if ((flags & BREAKS) != 0)
        codecs.providers[SGS_CODEC_GZIP].decompress = break_off;
    check_whole(batch + 1, input.size, &codecs);
    check_strict(batch + 1, input.size, &codecs, SGS_ITERATE_STREAMING);
    check_strict(batch + 1, input.size, &codecs, SGS_ITERATE_WHOLE);
    check_strict(batch + 1, input.size, &codecs, SGS_ITERATE_SKIP_KEY_VALUE);
    free(batch);
    return 0;
}
