/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes of a node begin with different rails of those that are as near, as profile counts. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../pair.h"
#include "counted.h"

enum {
    CHILDREN = 8,
};

/* Which rail has most of one small message: later ones may go by another that is quicker. */
static int rail_of_small_ones(int index)
{
    char spec[300], path[2][64], bytes[8] = "", to[8];
    unsigned long count[2];
    struct pair pair;

    for (int i = 0; i < 2; i++)
        snprintf(path[i], sizeof(path[i]), "/tmp/weft-turn-%d-%d-%d", (int)getpid(), index, i);
    snprintf(spec, sizeof(spec),
             "mrail(same=yes,rail_timeout=60m);[profile(file=\"%s\",format=json);rxm;tcp(iface=lo)+"
             "profile(file=\"%s\",format=json);rxm;tcp(iface=lo)]",
             path[0], path[1]);
    pair_open(&pair, spec);
    assert_true(pair_message(&pair, bytes, to, sizeof(bytes), 1, bytes, to));
    pair_close(&pair);
    for (int i = 0; i < 2; i++)
        count[i] = sends_of(path[i]);
    print_message("process %d: %lu and %lu sends\n", index, count[0], count[1]);
    assert_true(count[0] + count[1]);
    return count[1] > count[0];
}

/* One that says which, and holds its number until it is killed. */
static int begin(int index, pid_t *child)
{
    char rail = 0;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *child = fork();
    assert_true(*child >= 0);
    if (!*child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        rail = (char)rail_of_small_ones(index);
        if (write(ends[1], &rail, 1) == 1)
            pause();
        _exit(1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &rail, 1), 1);
    close(ends[0]);
    return rail;
}

/* Each has the next number, unless another process has that. */
static void processes_begin_with_different_rails(void **state)
{
    pid_t child[CHILDREN];
    bool seen[2] = {false, false};
    int count = 0;

    if (access("/dev/shm", W_OK))
        skip();
    while (count < CHILDREN && !(seen[0] && seen[1])) {
        int rail = begin(count, &child[count]);

        count++;
        seen[rail] = true;
    }
    for (int i = 0; i < count; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    assert_true(seen[0] && seen[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_begin_with_different_rails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
