/* failing_errnos.h - which errnos each call of an environment can fail with. */
#ifndef SGS_TEST_FAILING_ERRNOS_H
#define SGS_TEST_FAILING_ERRNOS_H

#include "memory_env.h"

enum { FAILING_ERRNOS_MAX = 12 };
/** Errnos, the likeliest first, with 0 behind the last; none for a call that cannot fail. */
const int *failing_errnos(memory_env_call call);
const char *failing_errno_name(int os_error);

#endif
