/* arrow_type.h - Arrow's names of its types, for messages: the C data interface spells them as formats ("vu"). */
#ifndef SGS_RECORD_ARROW_TYPE_H
#define SGS_RECORD_ARROW_TYPE_H

#include <stdbool.h>

#include "record/arrow_abi.h"

enum { SGS_ARROW_TYPE_BYTES = 96 };

/** Whether the type itself (of a dictionary: of its indices) is `format` */
bool sgs_arrow_type_is(const struct ArrowSchema *schema, const char *format);

/** "string_view", "timestamp[ms, tz=UTC]", "list<int64>", "dictionary<values=string, indices=int32>", as Arrow prints
 *  types; of what lies below a list's element only the name. A format that is not known stands in quotes. */
void sgs_arrow_type_name(const struct ArrowSchema *schema, char name[SGS_ARROW_TYPE_BYTES]);

#endif
