/* SPDX-License-Identifier: BSD-2-Clause */
/* An endpoint closes at any moment of a large message that came before its receive, which it asks
 * for, or reads; and a child of its process posts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define WARNINGS_PUBLIC
#include "../../../support/end.h"
#include "../../../support/warnings.h"

enum {
    LARGE = 4 << 20, /* bytes */
    TURNS = 24,      /* of the receiver, at most, before it closes */
};

static void drive(struct end *a, struct end *b, unsigned turns)
{
    struct fi_cq_tagged_entry entry;

    while (turns--) {
        fi_cq_read(a->cq, &entry, 1);
        fi_cq_read(b->cq, &entry, 1);
    }
}

static void close_after(unsigned turns)
{
    static char out[LARGE], in[LARGE];
    struct end a, b;
    ssize_t rc;

    end_open(&a, end_info("uet(iface=lo)", FI_MSG | FI_TAGGED, 0), FI_CQ_FORMAT_TAGGED);
    end_open(&b, end_info("uet(iface=lo)", FI_MSG | FI_TAGGED, 0), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    while ((rc = fi_tsend(a.ep, out, LARGE, NULL, a.peer, 1, out)) == -FI_EAGAIN) {
    }
    assert_int_equal(rc, 0);
    drive(&a, &b, 1000);
    assert_int_equal(fi_trecv(b.ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
    drive(&a, &b, turns);
    end_close(&b);
    end_close(&a);
}

static void a_receiver_closes_at_any_moment(void **state)
{
    for (unsigned turns = 0; turns < TURNS; turns++)
        close_after(turns);
}

/* Nothing is sent in a child, and the log there says why, once. */
static void a_child_is_told_why_it_sends_nothing(void **state)
{
    static char out;
    struct end a, b;
    int status;
    pid_t pid;

    end_open(&a, end_info("uet(iface=lo)", FI_MSG | FI_TAGGED, 0), FI_CQ_FORMAT_TAGGED);
    end_open(&b, end_info("uet(iface=lo)", FI_MSG | FI_TAGGED, 0), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    assert_int_equal(warnings_import(), 0);
    fflush(NULL);
    pid = fork();
    if (!pid) {
        bool refused = true;

        warnings_forget();
        for (int i = 0; i < 3; i++)
            refused &= fi_tsend(a.ep, &out, 1, NULL, a.peer, 1, &out) == -FI_EOPBADSTATE;
        _exit(refused && warning_count == 1 && strstr(warnings, "was forked from") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    end_close(&b);
    end_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receiver_closes_at_any_moment),
        cmocka_unit_test(a_child_is_told_why_it_sends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
