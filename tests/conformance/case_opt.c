/* SPDX-License-Identifier: BSD-2-Clause */
/* Options, aliases, registrations: each works, or is refused with what the man page says. */
#include <stdlib.h>
#include <string.h>

#include <rdma/fi_atomic.h>

#include "conf.h"

static struct option {
    const char *name;
    int option;
    size_t size;
} const options[] = {
#define OPTION(name, type)                                                                         \
    {                                                                                              \
#name, FI_OPT_##name, sizeof(type)                                                         \
    }
    OPTION(MIN_MULTI_RECV, size_t),
    OPTION(CM_DATA_SIZE, size_t),
    OPTION(BUFFERED_MIN, size_t),
    OPTION(BUFFERED_LIMIT, size_t),
    OPTION(SEND_BUF_SIZE, size_t),
    OPTION(RECV_BUF_SIZE, size_t),
    OPTION(TX_SIZE, size_t),
    OPTION(RX_SIZE, size_t),
    OPTION(FI_HMEM_P2P, int),
    OPTION(CUDA_API_PERMITTED, bool),
    OPTION(SHARED_MEMORY_PERMITTED, bool),
    OPTION(MAX_MSG_SIZE, size_t),
    OPTION(MAX_TAGGED_SIZE, size_t),
    OPTION(MAX_RMA_SIZE, size_t),
    OPTION(MAX_ATOMIC_SIZE, size_t),
    OPTION(INJECT_MSG_SIZE, size_t),
    OPTION(INJECT_TAGGED_SIZE, size_t),
    OPTION(INJECT_RMA_SIZE, size_t),
    OPTION(INJECT_ATOMIC_SIZE, size_t),
    OPTION(FIREWALL_ADDR, bool),
};

static void each_option(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fid *fid = &p->a.ep->fid;

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        unsigned char value[64];
        size_t len = sizeof value;
        int rc;

        memset(value, 0x55, sizeof value);
        rc = fi_getopt(fid, FI_OPT_ENDPOINT, options[i].option, value, &len);
        conf_check(!rc || rc == -FI_ENOPROTOOPT, "%s: fi_getopt: %s", options[i].name,
                   fi_strerror(-rc));
        if (!rc) {
            conf_check(len == options[i].size && value[len] == 0x55, "%s: length %zu",
                       options[i].name, len);
            len = 0;
            rc = fi_getopt(fid, FI_OPT_ENDPOINT, options[i].option, value, &len);
            conf_check(rc == -FI_ETOOSMALL, "%s with no room: %s", options[i].name,
                       fi_strerror(-rc));
            rc = fi_setopt(fid, FI_OPT_ENDPOINT, options[i].option, value, options[i].size);
        } else {
            memset(value, 0, sizeof value);
            rc = fi_setopt(fid, FI_OPT_ENDPOINT, options[i].option, value, options[i].size);
        }
        conf_check(!rc || rc == -FI_ENOPROTOOPT || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP,
                   "%s: fi_setopt: %s", options[i].name, fi_strerror(-rc));
    }
    conf_check(fi_getopt(fid, FI_OPT_ENDPOINT, 4711, &p, &(size_t){8}) == -FI_ENOPROTOOPT,
               "an option that does not exist");
    conf_check(fi_setopt(fid, 99, FI_OPT_MIN_MULTI_RECV, &(size_t){8}, 8) == -FI_ENOPROTOOPT,
               "a level that does not exist");
    conf_pair_close(p);
}

static void options_that_are_attributes(void)
{
    static const int largest[] = {FI_OPT_MAX_MSG_SIZE, FI_OPT_MAX_TAGGED_SIZE, FI_OPT_MAX_RMA_SIZE};
    static const int inject[] = {FI_OPT_INJECT_MSG_SIZE, FI_OPT_INJECT_TAGGED_SIZE,
                                 FI_OPT_INJECT_RMA_SIZE};
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    size_t value, len;

    for (int i = 0; i < 3; i++) {
        len = sizeof value;
        conf_check(!fi_getopt(&p->a.ep->fid, FI_OPT_ENDPOINT, largest[i], &value, &len) &&
                       value == p->home.info->ep_attr->max_msg_size,
                   "largest %d", i);
        len = sizeof value;
        conf_check(!fi_getopt(&p->a.ep->fid, FI_OPT_ENDPOINT, inject[i], &value, &len) &&
                       value == p->home.info->tx_attr->inject_size,
                   "inject %d", i);
    }
    value = 777;
    conf_check(!fi_setopt(&p->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 8), "set");
    value = 0;
    len = sizeof value;
    conf_check(!fi_getopt(&p->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len) &&
                   value == 777,
               "get what was set: %zu", value);
    conf_pair_close(p);
}

/* A second handle with flags of its own. */
static void alias(void)
{
    struct conf_pair *p;
    struct fid_ep *other;
    char out[2] = {'a', 'b'}, in[2];
    int rc;

    conf_need("aliases");
    p = conf_pair_open((struct conf_want){.cq_flags = FI_SELECTIVE_COMPLETION});
    rc = fi_ep_alias(p->a.ep, &other, FI_TRANSMIT | FI_COMPLETION);
    conf_check(!rc, "fi_ep_alias: %s", fi_strerror(-rc));
    for (int i = 0; i < 2; i++) {
        struct iovec iov = {&in[i], 1};
        struct fi_msg_tagged msg = {.msg_iov = &iov,
                                    .iov_count = 1,
                                    .addr = FI_ADDR_UNSPEC,
                                    .tag = (uint64_t)i,
                                    .context = &in[i]};

        conf_post(p, fi_trecvmsg(p->b.ep, &msg, FI_COMPLETION));
    }
    conf_post(p, fi_tsend(p->a.ep, &out[0], 1, NULL, p->a.peer, 0, &out[0]));
    conf_post(p, fi_tsend(other, &out[1], 1, NULL, p->a.peer, 1, &out[1]));
    conf_wait(p, &p->b, &in[0]);
    conf_wait(p, &p->b, &in[1]);
    conf_check(in[0] == 'a' && in[1] == 'b', "data");
    conf_check(!conf_wait(p, &p->a, &out[1]).err, "the alias completes");
    conf_quiet(p, 5);
    conf_check(fi_close(&p->a.ep->fid) == -FI_EBUSY, "an endpoint with an alias closes");
    conf_check(!fi_close(&other->fid), "the alias");
    conf_pair_close(p);
}

/* Memory of a device: refused, by the offer and by the registration. */
static void device_memory(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char memory[64];
    struct iovec iov = {memory, sizeof memory};
    struct fi_mr_attr attr = {
        .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE, .iface = FI_HMEM_CUDA};
    struct fi_info *info = NULL;
    struct fid_mr *mr;
    int rc;

    conf_check(
        conf_getinfo(&(struct conf_want){.caps = FI_MSG | FI_HMEM, .version = FI_VERSION(2, 6)},
                     &info) == -FI_ENODATA,
        "FI_HMEM is offered");
    rc = fi_mr_regattr(p->home.domain, &attr, 0, &mr);
    conf_check(rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL, "CUDA memory: %s",
               fi_strerror(-rc));
    attr.iface = (enum fi_hmem_iface)1234;
    rc = fi_mr_regattr(p->home.domain, &attr, 0, &mr);
    conf_check(rc < 0, "memory of no kind is registered");
    attr.iface = FI_HMEM_SYSTEM;
    attr.requested_key = 99;
    rc = fi_mr_regattr(p->home.domain, &attr, 0, &mr);
    conf_check(!rc && fi_mr_key(mr) == 99, "plain memory: %s", fi_strerror(-rc));
    rc = fi_mr_regattr(p->home.domain, &attr, 0, &(struct fid_mr *){NULL});
    conf_check(rc == -FI_ENOKEY, "the same key twice: %s", fi_strerror(-rc));
    conf_check(!fi_close(&mr->fid), "fi_close");
    conf_pair_close(p);
}

/* One region of several pieces; offsets run through them. */
static void region_of_pieces(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char pieces[3][5000], out[15000], in[15000];
    struct iovec iov[3] = {{pieces[2], 5000}, {pieces[0], 5000}, {pieces[1], 5000}};
    struct fid_mr *mr;
    int rc;

    rc = fi_mr_regv(p->home.domain, iov, 3, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 55, 0, &mr, NULL);
    conf_check(!rc, "fi_mr_regv: %s", fi_strerror(-rc));
    conf_fill(out, sizeof out, 1);
    conf_post(p, fi_write(p->a.ep, out, sizeof out, NULL, p->a.peer, 0, fi_mr_key(mr), out));
    conf_check(!conf_wait(p, &p->a, out).err, "fi_write");
    conf_post(p, fi_read(p->a.ep, in, 9000, NULL, p->a.peer, 3000, fi_mr_key(mr), in));
    conf_check(!conf_wait(p, &p->a, in).err && !memcmp(in, out + 3000, 9000), "fi_read");
    conf_check(!memcmp(pieces[2], out, 5000) && !memcmp(pieces[0], out + 5000, 5000) &&
                   !memcmp(pieces[1], out + 10000, 5000),
               "the pieces");
    conf_check(!fi_close(&mr->fid), "fi_close");
    conf_pair_close(p);
}

/* A region that is closed is not reached any more, and one with its key again is. */
static void closed_region(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.op_flags = FI_DELIVERY_COMPLETE});
    char memory[2][64] = {{0}}, out[64];
    struct fid_mr *mr;

    conf_fill(out, 64, 1);
    for (int i = 0; i < 2; i++) {
        conf_check(!fi_mr_reg(p->home.domain, memory[i], 64, FI_REMOTE_WRITE, 0, 66, 0, &mr, NULL),
                   "fi_mr_reg");
        conf_post(p, fi_write(p->a.ep, out, 64, NULL, p->a.peer, 0, 66, out));
        conf_check(!conf_wait(p, &p->a, out).err, "fi_write");
        for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; !conf_holds(memory[i], 64, 1);) {
            conf_drive_pair(p);
            conf_check(conf_now_ms() < end, "data");
        }
        conf_check(!fi_close(&mr->fid), "fi_close");
    }
    memset(memory, 0, sizeof memory);
    conf_post(p, fi_write(p->a.ep, out, 64, NULL, p->a.peer, 0, 66, out));
    conf_check(conf_wait(p, &p->a, out).err != 0, "a closed region is written");
    conf_check(!memory[0][5] && !memory[1][5], "written through a closed region");
    conf_pair_close(p);
}

/* Every refusal of what a group of operations does not have is an error, never a crash. */
static void not_asked(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.caps = FI_MSG});
    char byte = 0;
    ssize_t rc = fi_tsend(p->a.ep, &byte, 1, NULL, p->a.peer, 1, NULL);

    conf_check(rc < 0, "fi_tsend without FI_TAGGED: %zd", rc);
    rc = fi_write(p->a.ep, &byte, 1, NULL, p->a.peer, 0, 0, NULL);
    conf_check(rc < 0, "fi_write without FI_RMA: %zd", rc);
    rc = fi_atomic(p->a.ep, &byte, 1, NULL, p->a.peer, 0, 0, FI_UINT8, FI_SUM, NULL);
    conf_check(rc < 0, "fi_atomic without FI_ATOMIC: %zd", rc);
    conf_check(fi_atomicvalid(p->a.ep, FI_UINT8, FI_SUM, &(size_t){0}) < 0, "fi_atomicvalid");
    conf_quiet(p, 5);
    conf_pair_close(p);
}

const struct conf_case conf_opt_cases[] = {
    {"opt: every option works or is not there", each_option},
    {"opt: options that are attributes", options_that_are_attributes},
    {"opt: an alias with flags of its own", alias},
    {"opt: memory of devices is refused", device_memory},
    {"opt: a region of pieces", region_of_pieces},
    {"opt: a closed region, and its key again", closed_region},
    {"opt: operations that were not asked for", not_asked},
    {0},
};
