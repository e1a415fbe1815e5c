/* test_utf8_java.c - [format.md 18.2]: what Java's `new String(bytes, UTF_8)` makes of bytes. */
#include "record/utf8_java.h"

#include <string.h>

#include "record_kit.h"
#include "test.h"

#define R "\xef\xbf\xbd"

static void expect(const char *hex, const char *expected)
{
    const kit_bytes bytes = kit_hex(hex);
    uint8_t out[3 * 64];
    const uint8_t *const end = sgs_utf8_java_replace(out, bytes.data, bytes.size);
    if (!EXPECT_EQ_I64(end - out, strlen(expected)) || !EXPECT_MEM(out, expected, strlen(expected)))
        printf("    for %s\n", hex);
    const bool is_same = (size_t)(end - out) == bytes.size && memcmp(out, bytes.data, bytes.size) == 0;
    EXPECT_EQ_I64(sgs_utf8_is_valid(bytes.data, bytes.size), is_same);
}

TEST(well_formed_text_stays)
{
    expect("", "");
    expect("6162", "ab");
    expect("c3bc e282ac f09f9880 7f c280 e0a080 ed9fbf ee8080 f0908080 f48fbfbf",
           "ü€😀\x7f\xc2\x80\xe0\xa0\x80\xed\x9f\xbf"
           "\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
    expect("616161616161616161616161616161c3bc", "aaaaaaaaaaaaaaaü");
}

TEST(each_malformed_sequence_is_one_replacement_of_java_length)
{
    expect("80", R);
    expect("61 ff 62", "a" R "b");
    expect("c041", R "A"); /* C0 and C1 lead nothing */
    expect("c1bf", R R);
    expect("f8808080", R R R R); /* F8 to FF: one byte each */
    expect("c241", R "A");       /* two-byte lead, bad second byte */
    expect("e04180", R "A" R);   /* three-byte lead, bad second byte: 1 */
    expect("e09f80", R R R);     /* E0 followed by 80..9F: 1, then lone continuations */
    expect("e18041", R "A");     /* bad third byte: 2 */
    expect("eda080 41", R "A");  /* a whole surrogate: 3 */
    expect("edbfbf", R);
    expect("f5808080", R R R R); /* above F4: 1 */
    expect("f08f8080", R R R R); /* second byte out of range: 1 */
    expect("f4908080", R R R R);
    expect("f1418080", R "A" R R);
    expect("f1804180", R "A" R); /* up to the first that is no continuation: 2 */
    expect("f1808041", R "A");   /* 3 */
}

TEST(what_ends_with_the_input_is_one_replacement)
{
    expect("61 c2", "a" R);
    expect("e2", R);
    expect("e282", R);
    expect("eda0", R);
    expect("e080", R R); /* not valid so far */
    expect("f0", R);
    expect("f09f", R);
    expect("f09f98", R);
    expect("f08f", R R);
    expect("f09f41", R "A");
}

TEST_MAIN()
