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
        conf_check(!rc || rc == -FI_ENOPROTOOPT || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP ||
                       rc == -FI_EOPBADSTATE,
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
    conf_check(
        !fi_setopt(&p->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof value),
        "set");
    value = 0;
    len = sizeof value;
    conf_check(!fi_getopt(&p->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len) &&
                   value == 777,
               "get what was set: %zu", value);
    conf_pair_close(p);
}

/* ---- What the man page says of each option ---- */

enum demand {
    READ_ONLY,    /* got, but not set once it is enabled */
    READ_MAYBE,   /* the same, or it is not there */
    SET_ONLY,     /* not got; what a setting answers is asked elsewhere */
    NOT_THERE,    /* no option of an endpoint without what it is about */
    READ_WRITTEN, /* what was set is got */
};

static const struct {
    const char *name;
    int option;
    enum demand demand;
    bool inject; /* at most inject_size, else at most max_msg_size */
} demands[] = {
    {"MIN_MULTI_RECV", FI_OPT_MIN_MULTI_RECV, READ_WRITTEN, false},
    {"CM_DATA_SIZE", FI_OPT_CM_DATA_SIZE, READ_MAYBE, false},
    {"BUFFERED_MIN", FI_OPT_BUFFERED_MIN, NOT_THERE, false},
    {"BUFFERED_LIMIT", FI_OPT_BUFFERED_LIMIT, NOT_THERE, false},
    {"FI_HMEM_P2P", FI_OPT_FI_HMEM_P2P, NOT_THERE, false},
    {"XPU_TRIGGER", FI_OPT_XPU_TRIGGER, NOT_THERE, false},
    {"CUDA_API_PERMITTED", FI_OPT_CUDA_API_PERMITTED, NOT_THERE, false},
    {"SHARED_MEMORY_PERMITTED", FI_OPT_SHARED_MEMORY_PERMITTED, SET_ONLY, false},
    {"MAX_MSG_SIZE", FI_OPT_MAX_MSG_SIZE, READ_ONLY, false},
    {"MAX_TAGGED_SIZE", FI_OPT_MAX_TAGGED_SIZE, READ_ONLY, false},
    {"MAX_RMA_SIZE", FI_OPT_MAX_RMA_SIZE, READ_ONLY, false},
    {"MAX_ATOMIC_SIZE", FI_OPT_MAX_ATOMIC_SIZE, READ_ONLY, false},
    {"INJECT_MSG_SIZE", FI_OPT_INJECT_MSG_SIZE, READ_ONLY, true},
    {"INJECT_TAGGED_SIZE", FI_OPT_INJECT_TAGGED_SIZE, READ_ONLY, true},
    {"INJECT_RMA_SIZE", FI_OPT_INJECT_RMA_SIZE, READ_ONLY, true},
    {"INJECT_ATOMIC_SIZE", FI_OPT_INJECT_ATOMIC_SIZE, READ_ONLY, true},
};

/* Sets each value that may be one, and is refused: there is nothing that it could change. */
static void cannot_be_set(struct fid *fid, int option, const char *name)
{
    static const size_t sizes[] = {sizeof(bool), sizeof(int), sizeof(size_t), 64};
    unsigned char value[64] = {0};

    for (int i = 0; i < 4; i++) {
        int rc;

        value[0] = (unsigned char)i;
        rc = fi_setopt(fid, FI_OPT_ENDPOINT, option, value, sizes[i]);
        conf_check(rc == -FI_ENOPROTOOPT || rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP ||
                       rc == -FI_EOPBADSTATE,
                   "%s is set: %s", name, fi_strerror(-rc));
    }
}

static void demand_met(struct conf_pair *p, size_t i)
{
    const struct fi_info *info = p->home.info;
    size_t most = demands[i].inject ? info->tx_attr->inject_size : info->ep_attr->max_msg_size;
    struct fid *fid = &p->a.ep->fid;
    size_t value = 12345, len = sizeof value;
    bool there = demands[i].demand == READ_ONLY || demands[i].demand == READ_WRITTEN;
    int rc;

    if (demands[i].demand == READ_WRITTEN)
        conf_check(!fi_setopt(fid, FI_OPT_ENDPOINT, demands[i].option, &value, sizeof value),
                   "%s is not set", demands[i].name);
    else if (demands[i].demand != SET_ONLY)
        cannot_be_set(fid, demands[i].option, demands[i].name);
    rc = fi_getopt(fid, FI_OPT_ENDPOINT, demands[i].option, &value, &len);
    conf_check(there ? !rc : rc == -FI_ENOPROTOOPT || (!rc && demands[i].demand == READ_MAYBE),
               "%s: fi_getopt: %s", demands[i].name, fi_strerror(-rc));
    if (!rc)
        conf_check(len == sizeof value && value <= most, "%s: %zu, of at most %zu", demands[i].name,
                   value, most);
    if (demands[i].demand == READ_WRITTEN)
        conf_check(value == 12345, "%s: %zu, not what was set", demands[i].name, value);
}

/* Down, before the endpoint is enabled. */
static void sizes_are_set_down(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct fid_ep *ep;
    int rc = fi_endpoint(p->home.domain, p->home.info, &ep, NULL);

    conf_check(!rc, "fi_endpoint: %s", fi_strerror(-rc));
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
        int option = demands[i].option;
        size_t most = 0, value, len = sizeof most;

        if (demands[i].demand != READ_ONLY)
            continue;
        rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, &most, &len);
        conf_check(!rc, "%s: fi_getopt: %s", demands[i].name, fi_strerror(-rc));
        value = most / 2;
        rc = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof value);
        conf_check(!rc, "%s: fi_setopt: %s", demands[i].name, fi_strerror(-rc));
        value = 12345;
        len = sizeof value;
        rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, &len);
        conf_check(!rc && value == most / 2, "%s: %zu, not what was set", demands[i].name, value);
        value = most + 1;
        conf_check(most == SIZE_MAX || fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &value,
                                                 sizeof value) == -FI_EINVAL,
                   "%s is set to more than there is", demands[i].name);
        conf_check(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, 1) == -FI_EINVAL,
                   "%s: a size of one byte", demands[i].name);
    }
    conf_check(!fi_close(&ep->fid), "fi_close");
    conf_pair_close(p);
}

/* May it be without? Where there are only sockets it is; where there is nothing else it is not. */
static void without_shared_memory(struct fid *fid)
{
    bool sockets = conf_offers->known &&
                   (!offers_lacks(conf_offers, "sockets") || (conf_offers->caps & FI_REMOTE_COMM));
    int rc, name = FI_OPT_SHARED_MEMORY_PERMITTED;

    rc = fi_setopt(fid, FI_OPT_ENDPOINT, name, &(bool){false}, sizeof(bool));
    conf_check(sockets ? !rc : rc == -FI_ENOPROTOOPT || rc == -FI_EOPNOTSUPP,
               "no shared memory: %s", fi_strerror(-rc));
    if (rc == -FI_ENOPROTOOPT)
        return;
    conf_check(fi_setopt(fid, FI_OPT_ENDPOINT, name, &(size_t){0}, sizeof(size_t)) == -FI_EINVAL,
               "a bool of eight bytes");
    conf_check(!fi_setopt(fid, FI_OPT_ENDPOINT, name, &(bool){true}, sizeof(bool)),
               "shared memory is permitted");
}

static void as_the_man_page_says(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});

    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++)
        demand_met(p, i);
    without_shared_memory(&p->a.ep->fid);
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
    bool chosen; /* keys, by the provider */
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
    chosen = p->home.info->domain_attr->mr_mode & FI_MR_PROV_KEY;
    conf_check(!rc && (chosen || fi_mr_key(mr) == 99), "plain memory: %s", fi_strerror(-rc));
    rc = chosen ? -FI_ENOKEY : fi_mr_regattr(p->home.domain, &attr, 0, &(struct fid_mr *){NULL});
    conf_check(rc == -FI_ENOKEY, "the same key twice: %s", fi_strerror(-rc));
    conf_check(!fi_close(&mr->fid), "fi_close");
    conf_pair_close(p);
}

/* The remote address of a region that starts there. */
static uint64_t base_of(const struct conf_pair *p, const void *start)
{
    return p->home.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)start : 0;
}

/* One region of several pieces; offsets run through them. */
static void region_of_pieces(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char pieces[3][5000], out[15000], in[15000];
    struct iovec iov[3] = {{pieces[2], 5000}, {pieces[0], 5000}, {pieces[1], 5000}};
    uint64_t base = base_of(p, pieces[2]);
    struct fid_mr *mr;
    int rc;

    if (p->home.info->domain_attr->mr_iov_limit < 3)
        conf_need("regions_of_pieces");
    rc = fi_mr_regv(p->home.domain, iov, 3, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 55, 0, &mr, NULL);
    conf_check(!rc, "fi_mr_regv: %s", fi_strerror(-rc));
    conf_fill(out, sizeof out, 1);
    conf_post(p, fi_write(p->a.ep, out, sizeof out, NULL, p->a.peer, base, fi_mr_key(mr), out));
    conf_check(!conf_wait(p, &p->a, out).err, "fi_write");
    conf_post(p, fi_read(p->a.ep, in, 9000, NULL, p->a.peer, base + 3000, fi_mr_key(mr), in));
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
    conf_need("DELIVERY_COMPLETE");
    struct conf_pair *p = conf_pair_open((struct conf_want){.op_flags = FI_DELIVERY_COMPLETE});
    char memory[2][64] = {{0}}, out[64];
    uint64_t key = 0;
    struct fid_mr *mr;

    conf_fill(out, 64, 1);
    for (int i = 0; i < 2; i++) {
        conf_check(!fi_mr_reg(p->home.domain, memory[i], 64, FI_REMOTE_WRITE, 0, 66, 0, &mr, NULL),
                   "fi_mr_reg");
        key = fi_mr_key(mr);
        conf_post(p, fi_write(p->a.ep, out, 64, NULL, p->a.peer, base_of(p, memory[i]), key, out));
        conf_check(!conf_wait(p, &p->a, out).err, "fi_write");
        conf_await_data(p, memory[i], 64, 1);
        conf_check(!fi_close(&mr->fid), "fi_close");
    }
    memset(memory, 0, sizeof memory);
    conf_post(p, fi_write(p->a.ep, out, 64, NULL, p->a.peer, base_of(p, memory[1]), key, out));
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
    {"opt: each as the man page says", as_the_man_page_says},
    {"opt: options that are attributes", options_that_are_attributes},
    {"opt: sizes are set down", sizes_are_set_down},
    {"opt: an alias with flags of its own", alias},
    {"opt: memory of devices is refused", device_memory},
    {"opt: a region of pieces", region_of_pieces},
    {"opt: a closed region, and its key again", closed_region},
    {"opt: operations that were not asked for", not_asked},
    {0},
};
