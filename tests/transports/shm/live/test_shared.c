/* SPDX-License-Identifier: BSD-2-Clause */
/* Receives that several endpoints share, and addresses that are the user's own. */
#include <stdlib.h>
#include <string.h>

#include "ends.h"

enum {
    LARGEST = 300000,
};

static const size_t sizes[] = {0, 8, 1500, 20000, LARGEST};

static void fill(char *buffer, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        buffer[i] = (char)(i * 7 + seed + (i >> 8));
}

static bool holds(const char *buffer, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++) {
        if (buffer[i] != (char)(i * 7 + seed + (i >> 8)))
            return false;
    }
    return true;
}

struct shared {
    struct end first, second, sender;
    fi_addr_t to[2];
    char *out, *in;
};

static int open_shared(void **state)
{
    struct shared *s = calloc(1, sizeof(*s));
    struct end_want want = {.shared = true};

    end_open_as(&s->first, "shm", &want);
    want.beside = &s->first;
    want.srx = s->first.srx;
    end_open_as(&s->second, "shm", &want);
    end_open(&s->sender, "shm");
    s->to[0] = end_introduce(&s->sender, &s->first);
    s->to[1] = end_introduce(&s->sender, &s->second);
    s->out = malloc(LARGEST);
    s->in = malloc(LARGEST);
    *state = s;
    return 0;
}

static int close_shared(void **state)
{
    struct shared *s = *state;

    end_close(&s->second);
    end_close(&s->first);
    end_close(&s->sender);
    free(s->out);
    free(s->in);
    free(s);
    return 0;
}

static void transfer(struct shared *s, int which, size_t size, bool expected)
{
    struct end *to = which ? &s->second : &s->first;
    struct fi_cq_tagged_entry entry;
    unsigned seed = (unsigned)(size + (size_t)which);

    fill(s->out, size, seed);
    memset(s->in, 0, LARGEST);
    if (expected)
        assert_int_equal(fi_trecv(s->first.srx, s->in, LARGEST, NULL, FI_ADDR_UNSPEC, 5, 0, s->in),
                         0);
    end_post(&s->sender, to, fi_tsend(s->sender.ep, s->out, size, NULL, s->to[which], 5, s->out));
    if (!expected) {
        for (int i = 0; i < 100; i++)
            end_drive(&s->first, &s->second);
        assert_int_equal(fi_trecv(s->first.srx, s->in, LARGEST, NULL, FI_ADDR_UNSPEC, 5, 0, s->in),
                         0);
    }
    assert_int_equal(end_wait(to, &s->sender, &entry), 0);
    assert_ptr_equal(entry.op_context, s->in);
    assert_int_equal(entry.len, size);
    assert_true(holds(s->in, size, seed));
    assert_int_equal(end_wait(&s->sender, to, &entry), 0);
}

static void one_context_serves_two_endpoints(void **state)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int which = 0; which < 2; which++) {
            transfer(*state, which, sizes[i], true);
            transfer(*state, which, sizes[i], false);
        }
    }
}

static void one_endpoint_goes_with_its_messages(void **state)
{
    struct shared *s = *state;
    struct end third;
    struct end_want want = {.shared = true, .beside = &s->first, .srx = s->first.srx};
    fi_addr_t to;

    end_open_as(&third, "shm", &want);
    to = end_introduce(&s->sender, &third);
    end_post(&s->sender, &third, fi_tinject(s->sender.ep, "lost", 4, to, 5));
    for (int i = 0; i < 100; i++)
        end_drive(&third, NULL);
    end_close(&third);
    transfer(s, 0, 8, true);
    transfer(s, 1, LARGEST, false);
}

static void an_endpoint_wants_the_context_it_asked_for(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct end end;
    struct fid_ep *ep;

    end_open(&end, "shm");
    hints->fabric_attr->prov_name = strdup("shm");
    hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_endpoint(end.domain, info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &end.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &end.av->fid, 0), 0);
    assert_int_equal(fi_enable(ep), -FI_ENORX);
    assert_int_equal(fi_close(&ep->fid), 0);
    fi_freeinfo(info);
    end_close(&end);
}

/* ---- FI_AV_USER_ID ---- */

static void sources_are_what_the_user_called_them(void **state)
{
    struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_AV_USER_ID};
    struct end from, to;
    char name[END_NAME], in[8];
    const char *text = name;
    struct fi_cq_tagged_entry entry;
    fi_addr_t id = 0xabcdef12345678, addr = id, src = 0;
    ssize_t rc;

    end_open_as(&from, "shm", &want);
    end_open_as(&to, "shm", &want);
    end_name(&from, name);
    assert_int_equal(fi_av_insert(to.av, text, 1, &addr, FI_AV_USER_ID, NULL), 1);
    addr = end_introduce(&from, &to);
    assert_int_equal(fi_recv(to.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
    end_post(&from, &to, fi_inject(from.ep, "x", 1, addr));
    while ((rc = fi_cq_readfrom(to.cq, &entry, 1, &src)) == -FI_EAGAIN)
        end_drive(&from, NULL);
    assert_int_equal(rc, 1);
    assert_true(src == id);
    end_close(&from);
    end_close(&to);
}

int main(void)
{
#define SHARED(test) cmocka_unit_test_setup_teardown(test, open_shared, close_shared)
    const struct CMUnitTest tests[] = {
        SHARED(one_context_serves_two_endpoints),
        SHARED(one_endpoint_goes_with_its_messages),
        cmocka_unit_test(an_endpoint_wants_the_context_it_asked_for),
        cmocka_unit_test(sources_are_what_the_user_called_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
