/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of datagrams and packets that cannot be: the warning says the mistake, and its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static const char gone[] = "udp"; /* an endpoint of it is opened */

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
    {"udp(iface=weft-gone)",
     "FI_PROVIDER:5: iface: no interface matches 'weft-gone'; there are lo ("},
    {"rxd;udp(iface=weft-gone)",
     "FI_PROVIDER:9: iface: no interface matches 'weft-gone'; there are lo ("},
    {"rxd;arq(cc=ecn);udp(iface=weft-gone)",
     "FI_PROVIDER:21: iface: no interface matches 'weft-gone'; there are lo ("},
};

/* An endpoint at an address that was an interface's when fi_getinfo told of it. */
static int open_gone(const struct fi_info *hints)
{
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_info *info;
    struct fid_ep *ep;

    if (fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info) ||
        fi_fabric(info->fabric_attr, &fabric, NULL) || fi_domain(fabric, info, &domain, NULL))
        return 0;
    inet_pton(AF_INET, "198.51.100.199", &((struct sockaddr_in *)info->src_addr)->sin_addr);
    return fi_endpoint(domain, info, &ep, NULL);
}

static void say(const char *spec, int fd)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    int rc;

    dup2(fd, STDERR_FILENO);
    setenv("FI_PROVIDER", spec, 1);
    if (!hints)
        _exit(2);
    if (!strcmp(spec, gone)) {
        hints->ep_attr->type = FI_EP_DGRAM;
        setenv("FI_LOG_LEVEL", "warn", 1);
        _exit(open_gone(hints) == -FI_EADDRNOTAVAIL ? 0 : 1);
    }
    hints->ep_attr->type = FI_EP_UNSPEC;
    rc = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info);
    fi_freeinfo(hints);
    _exit(rc == -FI_ENODATA ? 0 : 1);
}

/* The warnings of a program with this FI_PROVIDER; it gets no infos. */
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

static void an_interface_that_has_gone_is_said(void **state)
{
    static char text[1 << 16];

    listen_to(gone, text, sizeof(text));
    if (!strstr(text, "cannot open an endpoint at 198.51.100.199:0: ") ||
        !strstr(text, "; no interface matches '198.51.100.199'; there are lo ("))
        fail_msg("%s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(an_interface_that_has_gone_is_said),
    };

    return cmocka_run_group_tests_name("rxd: refused", tests, NULL, NULL);
}
