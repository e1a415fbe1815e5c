/* test_arrow_type.c - the names of Arrow's types in messages; the oracle is what pyarrow prints. */
#include "record/arrow_type.h"

#include <string.h>

#include "test.h"

TEST(formats_have_arrows_names)
{
    static const struct {
        const char *format, *name;
    } types[] = {
        { "n", "null" },
        { "l", "int64" },
        { "g", "double" },
        { "vu", "string_view" },
        { "vz", "binary_view" },
        { "Z", "large_binary" },
        { "w:16", "fixed_size_binary[16]" },
        { "d:10,2", "decimal[10,2]" },
        { "tsm:UTC", "timestamp[ms, tz=UTC]" },
        { "tsn:", "timestamp[ns]" },
        { "tdD", "date32[day]" },
        { "+s", "struct" },
        { "tsx:", "'tsx:'" },
        { "ts", "'ts'" },
        { "", "''" },
        { "future", "'future'" },
        { NULL, "''" },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        const struct ArrowSchema schema = { .format = types[i].format };
        char name[SGS_ARROW_TYPE_BYTES];
        sgs_arrow_type_name(&schema, name);
        EXPECT_TEXT(name, types[i].name);
    }
}

TEST(elements_and_dictionaries_are_named)
{
    struct ArrowSchema inner = { .format = "vu" };
    struct ArrowSchema *const inner_pointer = &inner;
    struct ArrowSchema outer = { .format = "i", .dictionary = &inner };
    char name[SGS_ARROW_TYPE_BYTES];
    sgs_arrow_type_name(&outer, name);
    EXPECT_TEXT(name, "dictionary<values=string_view, indices=int32>");
    outer = (struct ArrowSchema){ .format = "+L", .n_children = 1, .children = (struct ArrowSchema **)&inner_pointer };
    sgs_arrow_type_name(&outer, name);
    EXPECT_TEXT(name, "large_list<string_view>");
    outer.n_children = 0;
    sgs_arrow_type_name(&outer, name);
    EXPECT_TEXT(name, "large_list");
}

TEST(long_formats_are_cut)
{
    char format[400], name[SGS_ARROW_TYPE_BYTES];
    memset(format, 'x', sizeof format);
    format[sizeof format - 1] = '\0';
    const struct ArrowSchema schema = { .format = format };
    sgs_arrow_type_name(&schema, name);
    EXPECT_EQ_U64(strlen(name), 42);
    memcpy(format, "tsm:", 4);
    sgs_arrow_type_name(&schema, name);
    EXPECT_TRUE(strlen(name) < sizeof name);
}

TEST_MAIN()
