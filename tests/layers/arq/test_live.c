/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable packets over loopback, through the public API. */
#include <stdlib.h>
#include <string.h>

#include "../../../core/base/seam.h"
#include "../../support/patience.h"
#include "../../transports/udp/live/ends.h"

static const char *const stacks[] = {
    "arq;udp",
    "trace;arq;trace;udp",
    "arq(cc=ecn);fault(drop=5%,dup=5%,reorder=10%,seed=7);udp",
    "arq(cc=cubic);udp",
    "arq;loop",
    NULL,
};

static void open_both(const char *spec)
{
    ends_open(&(struct options){.spec = spec, .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true});
}

static void one_message(const char *spec)
{
    static char out[65536], in[65536];
    size_t most, lens[] = {0, 1, 8, 1000, 1144, 1145, 4000, SIZE_MAX};

    open_both(spec);
    most = a.info->ep_attr->max_msg_size;
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        size_t len = lens[i] < most ? lens[i] : most;
        struct fi_cq_tagged_entry entry;
        fi_addr_t src;

        fill(out, len, (unsigned)i);
        receive(&b, in, sizeof(in));
        send_to(&a, a.peer, out, len);
        entry = expect(b.rx, in, &src);
        assert_int_equal(entry.len, len);
        assert_int_equal(src, b.peer);
        check_filled(in, len, (unsigned)i);
        expect(a.tx, out, NULL);
    }
    ends_close();
}

static void messages_of_all_lengths(void **state)
{
    for (size_t i = 0; stacks[i]; i++)
        one_message(stacks[i]);
}

enum {
    COUNT = 3000,
    WINDOW = 64
};

/* Each arrives once, in any order. */
static void stream(const char *spec)
{
    static uint64_t out[COUNT], in[COUNT];
    static bool seen[COUNT];
    unsigned posted = 0, sent = 0, got = 0, ended = 0;

    open_both(spec);
    memset(seen, 0, sizeof(seen));
    while (got < COUNT || ended < COUNT) {
        struct fi_cq_tagged_entry entry;

        for (; posted < COUNT && posted < got + WINDOW; posted++)
            receive(&b, &in[posted], sizeof(in[posted]));
        for (; sent < COUNT && sent < ended + 200; sent++) {
            out[sent] = sent;
            assert_int_equal(fi_send(a.ep, &out[sent], sizeof(out[sent]), NULL, a.peer, &out[sent]),
                             0);
        }
        while (fi_cq_read(b.rx, &entry, 1) == 1) {
            uint64_t number = *(uint64_t *)entry.op_context;

            assert_true(number < COUNT && !seen[number]);
            seen[number] = true;
            got++;
        }
        while (fi_cq_read(a.tx, &entry, 1) == 1)
            ended++;
    }
    assert_int_equal(fi_cntr_read(a.sent), COUNT);
    assert_int_equal(fi_cntr_read(b.received), COUNT);
    ends_close();
}

static void streams_arrive_once(void **state)
{
    for (size_t i = 0; stacks[i]; i++)
        stream(stacks[i]);
}

/* A device drops packets that find no receive of its own: senders are told of no more room than
 * that, and send nothing in vain to a peer that does not look. */
static void sender_knows_what_the_lower_can_hold(void **state)
{
    static uint64_t out[COUNT];
    struct fi_cq_tagged_entry entry;
    size_t drops = 1, len = sizeof(drops);
    uint64_t in = 0;

    ends_open(&(struct options){.spec = "arq;loop(shape=ud)",
                                .type = FI_EP_RDM,
                                .caps = FI_SOURCE,
                                .no_eq = true,
                                .alone = true});
    receive(&b, &in, sizeof(in));
    send_to(&a, a.peer, &out[0], sizeof(out[0]));
    expect(b.rx, &in, NULL);
    expect(a.tx, &out[0], NULL);
    for (int i = 1; i < 200; i++) {
        send_to(&a, a.peer, &out[i], sizeof(out[i]));
        assert_int_equal(fi_cq_read(a.tx, &entry, 1), -FI_EAGAIN);
    }
    for (int ended = 1; ended < 200;) {
        receive(&b, &in, sizeof(in));
        expect(b.rx, &in, NULL);
        while (fi_cq_read(a.tx, &entry, 1) == 1)
            ended++;
    }
    assert_int_equal(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, OPT_DROPS, &drops, &len), 0);
    assert_int_equal(drops, 0);
    ends_close();
}

/* Sent with FI_MORE: they leave with the first message that comes without, or when their sender is
 * driven. `alone`: no thread drives it. */
static void messages_with_more_leave_together(void **state)
{
    enum {
        TOGETHER = 8
    };
    static char out[TOGETHER], in[TOGETHER];
    struct fi_cq_tagged_entry entry;

    ends_open(&(struct options){
        .spec = "arq;udp", .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true, .alone = true});
    receive(&b, &in[0], 1);
    send_to(&a, a.peer, &out[0], 1);
    expect(b.rx, &in[0], NULL);
    expect(a.tx, &out[0], NULL);
    for (int i = 0; i < TOGETHER; i++) {
        struct iovec iov = {.iov_base = &out[i], .iov_len = 1};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = a.peer, .context = &out[i]};

        receive(&b, &in[i], 1);
        if (i == TOGETHER - 1)
            assert_int_equal(fi_cq_read(b.rx, &entry, 1), -FI_EAGAIN); /* none has left yet */
        assert_int_equal(fi_sendmsg(a.ep, &msg, i + 1 < TOGETHER ? FI_MORE : 0), 0);
    }
    while (fi_cntr_read(b.received) < 1 + TOGETHER || fi_cntr_read(a.sent) < 1 + TOGETHER) {
        fi_cq_read(b.rx, &entry, 1);
        fi_cq_read(a.tx, &entry, 1);
    }
    ends_close();
}

/* A message that waits names its sender as the AV has it when a receive comes. */
static void sender_that_became_known_is_named(void **state)
{
    enum {
        WAITING = 8
    };
    static char out[WAITING], in[WAITING];
    struct options options = {
        .spec = "arq;udp", .type = FI_EP_RDM, .caps = FI_SOURCE, .no_eq = true};
    fi_addr_t src, known;

    end_open(&a, &options);
    end_open(&b, &options);
    a.peer = introduce(&a, &b);
    for (int i = 0; i < WAITING; i++)
        send_to(&a, a.peer, &out[i], 1);
    while (fi_cntr_read(a.sent) < WAITING)
        fi_cntr_read(b.received);
    receive(&b, &in[0], 1);
    expect(b.rx, &in[0], &src);
    assert_true(src == FI_ADDR_NOTAVAIL);
    known = introduce(&b, &a);
    for (int i = 1; i < WAITING; i++) {
        receive(&b, &in[i], 1);
        expect(b.rx, &in[i], &src);
        assert_int_equal(src, known);
    }
    ends_close();
}

/* Of one domain of one thread: no other thread drives the sibling while fi_close waits for it. */
static void messages_to_a_sibling_are_there_when_fi_close_returns(void **state)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_cq_tagged_entry entry;
    struct end from = {.ep = NULL};
    char in[8] = "", out[8] = "sibling";
    ssize_t rc = -FI_EAGAIN;

    end_open(&a,
             &(struct options){.spec = "arq;udp", .type = FI_EP_RDM, .alone = true, .no_eq = true});
    from.info = a.info;
    assert_int_equal(fi_cq_open(a.domain, &cq_attr, &from.tx, NULL), 0);
    assert_int_equal(fi_av_open(a.domain, &av_attr, &from.av, NULL), 0);
    assert_int_equal(fi_endpoint(a.domain, a.info, &from.ep, NULL), 0);
    assert_int_equal(fi_ep_bind(from.ep, &from.tx->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(from.ep, &from.av->fid, 0), 0);
    assert_int_equal(fi_enable(from.ep), 0);
    receive(&a, in, sizeof(in));
    send_to(&from, introduce(&from, &a), out, sizeof(out));
    assert_int_equal(fi_close(&from.ep->fid), 0);
    for (struct patience p = {0}; patience_lasts(&p) && rc == -FI_EAGAIN;)
        rc = fi_cq_read(a.rx, &entry, 1);
    assert_int_equal(rc, 1);
    assert_string_equal(in, "sibling");
    assert_int_equal(fi_close(&from.av->fid), 0);
    assert_int_equal(fi_close(&from.tx->fid), 0);
    end_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sender_knows_what_the_lower_can_hold),
        cmocka_unit_test(messages_with_more_leave_together),
        cmocka_unit_test(sender_that_became_known_is_named),
        cmocka_unit_test(messages_to_a_sibling_are_there_when_fi_close_returns),
        cmocka_unit_test(messages_of_all_lengths),
        cmocka_unit_test(streams_arrive_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
