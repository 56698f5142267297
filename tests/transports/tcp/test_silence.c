/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer whose kernel takes a connection, and whose program answers nothing, as one that is
 * stopped. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/progress/silence.h"
#include "support/warnings.h"

/* Listens, and never accepts. */
static int silent_listener(struct sockaddr_in *address)
{
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
    return fd;
}

static struct fi_info *info_to(const struct sockaddr_in *address, const char *provider)
{
    struct fi_info *hints = info_complete(NULL), *info = NULL;

    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->dest_addr = malloc(sizeof(*address));
    memcpy(hints->dest_addr, address, sizeof(*address));
    hints->dest_addrlen = sizeof(*address);
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, provider), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    info_free(hints);
    return info;
}

struct caller {
    int listener;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

static void dial(struct caller *c, const char *provider)
{
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct sockaddr_in address;

    warnings_forget();
    c->listener = silent_listener(&address);
    c->info = info_to(&address, provider);
    assert_int_equal(fabric_open(c->info->fabric_attr, NULL, ABI_1_9, &c->fabric, NULL), 0);
    assert_int_equal(fi_eq_open(c->fabric, &eq_attr, &c->eq, NULL), 0);
    assert_int_equal(fi_domain(c->fabric, c->info, &c->domain, NULL), 0);
    assert_int_equal(fi_cq_open(c->domain, &cq_attr, &c->cq, NULL), 0);
    assert_int_equal(fi_endpoint(c->domain, c->info, &c->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(c->ep, &c->eq->fid, 0), 0);
    assert_int_equal(fi_ep_bind(c->ep, &c->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(c->ep), 0);
    assert_int_equal(fi_connect(c->ep, &address, NULL, 0), 0);
}

static void hang_up(struct caller *c)
{
    fi_close(&c->ep->fid);
    fi_close(&c->cq->fid);
    fi_close(&c->domain->fid);
    fi_close(&c->eq->fid);
    fi_close(&c->fabric->fid);
    info_free(c->info);
    close(c->listener);
}

static void expect_timeout(struct caller *c)
{
    struct fi_eq_err_entry error = {0};
    struct fi_eq_cm_entry entry;
    uint32_t event;

    assert_int_equal(fi_eq_sread(c->eq, &event, &entry, sizeof(entry), -1, 0), -FI_EAVAIL);
    assert_true(fi_eq_readerr(c->eq, &error, 0) > 0);
    assert_int_equal(error.err, FI_ETIMEDOUT);
}

/* Seconds until the first timer of this process expires; -1: none is set. */
static long long first_timer(void)
{
    long long first = -1, left;
    char line[128];

    for (int fd = 0; fd < 256; fd++) {
        snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", fd);
        FILE *info = fopen(line, "r");

        while (info && fgets(line, sizeof(line), info))
            if (sscanf(line, "it_value: (%lld", &left) == 1 && left && (first < 0 || left < first))
                first = left;
        if (info)
            fclose(info);
    }
    return first;
}

/* The peer's program takes its time between the request and its answer. */
static void a_program_may_take_minutes_to_accept(void **state)
{
    static const struct {
        const char *spec, *limit;
        long long least, most;
    } cases[] = {
        {"tcp", "waiting up to 10 min\n", 300, 600},
        {"tcp(connect_timeout=100s)", "waiting up to 100 s\n", 60, 100},
    };

    silence_after_ms = 20;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fi_eq_cm_entry entry;
        struct caller caller;
        uint32_t event;

        dial(&caller, cases[i].spec);
        while (!warning_count)
            assert_int_equal(fi_eq_sread(caller.eq, &event, &entry, sizeof(entry), 20, 0),
                             -FI_EAGAIN);
        assert_non_null(strstr(warnings, cases[i].limit));
        assert_in_range(first_timer(), cases[i].least, cases[i].most);
        hang_up(&caller);
    }
}

static void a_peer_that_does_not_answer_is_told_of_once(void **state)
{
    struct caller caller;
    int port;

    silence_after_ms = 20;
    dial(&caller, "tcp(connect_timeout=500ms)");
    expect_timeout(&caller);
    hang_up(&caller);
    assert_int_equal(warning_count, 1);
    if (sscanf(warnings, ": no answer from 127.0.0.1:%d for", &port) != 1)
        fail_msg("%s", warnings);
    assert_non_null(strstr(warnings, " for 0.0 s; waiting up to 0.5 s\n"));
}

static void one_that_has_no_time_to_be_silent_is_not(void **state)
{
    struct caller caller;

    silence_after_ms = 5000;
    dial(&caller, "tcp(connect_timeout=20ms)");
    expect_timeout(&caller);
    hang_up(&caller);
    assert_string_equal(warnings, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_does_not_answer_is_told_of_once),
        cmocka_unit_test(a_program_may_take_minutes_to_accept),
        cmocka_unit_test(one_that_has_no_time_to_be_silent_is_not),
    };

    if (warnings_import())
        return 1;
    return cmocka_run_group_tests_name("tcp silence", tests, NULL, NULL);
}
