#define _POSIX_C_SOURCE 200809L
/* The core that the tests and the fuzz targets are linked with has its assertions: one that fails ends the program [DUR-43,
 * DUR-44]. What a wheel does is in test_release_assertions.c; that there are enough of them is in tests/tidy. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/abstract_index.h"
#include "io/barrier.h"
#include "segment/log_segment.h"
#include "test.h"

static void break_io(void) { (void)sgs_barrier_describe(SGS_BARRIER_COUNT); }

static void break_index(void)
{
    const sgs_abstract_index index = { .entry_size = 8 };
    sgs_abstract_index_leave(&index); /* nobody is inside */
}

static void break_segment(void)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_file_name(-1, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
}

static void break_turn(void)
{
    atomic_flag nobody_has_it = ATOMIC_FLAG_INIT;
    SGS_EXPECT(sgs_is_held(&nobody_has_it));
}

/* In a child: the frame of the tests must not be able to overlook one. What it says is in `said`. */
static int run_in_child(void (*break_it)(void), char *said, size_t room)
{
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        break_it();
        _exit(0);
    }
    (void)close(ends[1]);
    const ssize_t size = read(ends[0], said, room - 1);
    said[size > 0 ? size : 0] = '\0';
    (void)close(ends[0]);
    int status = 0;
    (void)waitpid(child, &status, 0);
    return status;
}

TEST(an_assertion_of_the_core_that_fails_aborts_and_says_which)
{
    const struct {
        void (*break_it)(void);
        const char *file, *fact;
    } cases[] = {
        { break_io, "csrc/io/barrier.c:", "assertion failed: (unsigned)barrier < SGS_BARRIER_COUNT" },
        { break_index, "csrc/index/index_search.c:", "assertion failed: inside > 0" },
        { break_segment, "csrc/segment/segment_names.c:", "assertion failed: base_offset >= 0" },
        { break_turn, "tests/c/test_assertions.c:", "assertion failed: sgs_is_held(&nobody_has_it)" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char said[512];
        const int status = run_in_child(cases[i].break_it, said, sizeof said);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        EXPECT_TRUE(strstr(said, cases[i].file) != NULL);
        EXPECT_TRUE(strstr(said, cases[i].fact) != NULL);
    }
}

TEST(a_turn_that_somebody_has_is_held)
{
    atomic_flag turn = ATOMIC_FLAG_INIT;
    EXPECT_TRUE(!atomic_flag_test_and_set(&turn));
    EXPECT_TRUE(sgs_is_held(&turn));
    EXPECT_TRUE(sgs_is_held(&turn)); /* and stays so */
}

TEST_MAIN()
