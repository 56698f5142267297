/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of datagrams and packets that cannot be: what is wrong is said, and where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

static const struct {
    const char *spec, *said;
} bad[] = {
    {"rxm;udp", "FI_PROVIDER:1: rxm needs a lower that gives FI_EP_MSG; udp gives FI_EP_DGRAM\n"
                "  rxm;udp\n"
                "  ^~~\n"},
    {"rxd;tcp", "FI_PROVIDER:1: rxd makes messages of reliable packets or datagrams; tcp has "
                "messages (FI_EP_RDM) without it\n"
                "  rxd;tcp\n"
                "  ^~~\n"},
    {"rxd;shm", "FI_PROVIDER:1: rxd makes messages of reliable packets or datagrams; shm has "
                "messages (FI_EP_RDM) without it\n"
                "  rxd;shm\n"
                "  ^~~\n"},
    {"arq", "FI_PROVIDER:1: arq is a layer and needs a base, as in 'arq;udp'\n"
            "  arq\n"
            "  ^~~\n"},
    {"rxd;arq(cc=dely);udp", "FI_PROVIDER:9: cc: 'dely' is not one of delay, ecn, cubic; did you "
                             "mean 'delay'?\n"
                             "  rxd;arq(cc=dely);udp\n"
                             "          ^~~~~~~\n"},
    {"udp(iface=weft-gone)", "weft-gone"},
};

static void say(const char *spec, int fd)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    int rc;

    dup2(fd, STDERR_FILENO);
    setenv("FI_PROVIDER", spec, 1);
    if (!hints)
        _exit(2);
    hints->ep_attr->type = FI_EP_UNSPEC;
    rc = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info);
    fi_freeinfo(hints);
    _exit(rc == -FI_ENODATA ? 0 : 1);
}

/* What a program with this FI_PROVIDER is told; it gets no infos. */
static void listen_to(const char *spec, char *text, size_t size)
{
    int pipes[2], status;
    size_t len = 0;
    ssize_t got;

    assert_int_equal(pipe(pipes), 0);
    if (!fork())
        say(spec, pipes[1]);
    close(pipes[1]);
    while (len + 1 < size && (got = read(pipes[0], text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = 0;
    close(pipes[0]);
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
}

static void what_cannot_be_is_said(void **state)
{
    static char text[1 << 16];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        listen_to(bad[i].spec, text, sizeof(text));
        if (!strstr(text, bad[i].said))
            fail_msg("%s: %s", bad[i].spec, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_said),
    };

    return cmocka_run_group_tests_name("rxd: refused", tests, NULL, NULL);
}
