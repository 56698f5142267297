/* SPDX-License-Identifier: BSD-2-Clause */
/* A route whose MTU becomes less than it was when the payload of a pair was chosen, while messages
 * are under way: in a network of this program's own, between two endpoints of its loopback. */
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define WARNINGS_PUBLIC
#include "../../../support/again.h"
#include "../../../support/end.h"
#include "../../../support/warnings.h"

enum {
    WIDE = 65536,
    NARROW = 1500,
    MESSAGES = 32,
    LONG = 65536, /* bytes: several packets of 8192 */
    SHORT = 64,
    LOOKS = 2000,
};

static uint8_t out[MESSAGES][LONG], in[MESSAGES][LONG];
static struct end from, to;

/* ---- The network ---- */

static bool set_loopback(int mtu)
{
    struct ifreq request = {.ifr_name = "lo", .ifr_mtu = mtu};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool set = fd >= 0 && !ioctl(fd, SIOCSIFMTU, &request);

    memset(&request, 0, sizeof(request));
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    set = set && !ioctl(fd, SIOCSIFFLAGS, &request);
    close(fd);
    return set;
}

static void open_one(struct end *end, const char *provider)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    end_open(end, info, FI_CQ_FORMAT_MSG);
}

static void open_both(const char *provider)
{
    open_one(&from, provider);
    open_one(&to, provider);
    end_meet(&from, &to);
}

static void close_both(void)
{
    end_close(&from);
    end_close(&to);
}

/* ---- Messages ---- */

static void post(unsigned i, size_t len)
{
    memset(out[i], (int)i + 1, len);
    memset(in[i], 0, LONG);
    assert_int_equal(fi_recv(to.ep, in[i], LONG, NULL, FI_ADDR_UNSPEC, in[i]), 0);
    assert_int_equal(fi_send(from.ep, out[i], len, NULL, from.peer, out[i]), 0);
}

/* Completions of both, which are driven so often, or until there are so many. */
static unsigned look(unsigned looks, unsigned most)
{
    struct fi_cq_msg_entry entry;
    unsigned count = 0;

    for (unsigned i = 0; i < looks && count < most; i++) {
        ssize_t sent = fi_cq_read(from.cq, &entry, 1), came = fi_cq_read(to.cq, &entry, 1);

        assert_true(sent == 1 || sent == -FI_EAGAIN);
        assert_true(came == 1 || came == -FI_EAGAIN);
        count += (unsigned)(sent == 1) + (unsigned)(came == 1);
    }
    return count;
}

static void check(unsigned i, size_t len)
{
    assert_memory_equal(in[i], out[i], len);
}

static void pass(unsigned i, size_t len)
{
    post(i, len);
    assert_int_equal(look(UINT32_MAX, 2), 2);
    check(i, len);
}

/* ---- Tests ---- */

/* Messages that do not leave meanwhile leave later: nothing is lost, and nothing comes twice. */
static void messages_wait_while_the_route_is_narrow(void **state)
{
    unsigned ended = 0;

    open_both("uet");
    pass(0, LONG);
    for (unsigned i = 0; i < MESSAGES / 2; i++)
        post(i, LONG);
    ended += look(LOOKS, 2);
    assert_true(set_loopback(NARROW));
    for (unsigned i = MESSAGES / 2; i < MESSAGES; i++)
        post(i, LONG);
    ended += look(LOOKS, UINT32_MAX);
    assert_true(ended < 2 * MESSAGES);
    assert_true(set_loopback(WIDE));
    ended += look(UINT32_MAX, 2 * MESSAGES - ended);
    assert_int_equal(ended, 2 * MESSAGES);
    for (unsigned i = 0; i < MESSAGES; i++)
        check(i, LONG);
    assert_int_equal(look(LOOKS, 1), 0);
    close_both();
}

/* One that stays so: the message ends, and the log has the cause. Short ones go on, and endpoints
 * that are opened now choose another payload. */
static void a_route_that_stays_narrow_is_told(void **state)
{
    struct fi_cq_msg_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t rc;

    open_both("uet(patience=200000)");
    pass(0, LONG);
    warnings_forget();
    assert_true(set_loopback(NARROW));
    post(1, LONG);
    while ((rc = fi_cq_read(from.cq, &entry, 1)) == -FI_EAGAIN)
        assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAGAIN);
    assert_int_equal(rc, -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(from.cq, &error, 0), 1);
    assert_ptr_equal(error.op_context, out[1]);
    assert_int_equal(error.err, FI_ETIMEDOUT);
    assert_int_equal(warning_count, 1);
    assert_non_null(strstr(warnings, "do not reach 127.0.0.1"));
    assert_non_null(strstr(warnings, "the MTU of the route has become less"));
    assert_int_equal(fi_cancel(&to.ep->fid, in[1]), 0);
    assert_int_equal(fi_cq_read(to.cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(to.cq, &error, 0), 1);
    pass(2, SHORT);
    close_both();
    open_both("uet");
    pass(3, LONG);
    close_both();
    assert_true(set_loopback(WIDE));
}

/* Of its own, which others do not see. */
static int make_network(void **state)
{
    if (again_is_emulated() || (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET)) ||
        !set_loopback(WIDE)) {
        print_message("there is no right to make a network, or an emulator has none\n");
        exit(77);
    }
    return warnings_import();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_wait_while_the_route_is_narrow),
        cmocka_unit_test(a_route_that_stays_narrow_is_told),
    };

    return cmocka_run_group_tests(tests, make_network, NULL);
}
