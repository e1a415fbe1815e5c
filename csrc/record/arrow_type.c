/* arrow_type.c - from the formats of Arrow's C data interface to the names of its types. */
#include "record/arrow_type.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct type_name {
    const char *format, *name;
} type_name;

static const type_name exact_names[] = {
    { "n", "null" },
    { "b", "bool" },
    { "c", "int8" },
    { "C", "uint8" },
    { "s", "int16" },
    { "S", "uint16" },
    { "i", "int32" },
    { "I", "uint32" },
    { "l", "int64" },
    { "L", "uint64" },
    { "e", "halffloat" },
    { "f", "float" },
    { "g", "double" },
    { "z", "binary" },
    { "Z", "large_binary" },
    { "vz", "binary_view" },
    { "u", "string" },
    { "U", "large_string" },
    { "vu", "string_view" },
    { "tdD", "date32[day]" },
    { "tdm", "date64[ms]" },
    { "tts", "time32[s]" },
    { "ttm", "time32[ms]" },
    { "ttu", "time64[us]" },
    { "ttn", "time64[ns]" },
    { "tDs", "duration[s]" },
    { "tDm", "duration[ms]" },
    { "tDu", "duration[us]" },
    { "tDn", "duration[ns]" },
    { "tiM", "month_interval" },
    { "tiD", "day_time_interval" },
    { "tin", "month_day_nano_interval" },
    { "+l", "list" },
    { "+L", "large_list" },
    { "+vl", "list_view" },
    { "+vL", "large_list_view" },
    { "+s", "struct" },
    { "+m", "map" },
    { "+r", "run_end_encoded" },
};

/* the rest of the format is a number or list of numbers, which stands in brackets behind the name */
static const type_name parametric_names[] = {
    { "w:", "fixed_size_binary" }, { "d:", "decimal" },        { "+w:", "fixed_size_list" },
    { "+ud:", "dense_union" },     { "+us:", "sparse_union" },
};

static const char *timestamp_unit(char unit)
{
    switch (unit) {
    case 's':
        return "s";
    case 'm':
        return "ms";
    case 'u':
        return "us";
    case 'n':
        return "ns";
    default:
        return NULL;
    }
}

bool sgs_arrow_type_is(const struct ArrowSchema *schema, const char *format)
{
    return schema->format != NULL && strcmp(schema->format, format) == 0;
}

/* The name of a format alone: nothing of its children. */
static void name_format(const char *format, char name[SGS_ARROW_TYPE_BYTES])
{
    if (format == NULL)
        format = "";
    for (size_t i = 0; i < sizeof exact_names / sizeof *exact_names; ++i)
        if (strcmp(format, exact_names[i].format) == 0) {
            (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "%s", exact_names[i].name);
            return;
        }
    for (size_t i = 0; i < sizeof parametric_names / sizeof *parametric_names; ++i) {
        const size_t size = strlen(parametric_names[i].format);
        if (strncmp(format, parametric_names[i].format, size) == 0) {
            (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "%s[%.20s]", parametric_names[i].name, format + size);
            return;
        }
    }
    if (strncmp(format, "ts", 2) == 0 && format[2] != '\0' && format[3] == ':' && timestamp_unit(format[2]) != NULL)
        (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "timestamp[%s%s%.40s]", timestamp_unit(format[2]),
                       format[4] != '\0' ? ", tz=" : "", format + 4);
    else
        (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "'%.40s'", format);
}

void sgs_arrow_type_name(const struct ArrowSchema *schema, char name[SGS_ARROW_TYPE_BYTES])
{
    char own[SGS_ARROW_TYPE_BYTES], inner[SGS_ARROW_TYPE_BYTES];
    name_format(schema->format, own);
    if (schema->dictionary != NULL) {
        name_format(schema->dictionary->format, inner);
        (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "dictionary<values=%.40s, indices=%.20s>", inner, own);
        return;
    }
    const bool is_list = own[0] != '\'' && schema->format[0] == '+' && strchr("lLvw", schema->format[1]) != NULL;
    if (!is_list || schema->n_children != 1) {
        (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "%s", own);
        return;
    }
    name_format(schema->children[0]->format, inner);
    (void)snprintf(name, SGS_ARROW_TYPE_BYTES, "%.40s<%.50s>", own, inner);
}
