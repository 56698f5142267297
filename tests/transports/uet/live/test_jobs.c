/* SPDX-License-Identifier: BSD-2-Clause */
/* Job IDs: as authorization keys of domains, endpoints, address vectors and regions, and by the
 * service file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
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
#include <rdma/fi_errno.h>
#include <rdma/fi_ext_uet.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../support/again.h"
#include "../../../support/end.h"

static const uint8_t red[3] = {0, 0, 7}, blue[3] = {1, 2, 3};

static char in[64], out[64];
static struct fid_ep *shared; /* receives of the end of several jobs, where `shares` */
static bool shares;

static struct fi_info *infos(const char *provider, size_t domain_size, const uint8_t *domain,
                             const uint8_t *ep)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV | FI_SOURCE;
    hints->domain_attr->mr_mode = 0;
    hints->domain_attr->auth_key_size = domain_size;
    if (domain) {
        hints->domain_attr->auth_key = malloc(3);
        memcpy(hints->domain_attr->auth_key, domain, 3);
    }
    if (ep) {
        hints->ep_attr->auth_key_size = 3;
        hints->ep_attr->auth_key = malloc(3);
        memcpy(hints->ep_attr->auth_key, ep, 3);
    }
    fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &list);
    fi_freeinfo(hints);
    return list;
}

/* An end of one job. */
static void open_end(struct end *end, const uint8_t *domain, const uint8_t *ep)
{
    end_open(end, infos("uet", domain ? 3 : 0, domain, ep), FI_CQ_FORMAT_TAGGED);
}

/* An end of several jobs: red, then blue. */
static void open_many_with(struct end *end, fi_addr_t keys[2], uint64_t av_flags)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .flags = av_flags};
    size_t len = sizeof(end->name);

    end->info = infos("uet", FI_AV_AUTH_KEY, NULL, NULL);
    assert_non_null(end->info);
    assert_true(end->info->domain_attr->auth_key_size == FI_AV_AUTH_KEY);
    assert_int_equal(fi_fabric(end->info->fabric_attr, &end->fabric, NULL), 0);
    assert_int_equal(fi_domain(end->fabric, end->info, &end->domain, NULL), 0);
    assert_int_equal(fi_cq_open(end->domain, &cq_attr, &end->cq, NULL), 0);
    assert_int_equal(fi_av_open(end->domain, &av_attr, &end->av, NULL), 0);
    assert_int_equal(fi_av_insert_auth_key(end->av, red, 3, &keys[0], 0), 0);
    assert_int_equal(fi_av_insert_auth_key(end->av, blue, 3, &keys[1], 0), 0);
    if (shares)
        end->info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_int_equal(fi_endpoint(end->domain, end->info, &end->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(end->ep, &end->av->fid, 0), 0);
    if (shares) {
        assert_int_equal(fi_srx_context(end->domain, end->info->rx_attr, &shared, NULL), 0);
        assert_int_equal(fi_ep_bind(end->ep, &shared->fid, 0), 0);
    }
    assert_int_equal(fi_enable(end->ep), 0);
    assert_int_equal(fi_getname(&end->ep->fid, end->name, &len), 0);
}

/* Where it posts its receives. */
static struct fid_ep *receiver(struct end *many)
{
    return shares ? shared : many->ep;
}

static void close_many(struct end *many)
{
    if (!shares) {
        end_close(many);
        return;
    }
    assert_int_equal(fi_close(&many->ep->fid), 0);
    assert_int_equal(fi_close(&shared->fid), 0);
    assert_int_equal(fi_close(&many->av->fid), 0);
    assert_int_equal(fi_close(&many->cq->fid), 0);
    assert_int_equal(fi_close(&many->domain->fid), 0);
    assert_int_equal(fi_close(&many->fabric->fid), 0);
    fi_freeinfo(many->info);
}

static void open_many(struct end *end, fi_addr_t keys[2])
{
    open_many_with(end, keys, 0);
}

static ssize_t read_one(struct end *at, struct end *other, struct fi_cq_tagged_entry *entry,
                        fi_addr_t *source)
{
    ssize_t rc;

    while ((rc = fi_cq_readfrom(at->cq, entry, 1, source)) == -FI_EAGAIN)
        fi_cq_read(other->cq, NULL, 0);
    return rc;
}

/* A message without a tag; the context of the receive that it met, and its source. */
static void *pass(struct end *from, struct end *to, fi_addr_t *source)
{
    struct fi_cq_tagged_entry entry = {NULL}, sent;

    assert_int_equal(fi_send(from->ep, out, 8, NULL, from->peer, out), 0);
    assert_int_equal(read_one(to, from, &entry, source), 1);
    assert_int_equal(read_one(from, to, &sent, NULL), 1);
    return entry.op_context;
}

/* Lets acknowledgements of short messages come, which fi_close would wait for. */
static void settle(struct end *a, struct end *b)
{
    for (int i = 0; i < 10; i++) {
        fi_cq_read(a->cq, NULL, 0);
        fi_cq_read(b->cq, NULL, 0);
        usleep(1000);
    }
}

static int failure(struct end *at, struct end *other)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    assert_int_equal(read_one(at, other, &entry, NULL), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(at->cq, &error, 0), 1);
    return error.err;
}

static void infos_offer_keys(void **state)
{
    struct fi_info *info = infos("uet", 3, blue, NULL);

    assert_non_null(info);
    assert_int_equal(info->domain_attr->auth_key_size, 3);
    assert_memory_equal(info->domain_attr->auth_key, blue, 3);
    assert_true(info->domain_attr->max_ep_auth_key >= 2);
    fi_freeinfo(info);
    assert_null(infos("uet", 4, NULL, NULL));
}

static void endpoints_of_one_job_hear_each_other_only(void **state)
{
    struct end a, b, other;
    fi_addr_t source;

    open_end(&a, red, NULL);
    open_end(&b, blue, red);
    open_end(&other, red, blue);
    end_meet(&a, &b);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    assert_ptr_equal(pass(&a, &b, &source), in);
    assert_int_equal(source, b.peer);
    assert_int_equal(fi_av_insert(other.av, a.name, 1, &other.peer, 0, NULL), 1);
    assert_int_equal(fi_send(other.ep, out, 8, NULL, other.peer, out), 0);
    assert_int_equal(failure(&other, &a), FI_EACCES);
    end_close(&other);
    end_close(&b);
    end_close(&a);
}

static void keys_are_addresses_of_all_their_peers(void **state)
{
    fi_addr_t keys[2], again, removed;
    uint8_t bytes[8];
    size_t size = sizeof(bytes);
    struct end many;
    char name[64];

    open_many(&many, keys);
    assert_int_not_equal(keys[0], keys[1]);
    assert_int_equal(fi_av_insert_auth_key(many.av, red, 3, &again, 0), 0);
    assert_int_equal(again, keys[0]);
    assert_int_equal(fi_av_insert_auth_key(many.av, red, 2, &again, 0), -FI_EINVAL);
    assert_int_equal(fi_av_lookup_auth_key(many.av, keys[1], bytes, &size), 0);
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, blue, 3);
    size = sizeof(name);
    assert_int_equal(fi_av_lookup(many.av, keys[1], name, &size), -FI_EINVAL);
    /* An address is inserted under a key, and is another peer under another. */
    assert_int_equal(fi_av_insert(many.av, many.name, 1, &again, 0, NULL), -FI_EINVAL);
    again = keys[0];
    assert_int_equal(fi_av_insert(many.av, many.name, 1, &again, FI_AUTH_KEY, NULL), 1);
    removed = keys[1];
    assert_int_equal(fi_av_insert(many.av, many.name, 1, &removed, FI_AUTH_KEY, NULL), 1);
    assert_int_not_equal(again, removed);
    size = sizeof(bytes);
    assert_int_equal(fi_av_lookup_auth_key(many.av, removed, bytes, &size), 0);
    assert_memory_equal(bytes, blue, 3);
    size = sizeof(name);
    assert_int_equal(fi_av_lookup(many.av, removed, name, &size), 0);
    assert_int_equal(size, 32);
    assert_memory_equal(name, many.name, 32);
    /* Nothing is sent to all peers of a key, and a key in use stays. */
    assert_int_equal(fi_send(many.ep, out, 8, NULL, keys[0], NULL), -FI_EINVAL);
    assert_int_equal(fi_av_remove(many.av, &keys[0], 1, 0), -FI_EINVAL);
    assert_int_equal(fi_av_remove(many.av, &keys[0], 1, FI_AUTH_KEY), -FI_EBUSY);
    assert_int_equal(fi_av_remove(many.av, &removed, 1, 0), 0);
    assert_int_equal(fi_close(&many.ep->fid), 0);
    assert_int_equal(fi_av_remove(many.av, &keys[0], 1, FI_AUTH_KEY), -FI_EBUSY);
    assert_int_equal(fi_av_remove(many.av, &keys[1], 1, FI_AUTH_KEY), 0);
    fi_close(&many.av->fid);
    fi_close(&many.cq->fid);
    fi_close(&many.domain->fid);
    fi_close(&many.fabric->fid);
    fi_freeinfo(many.info);
}

static void a_receive_names_any_peer_of_a_job(void **state)
{
    static char buffers[4][8];
    struct end many, a, b;
    fi_addr_t keys[2], source;
    struct iovec iov = {buffers[0], 8};
    struct fi_msg of_key = {.msg_iov = &iov, .iov_count = 1, .context = &buffers[0]};

    open_many(&many, keys);
    of_key.addr = keys[1];
    open_end(&a, red, NULL);
    open_end(&b, blue, NULL);
    many.peer = keys[0];
    assert_int_equal(fi_av_insert(many.av, a.name, 1, &many.peer, FI_AUTH_KEY, NULL), 1);
    assert_int_equal(fi_av_insert(a.av, many.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(b.av, many.name, 1, &b.peer, 0, NULL), 1);
    assert_int_equal(fi_recvmsg(receiver(&many), &of_key, FI_AUTH_KEY | FI_COMPLETION), 0);
    assert_int_equal(fi_recv(receiver(&many), buffers[1], 8, NULL, keys[0], &buffers[1]), 0);
    assert_int_equal(fi_recv(receiver(&many), buffers[2], 8, NULL, many.peer, &buffers[2]), 0);
    assert_int_equal(fi_recv(receiver(&many), buffers[3], 8, NULL, FI_ADDR_UNSPEC, &buffers[3]), 0);
    /* A known peer meets the receive of its job; its own comes next. */
    assert_ptr_equal(pass(&a, &many, &source), &buffers[1]);
    assert_int_equal(source, many.peer);
    assert_ptr_equal(pass(&a, &many, &source), &buffers[2]);
    /* One that is not in the AV is its job's. */
    assert_ptr_equal(pass(&b, &many, &source), &buffers[0]);
    assert_int_equal(source, keys[1]);
    assert_ptr_equal(pass(&b, &many, &source), &buffers[3]);
    settle(&a, &many);
    settle(&b, &many);
    end_close(&b);
    end_close(&a);
    close_many(&many);
}

/* The same of messages that come before their receives. */
static void messages_wait_for_the_receive_of_their_job(void **state)
{
    struct fi_cq_tagged_entry entry;
    static char buffers[64];
    struct end many, a, b;
    fi_addr_t keys[2], source;

    open_many(&many, keys);
    open_end(&a, red, NULL);
    open_end(&b, blue, NULL);
    assert_int_equal(fi_av_insert(a.av, many.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(b.av, many.name, 1, &b.peer, 0, NULL), 1);
    assert_int_equal(fi_tsend(a.ep, out, 8, NULL, a.peer, 5, NULL), 0);
    assert_int_equal(read_one(&a, &many, &entry, NULL), 1);
    assert_int_equal(fi_tsend(b.ep, out, 8, NULL, b.peer, 5, NULL), 0);
    assert_int_equal(read_one(&b, &many, &entry, NULL), 1);
    assert_int_equal(fi_trecv(receiver(&many), buffers, 8, NULL, keys[1], 5, 0, &buffers[1]), 0);
    assert_int_equal(fi_trecv(receiver(&many), buffers, 8, NULL, keys[0], 5, 0, &buffers[0]), 0);
    assert_int_equal(read_one(&many, &a, &entry, &source), 1);
    assert_ptr_equal(entry.op_context, &buffers[1]);
    assert_int_equal(source, keys[1]);
    assert_int_equal(read_one(&many, &a, &entry, &source), 1);
    assert_ptr_equal(entry.op_context, &buffers[0]);
    assert_int_equal(source, keys[0]);
    end_close(&b);
    end_close(&a);
    close_many(&many);
}

static void a_shared_context_names_jobs_too(void **state)
{
    shares = true;
    a_receive_names_any_peer_of_a_job(state);
    messages_wait_for_the_receive_of_their_job(state);
    shares = false;
}

static void sources_are_user_ids(void **state)
{
    struct end many, a;
    fi_addr_t keys[2], source;

    open_many_with(&many, keys, FI_AV_USER_ID);
    open_end(&a, red, NULL);
    assert_int_equal(fi_av_insert(a.av, many.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_av_set_user_id(many.av, keys[0], 1234, 0), 0);
    assert_int_equal(fi_recv(many.ep, in, 8, NULL, keys[0], in), 0);
    pass(&a, &many, &source);
    assert_int_equal(source, 1234); /* one of its job */
    many.peer = keys[0];
    assert_int_equal(fi_av_insert(many.av, a.name, 1, &many.peer, FI_AUTH_KEY, NULL), 1);
    assert_int_equal(fi_av_set_user_id(many.av, many.peer, 77, 0), 0);
    assert_int_equal(fi_recv(many.ep, in, 8, NULL, keys[0], in), 0);
    pass(&a, &many, &source);
    assert_int_equal(source, 77);
    settle(&a, &many);
    end_close(&a);
    end_close(&many);
}

/* ---- Regions ---- */

/* The result of a write of `from` to the region: 0, or FI_E. */
static int write_to(struct end *from, struct end *to, uint64_t key)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};

    assert_int_equal(fi_write(from->ep, out, 8, NULL, from->peer, 0, key, NULL), 0);
    if (read_one(from, to, &entry, NULL) == 1)
        return 0;
    assert_int_equal(fi_cq_readerr(from->cq, &error, 0), 1);
    return error.err;
}

static void regions_are_for_their_job_or_initiator(void **state)
{
    const struct iovec iov = {in, sizeof(in)};
    struct fi_mr_auth_key right = {NULL, FI_ADDR_UNSPEC};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = FI_REMOTE_WRITE,
                              .auth_key_size = sizeof(right),
                              .auth_key = (uint8_t *)&right};
    struct end many, a, a2, b;
    struct fid_mr *any, *reds, *one, *none;
    fi_addr_t keys[2];

    open_many(&many, keys);
    open_end(&a, red, NULL);
    open_end(&a2, red, NULL);
    open_end(&b, blue, NULL);
    many.peer = keys[0];
    assert_int_equal(fi_av_insert(many.av, a.name, 1, &many.peer, FI_AUTH_KEY, NULL), 1);
    assert_int_equal(fi_av_insert(a.av, many.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(a2.av, many.name, 1, &a2.peer, 0, NULL), 1);
    assert_int_equal(fi_av_insert(b.av, many.name, 1, &b.peer, 0, NULL), 1);

    assert_int_equal(fi_mr_reg(many.domain, in, 64, FI_REMOTE_WRITE, 0, 1, 0, &none, NULL),
                     -FI_EINVAL);
    right.av = many.av;
    attr.requested_key = 1;
    assert_int_equal(fi_mr_regattr(many.domain, &attr, 0, &any), 0);
    attr.requested_key = 2;
    right.src_addr = keys[0];
    assert_int_equal(fi_mr_regattr(many.domain, &attr, FI_AUTH_KEY, &reds), 0);
    attr.requested_key = 3;
    right.src_addr = many.peer;
    assert_int_equal(fi_mr_regattr(many.domain, &attr, FI_AUTH_KEY, &none), -FI_EINVAL);
    assert_int_equal(fi_mr_regattr(many.domain, &attr, 0, &one), 0);

    memset(in, 1, sizeof(in));
    memset(out, 2, sizeof(out));
    assert_int_equal(write_to(&b, &many, 2), FI_EACCES);
    assert_int_equal(write_to(&b, &many, 3), FI_EACCES);
    assert_int_equal(write_to(&a2, &many, 3), FI_EACCES);
    assert_int_equal(in[0], 1);
    assert_int_equal(write_to(&b, &many, 1), 0);
    assert_int_equal(in[0], 2);
    assert_int_equal(write_to(&a2, &many, 2), 0);
    assert_int_equal(write_to(&a, &many, 3), 0);
    fi_close(&one->fid);
    fi_close(&reds->fid);
    fi_close(&any->fid);
    end_close(&b);
    end_close(&a2);
    end_close(&a);
    end_close(&many);
}

static void a_region_has_a_key_of_its_own(void **state)
{
    const struct iovec iov = {in, sizeof(in)};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = FI_REMOTE_WRITE,
                              .auth_key_size = 3,
                              .auth_key = (uint8_t *)(uintptr_t)blue};
    struct end a, b;
    struct fid_mr *mr;

    open_end(&a, red, NULL);
    open_end(&b, red, NULL);
    end_meet(&a, &b);
    attr.requested_key = 9;
    assert_int_equal(fi_mr_regattr(b.domain, &attr, 0, &mr), 0);
    memset(in, 1, sizeof(in));
    assert_int_equal(write_to(&a, &b, 9), FI_EACCES);
    assert_int_equal(in[0], 1);
    fi_close(&mr->fid);
    attr.auth_key_size = 2;
    assert_int_equal(fi_mr_regattr(b.domain, &attr, 0, &mr), -FI_EINVAL);
    end_close(&b);
    end_close(&a);
}

/* ---- Keys of the provider, regions of one endpoint ---- */

static struct fi_info *infos_with(const char *provider, int mr_mode)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL;

    assert_non_null(hints);
    hints->fabric_attr->prov_name = strdup(provider);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | FI_RMA_EVENT;
    hints->domain_attr->mr_mode = mr_mode;
    fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &list);
    fi_freeinfo(hints);
    assert_non_null(list);
    list->domain_attr->mr_mode = mr_mode; /* nothing asks for them, and all are understood */
    list->tx_attr->msg_order = list->rx_attr->msg_order = 0;
    return list;
}

static void a_region_is_of_the_endpoint_that_it_is_bound_to(void **state)
{
    struct end a, b;
    struct fid_mr *mr;
    struct fid_ep *second;
    uint8_t name[64];
    size_t len = sizeof(name);

    open_end(&a, NULL, NULL);
    end_open(&b, infos_with("uet", FI_MR_ENDPOINT | FI_MR_PROV_KEY), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    assert_int_equal(fi_endpoint(b.domain, b.info, &second, NULL), 0);
    assert_int_equal(fi_ep_bind(second, &b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(second, &b.av->fid, 0), 0);
    assert_int_equal(fi_enable(second), 0);
    assert_int_equal(fi_getname(&second->fid, name, &len), 0);
    assert_int_equal(fi_mr_reg(b.domain, in, 64, FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &b.ep->fid, 0), 0);
    assert_int_equal(fi_mr_enable(mr), 0);
    assert_int_equal(fi_mr_key(mr) >> 48, 1); /* the provider's */
    memset(in, 1, sizeof(in));
    memset(out, 2, sizeof(out));
    assert_int_equal(write_to(&a, &b, fi_mr_key(mr)), 0);
    assert_int_equal(in[0], 2);
    in[0] = 1;
    assert_int_equal(fi_av_insert(a.av, name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(write_to(&a, &b, fi_mr_key(mr)), FI_EACCES);
    assert_int_equal(in[0], 1);
    fi_close(&mr->fid);
    fi_close(&second->fid);
    end_close(&b);
    end_close(&a);
}

static void optimized_keys_are_one_of_4096(void **state)
{
    struct end a, b;
    struct fid_mr *mrs[3];

    open_end(&a, NULL, NULL);
    end_open(&b, infos_with("uet(optimized=yes)", FI_MR_PROV_KEY), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_mr_reg(b.domain, in, 64, FI_REMOTE_WRITE, 0, 5, 0, &mrs[i], NULL), 0);
        assert_int_equal(fi_mr_key(mrs[i]) >> 12, UINT64_C(1) << 50);
    }
    memset(in, 1, sizeof(in));
    memset(out, 2, sizeof(out));
    assert_int_equal(write_to(&a, &b, fi_mr_key(mrs[1])), 0);
    assert_int_equal(in[0], 2);
    fi_close(&mrs[1]->fid);
    assert_int_equal(write_to(&a, &b, UINT64_C(1) << 62 | (fi_mr_key(mrs[0]) ^ 1) % 4096),
                     FI_EACCES);
    fi_close(&mrs[0]->fid);
    fi_close(&mrs[2]->fid);
    end_close(&b);
    end_close(&a);
}

/* A region of `end` with a counter of writes. */
static struct fid_mr *region(struct end *end, uint64_t key, uint64_t flags, struct fid_cntr **cntr)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fid_mr *mr;

    assert_int_equal(
        fi_mr_reg(end->domain, in, 64, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, key, flags, &mr, NULL),
        0);
    assert_int_equal(fi_cntr_open(end->domain, &attr, cntr, NULL), 0);
    assert_int_equal(fi_mr_bind(mr, &(*cntr)->fid, FI_REMOTE_WRITE), 0);
    return mr;
}

/* Does a write of it go by RUDI, of which the target hears nothing? It is written in any case. */
static bool goes_unheard(struct end *a, struct end *b, struct fid_mr *mr, struct fid_cntr *cntr)
{
    uint64_t before = fi_cntr_read(cntr);
    struct fi_cq_tagged_entry entry;
    char got[8] = {0};

    memset(in, 1, sizeof(in));
    memset(out, 2, sizeof(out));
    assert_int_equal(write_to(a, b, fi_mr_key(mr)), 0);
    assert_memory_equal(in, out, 8);
    assert_int_equal(in[8], 1);
    assert_int_equal(fi_read(a->ep, got, 8, NULL, a->peer, 4, fi_mr_key(mr), NULL), 0);
    assert_int_equal(read_one(a, b, &entry, NULL), 1);
    assert_memory_equal(got, in + 4, 8);
    return fi_cntr_read(cntr) == before;
}

static void idempotent_regions_are_accessed_without_a_context(void **state)
{
    static const char *const providers[] = {"uet", "uet(profile=ai-full)"};
    const uint64_t key = FI_UET_KEY_IDEMPOTENT | 5;

    for (int own = 0; own < 2; own++) {        /* keys of the provider, and of the application */
        for (int full = 0; full < 2; full++) { /* the initiator has no RUDI */
            struct end a, b;
            struct fid_mr *mr, *chance;
            struct fid_cntr *cntr, *other;

            end_open(&a, infos_with(providers[full], 0), FI_CQ_FORMAT_TAGGED);
            end_open(&b, infos_with("uet", own ? FI_MR_PROV_KEY : 0), FI_CQ_FORMAT_TAGGED);
            end_meet(&a, &b);
            mr = region(&b, key, FI_UET_MR_IDEMPOTENT, &cntr);
            assert_true(fi_mr_key(mr) & FI_UET_KEY_IDEMPOTENT);
            assert_true(goes_unheard(&a, &b, mr, cntr) == !full);
            if (!own) { /* one that did not ask for it, and a key that does not say it */
                chance = region(&b, key + 1, 0, &other);
                assert_false(goes_unheard(&a, &b, chance, other));
                fi_close(&chance->fid);
                fi_close(&other->fid);
                assert_int_equal(fi_mr_reg(b.domain, in, 64, FI_REMOTE_WRITE, 0, 5,
                                           FI_UET_MR_IDEMPOTENT, &chance, NULL),
                                 -FI_EKEYREJECTED);
            }
            fi_close(&mr->fid);
            assert_int_equal(write_to(&a, &b, key), FI_EACCES);
            fi_close(&cntr->fid);
            end_close(&b);
            end_close(&a);
        }
    }
}

/* ---- Services ---- */

static char path[] = "/tmp/uet_services_XXXXXX";

static void write_services(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Opens an endpoint by a spec with the file; its address, or zeros where there is none. */
static void serve(const char *more, struct end *end)
{
    char spec[256];

    snprintf(spec, sizeof(spec), "uet(services=\"%s\"%s)", path, more);
    memset(end, 0, sizeof(*end));
    end->info = infos(spec, 0, NULL, NULL);
    if (end->info)
        end_open(end, end->info, FI_CQ_FORMAT_TAGGED);
}

static void services_say_what_endpoints_are(void **state)
{
    struct end end, other;

    write_services("# jobs\n\ndefault job=0x10203\nstore job=7 pid=1996 initiator=40 "
                   "addressing=absolute # the last\n");
    serve("", &end);
    assert_non_null(end.info);
    open_end(&other, blue, NULL); /* the same job */
    end_meet(&other, &end);
    assert_int_equal(fi_recv(end.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    pass(&other, &end, NULL);
    end_close(&other);
    end_close(&end);
    serve(",service=store", &end);
    assert_non_null(end.info);
    assert_int_equal((uint8_t)end.name[6] << 8 | (uint8_t)end.name[7], 1996);
    assert_int_equal(end.name[15], 40);
    assert_int_equal(end.name[2] & 0x20, 0x20);
    open_end(&other, red, NULL);
    end_meet(&other, &end);
    assert_int_equal(fi_recv(end.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    pass(&other, &end, NULL);
    end_close(&other);
    end_close(&end);
}

static void a_wrong_service_file_offers_nothing(void **state)
{
    static const char *const wrong[] = {
        "default job=0x1000000\n",
        "default job\n",
        "default jib=1\n",
        "default job=1 job=2\n",
        "job=1\n",
        "default job=1\ndefault job=2\n",
        "other job=1\n",
        "default pid=4096\n",
        "default addressing=far\n",
        "default job=-1\n",
        "default\nx job=1x\n",
    };
    struct end end;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        write_services(wrong[i]);
        serve("", &end);
        assert_null(end.info);
    }
    unlink(path);
    serve("", &end);
    assert_null(end.info);
}

/* An address from before a restart is another one. */
static void a_generation_is_in_the_address(void **state)
{
    struct end a, b;
    static char longer[1000]; /* than what is complete before its end */
    uint8_t before[64];

    end_open(&a, infos("uet", 0, NULL, NULL), FI_CQ_FORMAT_TAGGED);
    end_open(&b, infos("uet(generation=9)", 0, NULL, NULL), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    pass(&a, &b, NULL);
    assert_int_equal(fi_recv(a.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    pass(&b, &a, NULL);
    memcpy(before, b.name, sizeof(before));
    before[10] = 8;
    assert_int_equal(fi_av_insert(a.av, before, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_tsend(a.ep, longer, sizeof(longer), NULL, a.peer, 1, NULL), 0);
    assert_int_equal(failure(&a, &b), FI_EIO);
    end_close(&b);
    end_close(&a);
}

static int change_generation(struct end *end, uint32_t generation)
{
    size_t len = sizeof(end->name);
    int rc = fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, FI_OPT_UET_GENERATION, &generation,
                       sizeof(generation));

    assert_int_equal(fi_getname(&end->ep->fid, end->name, &len), 0);
    return rc;
}

static void a_generation_changes_while_an_endpoint_is(void **state)
{
    struct end a, b;
    static char longer[1000];
    uint32_t told;
    size_t len = 3;

    end_open(&a, infos("uet", 0, NULL, NULL), FI_CQ_FORMAT_TAGGED);
    end_open(&b, infos("uet", 0, NULL, NULL), FI_CQ_FORMAT_TAGGED);
    end_meet(&a, &b);
    assert_int_equal(change_generation(&b, FI_UET_DISABLED + 1), -FI_EINVAL);
    assert_int_equal(change_generation(&b, 1), 0);
    assert_int_equal(fi_tsend(a.ep, longer, sizeof(longer), NULL, a.peer, 1, NULL), 0);
    assert_int_equal(failure(&a, &b), FI_EIO);
    assert_int_equal(change_generation(&b, FI_UET_DISABLED), 0);
    assert_int_equal(fi_tsend(a.ep, longer, sizeof(longer), NULL, a.peer, 1, NULL), 0);
    assert_int_equal(failure(&a, &b), FI_ENORX);
    assert_int_equal(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_UET_GENERATION, &told, &len),
                     -FI_ETOOSMALL);
    assert_int_equal(fi_getopt(&b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_UET_GENERATION, &told, &len), 0);
    assert_int_equal(told, FI_UET_DISABLED);
    assert_int_equal(change_generation(&b, 1), -FI_EINVAL); /* it was disabled */
    assert_int_equal(change_generation(&b, 2), 0);
    assert_int_equal(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
    assert_int_equal(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in), 0);
    pass(&a, &b, NULL);
    settle(&a, &b);
    end_close(&b);
    end_close(&a);
}

static void without_a_fallback_an_endpoint_needs_a_job(void **state)
{
    struct fi_info *info = infos("uet(fallback=no)", 0, NULL, NULL);
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;

    assert_non_null(info);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), -FI_EACCES);
    info->ep_attr->auth_key = malloc(3);
    memcpy(info->ep_attr->auth_key, red, 3);
    info->ep_attr->auth_key_size = 3;
    assert_int_equal(fi_endpoint(domain, info, &ep, NULL), 0);
    fi_close(&ep->fid);
    fi_close(&domain->fid);
    fi_close(&fabric->fid);
    fi_freeinfo(info);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infos_offer_keys),
        cmocka_unit_test(endpoints_of_one_job_hear_each_other_only),
        cmocka_unit_test(keys_are_addresses_of_all_their_peers),
        cmocka_unit_test(a_receive_names_any_peer_of_a_job),
        cmocka_unit_test(messages_wait_for_the_receive_of_their_job),
        cmocka_unit_test(a_shared_context_names_jobs_too),
        cmocka_unit_test(sources_are_user_ids),
        cmocka_unit_test(regions_are_for_their_job_or_initiator),
        cmocka_unit_test(a_region_has_a_key_of_its_own),
        cmocka_unit_test(a_region_is_of_the_endpoint_that_it_is_bound_to),
        cmocka_unit_test(optimized_keys_are_one_of_4096),
        cmocka_unit_test(idempotent_regions_are_accessed_without_a_context),
        cmocka_unit_test(services_say_what_endpoints_are),
        cmocka_unit_test(a_wrong_service_file_offers_nothing),
        cmocka_unit_test(a_generation_is_in_the_address),
        cmocka_unit_test(a_generation_changes_while_an_endpoint_is),
        cmocka_unit_test(without_a_fallback_an_endpoint_needs_a_job),
    };
    int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
