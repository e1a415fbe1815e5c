/* cleaned_transaction_metadata.c - a heap of what comes, two sorted arrays of what is open. */
#include "record/cleaned_transaction_metadata.h"

#include <string.h>

#include "record/control_record.h"
#include "record/record_section.h"

typedef struct open_abort {
    int64_t producer_id; /* at the front, as in the array of committed ones: both are searched by it */
    sgs_aborted_txn txn;
    bool was_seen; /* a batch of it */
} open_abort;

void sgs_cleaned_transaction_metadata_init(sgs_cleaned_transaction_metadata *metadata, sgs_memory memory)
{
    sgs_buffer_init(&metadata->coming, memory);
    sgs_buffer_init(&metadata->aborted, memory);
    sgs_buffer_init(&metadata->committed, memory);
    sgs_buffer_init(&metadata->cleaned, memory);
    sgs_buffer_init(&metadata->scratch, memory);
}

void sgs_cleaned_transaction_metadata_deinit(sgs_cleaned_transaction_metadata *metadata)
{
    sgs_buffer_deinit(&metadata->scratch);
    sgs_buffer_deinit(&metadata->cleaned);
    sgs_buffer_deinit(&metadata->committed);
    sgs_buffer_deinit(&metadata->aborted);
    sgs_buffer_deinit(&metadata->coming);
}

void sgs_cleaned_transaction_metadata_clear(sgs_cleaned_transaction_metadata *metadata)
{
    sgs_buffer_clear(&metadata->coming);
    sgs_buffer_clear(&metadata->aborted);
    sgs_buffer_clear(&metadata->committed);
    sgs_buffer_clear(&metadata->cleaned);
}

/* ---- what comes ---- */

static sgs_aborted_txn *coming_of(const sgs_cleaned_transaction_metadata *metadata)
{
    return (sgs_aborted_txn *)(void *)metadata->coming.data;
}

static size_t coming_count(const sgs_cleaned_transaction_metadata *metadata)
{
    return metadata->coming.size / sizeof(sgs_aborted_txn);
}

static void swap(sgs_aborted_txn *one, sgs_aborted_txn *other)
{
    const sgs_aborted_txn kept = *one;
    *one = *other;
    *other = kept;
}

static sgs_status push(sgs_cleaned_transaction_metadata *metadata, const sgs_aborted_txn *txn, sgs_error *err)
{
    SGS_TRY(sgs_buffer_append(&metadata->coming, txn, sizeof *txn, err));
    sgs_aborted_txn *const heap = coming_of(metadata);
    for (size_t at = coming_count(metadata) - 1; at > 0; at = (at - 1) / 2) {
        if (heap[(at - 1) / 2].first_offset <= heap[at].first_offset)
            break;
        swap(&heap[(at - 1) / 2], &heap[at]);
    }
    return SGS_OK;
}

static void pop(sgs_cleaned_transaction_metadata *metadata)
{
    sgs_aborted_txn *const heap = coming_of(metadata);
    const size_t count = coming_count(metadata) - 1;
    heap[0] = heap[count];
    metadata->coming.size -= sizeof *heap;
    for (size_t at = 0, child = 1; child < count; at = child, child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1].first_offset < heap[child].first_offset)
            ++child;
        if (heap[at].first_offset <= heap[child].first_offset)
            break;
        swap(&heap[at], &heap[child]);
    }
}

sgs_status sgs_cleaned_transaction_metadata_add(sgs_cleaned_transaction_metadata *metadata, const sgs_aborted_txn *txns,
                                                size_t count, sgs_error *err)
{
    for (size_t i = 0; i < count; ++i)
        SGS_TRY(push(metadata, &txns[i], err));
    return SGS_OK;
}

/* ---- what is open, in arrays whose elements begin with the producer ---- */

static int64_t producer_at(const sgs_buffer *array, size_t at)
{
    int64_t producer_id;
    memcpy(&producer_id, array->data + at, sizeof producer_id);
    return producer_id;
}

/* Where the producer's element is, or would be; bytes from the start. */
static size_t place_of(const sgs_buffer *array, size_t element_bytes, int64_t producer_id, bool *found)
{
    size_t low = 0, high = array->size / element_bytes;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (producer_at(array, middle * element_bytes) < producer_id)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low * element_bytes < array->size && producer_at(array, low * element_bytes) == producer_id;
    return low * element_bytes;
}

static sgs_status insert(sgs_buffer *array, const void *element, size_t element_bytes, sgs_error *err)
{
    int64_t producer_id;
    bool found;
    memcpy(&producer_id, element, sizeof producer_id);
    const size_t place = place_of(array, element_bytes, producer_id, &found);
    if (found)
        return SGS_OK;
    SGS_TRY(sgs_buffer_reserve(array, element_bytes, err));
    memmove(array->data + place + element_bytes, array->data + place, array->size - place);
    memcpy(array->data + place, element, element_bytes);
    array->size += element_bytes;
    return SGS_OK;
}

static void take_out(sgs_buffer *array, size_t place, size_t element_bytes)
{
    memmove(array->data + place, array->data + place + element_bytes, array->size - place - element_bytes);
    array->size -= element_bytes;
}

/* Kafka consumeAbortedTxnsUpTo: of two open ones of a producer the first counts. */
static sgs_status begin_up_to(sgs_cleaned_transaction_metadata *metadata, int64_t offset, sgs_error *err)
{
    while (metadata->coming.size > 0 && coming_of(metadata)->first_offset <= offset) {
        const sgs_aborted_txn txn = *coming_of(metadata);
        const open_abort opened = { .producer_id = txn.producer_id, .txn = txn };
        pop(metadata);
        SGS_TRY(insert(&metadata->aborted, &opened, sizeof opened, err));
    }
    return SGS_OK;
}

sgs_status sgs_cleaned_transaction_metadata_on_batch(sgs_cleaned_transaction_metadata *metadata,
                                                     const sgs_batch_header *header, bool *is_aborted, sgs_error *err)
{
    *is_aborted = false;
    SGS_TRY(begin_up_to(metadata, header->last_offset, err));
    if (header->magic < 2 || (header->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) == 0)
        return SGS_OK;
    const size_t place = place_of(&metadata->aborted, sizeof(open_abort), header->producer_id, is_aborted);
    if (!*is_aborted)
        return insert(&metadata->committed, &header->producer_id, sizeof header->producer_id, err);
    ((open_abort *)(void *)(metadata->aborted.data + place))->was_seen = true;
    return SGS_OK;
}

static sgs_status on_abort(sgs_cleaned_transaction_metadata *metadata, int64_t producer_id, bool *can_go,
                           sgs_error *err)
{
    bool found;
    const size_t place = place_of(&metadata->aborted, sizeof(open_abort), producer_id, &found);
    *can_go = true;
    if (!found)
        return SGS_OK;
    const open_abort ended = *(const open_abort *)(const void *)(metadata->aborted.data + place);
    take_out(&metadata->aborted, place, sizeof ended);
    *can_go = !ended.was_seen;
    return ended.was_seen ? sgs_buffer_append(&metadata->cleaned, &ended.txn, sizeof ended.txn, err) : SGS_OK;
}

static void on_commit(sgs_cleaned_transaction_metadata *metadata, int64_t producer_id, bool *can_go)
{
    bool found;
    const size_t place = place_of(&metadata->committed, sizeof producer_id, producer_id, &found);
    if (found)
        take_out(&metadata->committed, place, sizeof producer_id);
    *can_go = !found;
}

sgs_status sgs_cleaned_transaction_metadata_on_control_batch(sgs_cleaned_transaction_metadata *metadata,
                                                             const uint8_t *batch, const sgs_batch_header *header,
                                                             bool *can_go, sgs_error *err)
{
    sgs_record_reader reader;
    sgs_record record;
    sgs_control_type type;
    bool found;
    SGS_TRY(begin_up_to(metadata, header->last_offset, err));
    SGS_TRY(sgs_record_section_open(batch, (size_t)header->size_bytes, false, NULL, &metadata->scratch, &reader, err));
    SGS_TRY(sgs_record_reader_next(&reader, &record, &found, err));
    *can_go = !found; /* one that was emptied before */
    if (!found)
        return SGS_OK;
    SGS_TRY(sgs_control_record_type(&record, &type, NULL, err));
    if (type == SGS_CONTROL_ABORT)
        return on_abort(metadata, header->producer_id, can_go, err);
    if (type == SGS_CONTROL_COMMIT)
        on_commit(metadata, header->producer_id, can_go);
    return SGS_OK;
}
