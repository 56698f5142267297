/* SPDX-License-Identifier: BSD-2-Clause */
/* A sender that becomes known while its first message is taken: the next one, which is in the same
 * read of the socket, has its address. */
#include <string.h>

#include <rdma/fi_ext_uet.h>
#include <rdma/providers/fi_peer.h>

#include "../../../support/end.h"

enum {
    MESSAGES = 2,
};

static struct end from, to;
static uint32_t out[MESSAGES], in[MESSAGES];
static fi_addr_t sources[MESSAGES], inserted;
static unsigned came;

/* The owner of the queue, as a layer that makes a peer of each new sender. */
static ssize_t take(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len, void *buf,
                    uint64_t data, uint64_t tag, fi_addr_t src)
{
    if (!(flags & FI_RECV))
        return 0;
    assert_true(came < MESSAGES);
    sources[came++] = src;
    if (came == 1)
        assert_int_equal(fi_av_insert(to.av, from.name, 1, &inserted, 0, NULL), 1);
    return 0;
}

static ssize_t take_error(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
    fail();
    return 0;
}

static struct fi_ops_cq_owner ops = {.size = sizeof(ops), .write = take, .writeerr = take_error};
static struct fid_peer_cq queue = {.owner_ops = &ops};

static struct fi_info *ask(uint64_t caps)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->fabric_attr->prov_name = strdup("uet");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = caps;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void open_owned(struct end *end)
{
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = &queue};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .flags = FI_PEER};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    size_t len = sizeof(end->name);

    end->info = ask(FI_MSG | FI_SOURCE | FI_PEER);
    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->cq, &context), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &len), 0);
}

/* They leave together, and are of one length: one read has both. */
static void the_second_message_has_the_address_of_the_first(void **state)
{
    struct fi_cq_tagged_entry entry;

    end_open(&from, ask(FI_MSG), FI_CQ_FORMAT_TAGGED);
    open_owned(&to);
    assert_int_equal(fi_av_insert(from.av, to.name, 1, &from.peer, 0, NULL), 1);
    for (int i = 0; i < MESSAGES; i++) {
        struct iovec iov = {&out[i], sizeof(out[i])};
        struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = from.peer};

        assert_int_equal(fi_recv(to.ep, &in[i], sizeof(in[i]), NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_sendmsg(from.ep, &msg, i + 1 < MESSAGES ? FI_MORE : 0), 0);
    }
    while (came < MESSAGES) {
        fi_cq_read(to.cq, NULL, 0);
        fi_cq_read(from.cq, &entry, 1);
    }
    assert_int_equal(sources[0], FI_ADDR_NOTAVAIL);
    assert_int_equal(sources[1], inserted);
    end_close(&to);
    end_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_message_has_the_address_of_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
