/* test_validation.c - what a validator keeps between two calls, and what it believes of the caller's rows. */
#include "record/validation.h"

#include "append_kit.h"
#include "record/log_validator.h"
#include "record_kit.h"
#include "test.h"

TEST(buffers_above_the_limit_are_given_back) /* DUR-102 */
{
    enum { SMALL = 100, LARGE = 5000, KEPT = 1000 };
    static const uint8_t bytes[LARGE] = { 1 };
    sgs_log_validator validator;
    sgs_error err;
    sgs_log_validator_init(&validator, kit_memory(), NULL);
    sgs_buffer *const buffers[] = { &validator.output, &validator.output_rows, &validator.record_errors,
                                    &validator.scratch };
    for (size_t large = 0; large < sizeof buffers / sizeof buffers[0]; ++large) {
        for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i)
            REQUIRE_OK(sgs_buffer_append(buffers[i], bytes, i == large ? LARGE : SMALL, &err), &err);
        sgs_log_validator_trim(&validator, KEPT);
        for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i) {
            EXPECT_EQ_I64(buffers[i]->size, i == large ? 0 : SMALL);
            EXPECT_TRUE(buffers[i]->capacity <= KEPT && (buffers[i]->data == NULL) == (i == large));
            sgs_buffer_clear(buffers[i]);
        }
    }
    sgs_log_validator_deinit(&validator);
}

/* Another thread writes to the rows while the batches are read: a codec stands for it here. */
typedef struct meddler {
    const sgs_codec_provider *real;
    sgs_batch_header *row;
} meddler;

static sgs_status meddle(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out, sgs_error *err)
{
    const meddler *const self = context;
    self->row->position = INT64_C(1) << 40;
    self->row->size_bytes = INT32_MAX;
    return self->real->decompress(self->real->context, data, size, limit, out, err);
}

TEST(rows_that_change_while_they_are_used_lead_nowhere)
{
    static const int targets[] = { SGS_CODEC_GZIP, SGS_CODEC_ZSTD }; /* the last batch kept, and written again */
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; ++i) {
        append_kit kit;
        sgs_batch_options built;
        append_kit_init(&kit);
        sgs_batch_options_default(&built);
        built.codec = SGS_CODEC_ZSTD;
        append_kit_add(&kit, &built, 2, NULL, false);
        built.codec = SGS_CODEC_GZIP;
        append_kit_add(&kit, &built, 2, NULL, false);
        REQUIRE_EQ_I64(append_kit_scan(&kit), 2);
        sgs_codec_table codecs = *kit_codecs();
        meddler another = { &kit_codecs()->providers[SGS_CODEC_GZIP],
                            &append_kit_rows(&kit)[targets[i] == SGS_CODEC_GZIP] };
        codecs.providers[SGS_CODEC_GZIP].context = &another;
        codecs.providers[SGS_CODEC_GZIP].decompress = meddle;
        sgs_log_validator validator;
        sgs_log_validator_init(&validator, kit_memory(), &codecs);
        validator.options.target_codec = targets[i];
        const sgs_status status = sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size,
                                                                  append_kit_rows(&kit), 2, &kit.err);
        EXPECT_EQ_I64(status, SGS_ILLEGAL_ARGUMENT);
        sgs_log_validator_deinit(&validator);
        append_kit_deinit(&kit);
    }
}

TEST_MAIN()
