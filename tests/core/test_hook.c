/* SPDX-License-Identifier: BSD-2-Clause */
/* Two pass-through fabrics over a fake one, whose queues and counters are core's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>

#include <rdma/fi_errno.h>

#include "core/domain/base.h"
#include "core/hook/hook.h"
#include "core/hook/hook_watch.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "core/part/part.h"
#include "core/queue/cntr.h"
#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "tests/support/enosys_tables.h"

/* ---- The fake lower ---- */

struct fake_ep {
    struct fid_ep fid;
    struct fid *bound[4];
    int bound_count;
    int option;
};

static struct {
    struct fabric fabric;
    struct progress *progress;
    struct domain domain;
    struct fi_info *last_info;
    struct fid_domain *last_domain; /* domain_attr->domain of the last info */
    struct fid_fabric *last_fabric;
    struct fid *last_handle;
    struct fake_ep ep, alias, srx;
    struct fid_pep pep;
    struct fid_mr mr;
    struct fid_mc mc;
    struct eq *eq;
    struct cq *cq;
    struct cntr *cntr;
    struct fid_peer_srx *peer_srx;
    int closes;
    const struct fid_mr *base_mr;
} fake;

static int count_close(struct fid *fid)
{
    fake.closes++;
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
    struct fake_ep *ep = object_of(fid, struct fake_ep, fid.fid);

    ep->bound[ep->bound_count++] = bfid;
    return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    struct fi_alias *alias = arg;

    if (command != FI_ALIAS)
        return command == FI_ENABLE ? 0 : -FI_ENOSYS;
    fake.alias.fid = fake.ep.fid;
    *alias->fid = &fake.alias.fid.fid;
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(ep_fid_ops),
    .close = count_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = enosys_ops_open,
    .ops_set = enosys_ops_set,
};

static int ep_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    object_of(fid, struct fake_ep, fid.fid)->option = optname;
    return 0;
}

static struct fi_ops_ep ep_ops;
static struct fi_ops_cm cm_ops;

static int join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
                void *context)
{
    fid_init(&fake.mc.fid, FI_CLASS_MC, context, &ep_fid_ops);
    fake.mc.fi_addr = 1;
    *mc = &fake.mc;
    return 0;
}

static void open_fake_ep(struct fake_ep *ep, size_t fclass, void *context, struct fid_ep **ret_ep)
{
    memset(ep, 0, sizeof(*ep));
    fid_init(&ep->fid.fid, fclass, context, &ep_fid_ops);
    ep_ops = enosys_ep_ops;
    ep_ops.setopt = ep_setopt;
    cm_ops = enosys_cm_ops;
    cm_ops.join = join;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &cm_ops;
    ep->fid.msg = &ep_msg_ops;
    *ret_ep = &ep->fid;
}

static void note_info(const struct fi_info *info)
{
    fake.last_domain = info->domain_attr ? info->domain_attr->domain : NULL;
    fake.last_fabric = info->fabric_attr ? info->fabric_attr->fabric : NULL;
    fake.last_handle = info->handle;
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context)
{
    note_info(info);
    open_fake_ep(&fake.ep, FI_CLASS_EP, context, ep);
    return 0;
}

static int domain_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                          void *context)
{
    int rc = cq_open(&fake.domain, attr, cq, context);

    if (!rc)
        fake.cq = object_of(*cq, struct cq, fid);
    return rc;
}

static int domain_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr,
                            struct fid_cntr **cntr, void *context)
{
    int rc = cntr_open(&fake.domain, attr, cntr, context);

    if (!rc)
        fake.cntr = object_of(*cntr, struct cntr, fid);
    return rc;
}

static int start(struct fi_peer_rx_entry *entry);
static int discard(struct fi_peer_rx_entry *entry);

static struct fi_ops_srx_peer fake_srx_peer_ops = {
    .size = sizeof(fake_srx_peer_ops),
    .start_msg = start,
    .start_tag = start,
    .discard_msg = discard,
    .discard_tag = discard,
};

static int domain_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx,
                           void *context)
{
    assert_true(attr->op_flags & FI_PEER);
    fake.peer_srx = ((struct fi_peer_srx_context *)context)->srx;
    fake.peer_srx->peer_ops = &fake_srx_peer_ops;
    open_fake_ep(&fake.srx, FI_CLASS_SRX_CTX, NULL, srx);
    return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
    fake.mr.key = 77;
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(mr_fid_ops),
    .close = count_close,
    .bind = enosys_bind,
    .control = mr_control,
};

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **mr)
{
    fid_init(&fake.mr.fid, FI_CLASS_MR, attr->context, &mr_fid_ops);
    fake.mr.mem_desc = &fake;
    fake.mr.key = 76;
    fake.base_mr = attr->base_mr;
    *mr = &fake.mr;
    return 0;
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct fi_mr_attr attr = {.context = context};

    return mr_regattr(fid, &attr, flags, mr);
}

static int domain_close(struct fid *fid)
{
    if (children_any(&fake.domain.children))
        return -FI_EBUSY;
    domain_finish(&fake.domain);
    return 0;
}

static struct fi_ops domain_fid_ops = {.size = sizeof(domain_fid_ops), .close = domain_close};
static struct fi_ops_domain domain_ops;
static struct fi_ops_mr mr_table;

static int fabric_domain(struct fid_fabric *fabric, struct fi_info *info,
                         struct fid_domain **domain, void *context)
{
    int rc;

    note_info(info);
    domain_ops = enosys_domain_ops;
    domain_ops.endpoint = open_ep;
    domain_ops.cq_open = domain_cq_open;
    domain_ops.cntr_open = domain_cntr_open;
    domain_ops.srx_ctx = domain_srx_open;
    mr_table = enosys_mr_ops;
    mr_table.reg = mr_reg;
    mr_table.regattr = mr_regattr;
    rc = domain_init(&fake.domain, &fake.fabric, info, &domain_fid_ops, &domain_ops, &mr_table,
                     context);
    if (!rc)
        *domain = &fake.domain.fid;
    return rc;
}

static int fabric_pep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
                      void *context)
{
    note_info(info);
    fid_init(&fake.pep.fid, FI_CLASS_PEP, context, &ep_fid_ops);
    *pep = &fake.pep;
    return 0;
}

static int fabric_eq(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
                     void *context)
{
    int rc = eq_open(&fake.fabric, fake.progress, attr, eq, context);

    if (!rc)
        fake.eq = object_of(*eq, struct eq, fid);
    return rc;
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fids_trywait(fids, count);
}

static struct fi_ops_fabric fabric_ops;

/* ---- The stack: outer over inner over fake ---- */

static const struct part fake_part = {.name = "fake"}, pass_part = {.name = "pass"};
static struct lower holds[2];
static struct fid_fabric *inner, *outer;
static struct fid_domain *domain;
static struct fi_info *info;
static int closed_holds;

static int close_hold(struct lower *lower)
{
    int rc = lower->fabric == &fake.fabric.fid ? 0 : fi_close(&lower->fabric->fid);

    closed_holds += !rc;
    return rc;
}

static struct fid_fabric *open_over(struct lower *hold, struct fid_fabric *lower, void *context,
                                    const struct hook_ops *overrides)
{
    struct fi_fabric_attr attr = {.prov_name = (char *)"fake;pass"};
    struct open_args args = {
        .part = &pass_part,
        .attr = &attr,
        .api_version = FI_VERSION(2, 6),
        .abi = ABI_1_9,
        .lowers = &hold,
        .lower_count = 1,
    };
    struct fid_fabric *fabric;

    *hold = (struct lower){.fabric = lower, .peer = true, .close = close_hold};
    assert_int_equal(hook_open_fabric(&args, &fabric, context, overrides), 0);
    return fabric;
}

static const struct hook_ops *overrides_of_outer;

static int setup(void **state)
{
    struct open_args args = {.part = &fake_part, .api_version = FI_VERSION(2, 6), .abi = ABI_1_9};

    memset(&fake, 0, sizeof(fake));
    closed_holds = 0;
    fabric_ops = enosys_fabric_ops;
    fabric_ops.domain = fabric_domain;
    fabric_ops.passive_ep = fabric_pep;
    fabric_ops.eq_open = fabric_eq;
    fabric_ops.trywait = fabric_trywait;
    fabric_init(&fake.fabric, &args, NULL, &fabric_ops, NULL);
    assert_int_equal(progress_create_control("fake", &fake.progress), 0);
    inner = open_over(&holds[0], &fake.fabric.fid, NULL, NULL);
    outer = open_over(&holds[1], inner, (void *)1, overrides_of_outer);
    overrides_of_outer = NULL;
    assert_ptr_equal(outer->fid.context, (void *)1);
    info = info_alloc();
    info->domain_attr->threading = FI_THREAD_DOMAIN;
    info->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    info->fabric_attr->fabric = outer;
    assert_int_equal(fi_domain(outer, info, &domain, (void *)2), 0);
    assert_ptr_equal(domain->fid.context, (void *)2);
    assert_ptr_equal(fake.last_fabric, &fake.fabric.fid);
    return 0;
}

static int teardown(void **state)
{
    assert_int_equal(fi_close(&outer->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&outer->fid), 0);
    assert_int_equal(closed_holds, 2);
    assert_false(children_any(&fake.fabric.children));
    progress_release(fake.progress);
    info_free(info);
    return 0;
}

static struct fid_ep *open_upper_ep(void)
{
    struct fid_ep *ep;

    assert_int_equal(fi_endpoint(domain, info, &ep, (void *)3), 0);
    assert_ptr_equal(ep->fid.context, (void *)3);
    assert_int_equal(ep->fid.fclass, FI_CLASS_EP);
    return ep;
}

/* ---- Objects ---- */

static void infos_name_the_lowers_objects(void **state)
{
    struct fid connreq = {.fclass = FI_CLASS_CONNREQ};
    struct fid_pep *pep;
    struct fid_ep *ep;

    info->domain_attr->domain = domain;
    ep = open_upper_ep();
    assert_ptr_equal(fake.last_domain, &fake.domain.fid);
    assert_ptr_equal(fake.last_fabric, &fake.fabric.fid);
    assert_ptr_equal(info->domain_attr->domain, domain);
    assert_int_equal(fi_close(&domain->fid), -FI_EBUSY);
    fi_close(&ep->fid);

    info->handle = &connreq;
    ep = open_upper_ep();
    assert_ptr_equal(fake.last_handle, &connreq);
    fi_close(&ep->fid);

    info->handle = NULL;
    assert_int_equal(fi_passive_ep(outer, info, &pep, (void *)4), 0);
    info->handle = &pep->fid;
    ep = open_upper_ep();
    assert_ptr_equal(fake.last_handle, &fake.pep.fid);
    fi_close(&ep->fid);
    fi_close(&pep->fid);
}

static void endpoints_bind_the_lowers_objects(void **state)
{
    struct fid_ep *ep = open_upper_ep(), *alias = NULL;
    struct fi_cq_attr cq_attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *cntr;
    struct fid_cq *cq;
    struct fid_eq *eq;

    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_cntr_open(domain, NULL, &cntr, NULL), 0);
    assert_int_equal(fi_eq_open(outer, NULL, &eq, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &cq->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &eq->fid, 0), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_ptr_equal(fake.ep.bound[0], &fake.cq->fid.fid);
    assert_ptr_equal(fake.ep.bound[1], &fake.cntr->fid.fid);
    assert_ptr_equal(fake.ep.bound[2], &fake.eq->fid.fid);
    assert_int_equal(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, NULL, 0), 0);
    assert_int_equal(fake.ep.option, FI_OPT_CM_DATA_SIZE);
    assert_int_equal(fi_ep_alias(ep, &alias, 0), 0);
    assert_int_equal(fi_setopt(&alias->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, NULL, 0), 0);
    assert_int_equal(fake.alias.option, FI_OPT_TX_SIZE);
    /* The fake has no tagged operations at all: an error, no crash. */
    assert_int_equal(ep->tagged->inject(ep, NULL, 0, 0, 0), -FI_ENOSYS);
    fi_close(&alias->fid);
    fi_close(&ep->fid);
    fi_close(&cq->fid);
    fi_close(&cntr->fid);
    fi_close(&eq->fid);
    assert_int_equal(fake.closes, 2);
}

static void queues_are_read_and_waited_for(void **state)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD};
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct pollfd poll_fd = {.events = POLLIN};
    struct fi_cq_entry entry;
    struct fid_cntr *cntr;
    struct fid *fids[20];
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(domain, &attr, &cq, (void *)5), 0);
    assert_int_equal(fi_cntr_open(domain, NULL, &cntr, (void *)6), 0);
    assert_ptr_equal(cq->fid.context, (void *)5);
    assert_int_equal(fi_control(&cq->fid, FI_GETWAIT, &poll_fd.fd), 0);
    for (int i = 0; i < 20; i++)
        fids[i] = &cq->fid;
    assert_int_equal(fi_trywait(outer, fids, 20), 0);
    cq_write(fake.cq, &entry, 0, 0, NULL, 0, 0, 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 1);
    assert_int_equal(fi_trywait(outer, fids, 20), -FI_EAGAIN);
    assert_int_equal(fi_cq_sread(cq, &entry, 1, NULL, 0), 1);
    assert_ptr_equal(entry.op_context, &entry);
    cq_write_error(fake.cq, &error);
    error.err = 0;
    assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(cq, &error, 0), 1);
    assert_int_equal(error.err, FI_EIO);
    cntr_add_one(fake.cntr);
    assert_int_equal(fi_cntr_read(cntr), 1);
    assert_int_equal(fi_cntr_set(cntr, 9), 0);
    assert_int_equal(fi_cntr_wait(cntr, 9, 0), 0);
    fi_close(&cq->fid);
    fi_close(&cntr->fid);
}

static void regions_show_desc_and_key_inline(void **state)
{
    struct fi_mr_attr attr = {.context = (void *)7};
    struct fid_mr *mr, *sub;

    assert_int_equal(fi_mr_reg(domain, NULL, 0, 0, 0, 0, 0, &mr, (void *)8), 0);
    assert_ptr_equal(mr->fid.context, (void *)8);
    assert_ptr_equal(fi_mr_desc(mr), &fake);
    assert_int_equal(fi_mr_key(mr), 76);
    assert_int_equal(fi_mr_enable(mr), 0);
    assert_int_equal(fi_mr_key(mr), 77);
    attr.base_mr = mr;
    assert_int_equal(fi_mr_regattr(domain, &attr, 0, &sub), 0);
    assert_ptr_equal(sub->fid.context, (void *)7);
    assert_ptr_equal(fake.base_mr, &fake.mr);
    fi_close(&sub->fid);
    fi_close(&mr->fid);
}

/* ---- Events ---- */

static void events_name_the_uppers_objects(void **state)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE};
    struct fid_ep *ep = open_upper_ep();
    struct fi_eq_cm_entry cm = {.fid = &fake.ep.fid.fid};
    struct fi_eq_entry entry = {.fid = &fake.mc.fid};
    struct fi_eq_err_entry error = {.fid = &fake.ep.fid.fid, .err = FI_ECONNREFUSED};
    struct fid_eq *eq;
    struct fid_mc *mc;
    uint32_t event;

    assert_int_equal(fi_eq_open(outer, &attr, &eq, (void *)9), 0);
    cm.info = info_alloc();
    cm.info->fabric_attr->fabric = &fake.fabric.fid;
    cm.info->domain_attr->domain = &fake.domain.fid;
    eq_write(fake.eq, FI_CONNREQ, &cm, sizeof(cm));
    assert_int_equal(fi_eq_read(eq, &event, &cm, sizeof(cm), FI_PEEK), sizeof(cm));
    assert_int_equal(fi_eq_read(eq, &event, &cm, sizeof(cm), 0), sizeof(cm));
    assert_int_equal(event, FI_CONNREQ);
    assert_ptr_equal(cm.fid, &ep->fid);
    assert_ptr_equal(cm.info->fabric_attr->fabric, outer);
    assert_ptr_equal(cm.info->domain_attr->domain, domain);
    assert_string_equal(cm.info->fabric_attr->prov_name, "fake;pass");
    info_free(cm.info);

    eq_write_error(fake.eq, &error);
    assert_int_equal(fi_eq_read(eq, &event, &cm, sizeof(cm), 0), -FI_EAVAIL);
    memset(&error, 0, sizeof(error));
    assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
    assert_ptr_equal(error.fid, &ep->fid);

    /* A multicast address is read inline, and known when the join is complete. */
    assert_int_equal(fi_join(ep, NULL, 0, &mc, (void *)10), 0);
    assert_int_equal(fi_mc_addr(mc), 1);
    fake.mc.fi_addr = 2;
    entry.context = fake.mc.fid.context;
    eq_write(fake.eq, FI_JOIN_COMPLETE, &entry, sizeof(entry));
    assert_int_equal(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), sizeof(entry));
    assert_ptr_equal(entry.fid, &mc->fid);
    assert_ptr_equal(entry.context, (void *)10);
    assert_int_equal(fi_mc_addr(mc), 2);

    /* Entries that the application writes come back as they were, fids or not. */
    entry.fid = &ep->fid;
    assert_int_equal(fi_eq_write(eq, FI_SHUTDOWN, &entry, sizeof(entry.fid), 0), sizeof(entry.fid));
    memset(&entry, 0x55, sizeof(entry));
    assert_int_equal(fi_eq_write(eq, 0x1000, &entry, sizeof(entry), 0), sizeof(entry));
    memset(&entry, 0, sizeof(entry));
    assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry.fid));
    assert_ptr_equal(entry.fid, &ep->fid);
    assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(entry.data, 0x5555555555555555);

    fi_close(&mc->fid);
    fi_close(&eq->fid);
    fi_close(&ep->fid);
}

/* ---- Peer objects ---- */

static int written, written_errors, incremented;

static ssize_t count_write(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    written += (int)(uintptr_t)context * 100 + (int)src;
    return 0;
}

static ssize_t count_writeerr(struct fid_peer_cq *cq, const struct fi_cq_err_entry *entry)
{
    written_errors++;
    return 0;
}

static void count_inc(struct fid_peer_cntr *cntr)
{
    incremented++;
}

static void peer_queues_and_counters_reach_their_owner(void **state)
{
    struct fi_ops_cq_owner owner_ops = {sizeof(owner_ops), count_write, count_writeerr};
    struct fi_ops_cntr_owner cntr_ops = {sizeof(cntr_ops), count_inc, NULL};
    struct fid_peer_cq cq_owner = {.owner_ops = &owner_ops};
    struct fid_peer_cntr cntr_owner = {.owner_ops = &cntr_ops};
    struct fi_peer_cq_context cq_context = {.size = sizeof(cq_context), .cq = &cq_owner};
    struct fi_peer_cntr_context cntr_context = {.size = sizeof(cntr_context), .cntr = &cntr_owner};
    struct fi_cntr_attr cntr_attr = {.flags = FI_PEER};
    struct fi_cq_attr cq_attr = {.flags = FI_PEER};
    struct fi_cq_err_entry error = {.err = FI_EIO};
    struct fid_cntr *cntr;
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), -FI_EINVAL);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, &cq_context), 0);
    cq_write(fake.cq, (void *)3, 0, 0, NULL, 0, 0, 7);
    cq_write_error(fake.cq, &error);
    assert_int_equal(written, 307);
    assert_int_equal(written_errors, 1);
    assert_int_equal(fi_cq_read(cq, NULL, 0), 0);
    assert_int_equal(fi_cq_read(cq, &error, 1), -FI_ENOSYS);
    assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), -FI_EINVAL);
    assert_int_equal(fi_cntr_open(domain, &cntr_attr, &cntr, &cntr_context), 0);
    cntr_add_one(fake.cntr);
    assert_int_equal(incremented, 1);
    fi_close(&cntr->fid);
    fi_close(&cq->fid);
}

/* The owner of a receive context, and what reached the two ends. */
static struct fid_peer_srx owner;
static struct fi_peer_rx_entry the_entry;
static int queued, freed, started, discarded, addressed;

static int get(struct fid_peer_srx *srx, struct fi_peer_match_attr *attr,
               struct fi_peer_rx_entry **entry)
{
    assert_ptr_equal(srx, &owner);
    the_entry.srx = srx;
    the_entry.tag = attr->tag;
    *entry = &the_entry;
    return attr->tag ? -FI_ENOENT : 0;
}

static int queue(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, &owner);
    queued++;
    return 0;
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, &owner);
    freed++;
}

static void foreach_unspec(struct fid_peer_srx *srx,
                           fi_addr_t (*get_addr)(struct fi_peer_rx_entry *))
{
    assert_ptr_equal(srx, &owner);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get_addr(&the_entry), 40 + i);
        assert_ptr_equal(the_entry.srx, &owner);
    }
}

static int start(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, fake.peer_srx);
    started++;
    return 0;
}

static int discard(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, fake.peer_srx);
    discarded++;
    return 0;
}

static fi_addr_t address(struct fi_peer_rx_entry *entry)
{
    assert_ptr_equal(entry->srx, fake.peer_srx);
    return 40 + (fi_addr_t)addressed++;
}

static void peer_receive_entries_change_hands_at_every_crossing(void **state)
{
    struct fi_ops_srx_owner ops = {sizeof(ops), get, get, queue, queue, foreach_unspec, free_entry};
    struct fi_peer_srx_context context = {.size = sizeof(context), .srx = &owner};
    struct fi_rx_attr attr = {.op_flags = FI_PEER};
    struct fi_peer_match_attr match = {.tag = 0};
    struct fi_peer_rx_entry *entry;
    struct fid_peer_srx *below;
    struct fid_ep *srx;

    owner = (struct fid_peer_srx){.owner_ops = &ops};
    queued = freed = started = discarded = addressed = 0;
    assert_int_equal(fi_srx_context(domain, &attr, &srx, NULL), -FI_EINVAL);
    assert_int_equal(fi_srx_context(domain, &attr, &srx, &context), 0);
    below = fake.peer_srx;
    assert_ptr_not_equal(below, &owner);
    assert_non_null(owner.peer_ops);

    /* Expected: get, free. */
    assert_int_equal(below->owner_ops->get_msg(below, &match, &entry), 0);
    assert_ptr_equal(entry->srx, below);
    entry->srx->owner_ops->free_entry(entry);
    assert_int_equal(freed, 1);

    /* Unexpected: get, queue; the owner starts it; free. Again: the owner discards it. */
    match.tag = 5;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(below->owner_ops->get_tag(below, &match, &entry), -FI_ENOENT);
        assert_ptr_equal(entry->srx, below);
        assert_int_equal(entry->srx->owner_ops->queue_tag(entry), 0);
        assert_int_equal(queued, i + 1);
        below->owner_ops->foreach_unspec_addr(below, address);
        assert_int_equal(addressed, 2);
        addressed = 0;
        if (i)
            entry->srx->peer_ops->discard_tag(entry);
        else
            entry->srx->peer_ops->start_tag(entry);
        assert_ptr_equal(entry->srx, below);
        entry->srx->owner_ops->free_entry(entry);
    }
    assert_int_equal(started, 1);
    assert_int_equal(discarded, 1);
    assert_int_equal(freed, 3);
    fi_close(&srx->fid);
}

/* ---- Hooks ---- */

static int hooked;

static ssize_t short_read(struct fid_cq *cq, void *buf, size_t count)
{
    hooked++;
    return hook_cq_ops.read(cq, buf, count);
}

static int setup_hook(void **state)
{
    static struct fi_ops_cq short_ops = {.size = sizeof(short_ops), .read = short_read};
    static const struct hook_ops overrides = {.cq = &short_ops};

    overrides_of_outer = &overrides;
    return setup(state);
}

static void hooks_replace_single_operations(void **state)
{
    struct fi_cq_entry entry;
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(domain, NULL, &cq, NULL), 0);
    cq_write(fake.cq, &entry, 0, 0, NULL, 0, 0, 0);
    assert_int_equal(fi_cq_read(cq, &entry, 1), 1);
    assert_int_equal(hooked, 1);
    assert_int_equal(fi_cq_readfrom(cq, &entry, 1, NULL), -FI_EAGAIN);
    assert_int_equal(hooked, 1);
    fi_close(&cq->fid);
}

/* ---- A hook that follows objects ---- */

static struct {
    struct fid *fid, *parent;
    bool closed;
} seen[4];
static int seen_count;

static void watch_opened(const struct hook_fabric *fabric, struct fid *fid,
                         const struct hook_opening *opening)
{
    assert_null(*hook_own(fid));
    assert_int_equal(!opening->info, fid->fclass == FI_CLASS_CQ || opening->alias);
    seen[seen_count].fid = fid;
    seen[seen_count].parent = opening->parent;
    *hook_own(fid) = &seen[seen_count++].closed;
}

static void watch_closed(struct fid *fid)
{
    *(bool *)*hook_own(fid) = true;
}

static const struct hook_watch watch = {.opened = watch_opened, .closed = watch_closed};

static int setup_watch(void **state)
{
    static const struct hook_ops overrides = {.watch = &watch};

    overrides_of_outer = &overrides;
    return setup(state);
}

static void a_hook_is_told_of_objects(void **state)
{
    struct fid_ep *ep = open_upper_ep(), *alias = NULL;
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(domain, NULL, &cq, NULL), 0);
    assert_int_equal(fi_ep_alias(ep, &alias, 0), 0);
    assert_int_equal(seen_count, 4);
    assert_true(seen[0].fid == &domain->fid && seen[0].parent == &outer->fid);
    assert_true(seen[1].fid == &ep->fid && seen[1].parent == &domain->fid);
    assert_true(seen[2].fid == &cq->fid && seen[2].parent == &domain->fid);
    assert_true(seen[3].fid == &alias->fid && seen[3].parent == &ep->fid);
    assert_int_equal(fi_close(&domain->fid), -FI_EBUSY);
    fi_close(&alias->fid);
    fi_close(&ep->fid);
    fi_close(&cq->fid);
    assert_true(!seen[0].closed && seen[1].closed && seen[2].closed && seen[3].closed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(infos_name_the_lowers_objects),
        TEST(endpoints_bind_the_lowers_objects),
        TEST(queues_are_read_and_waited_for),
        TEST(regions_show_desc_and_key_inline),
        TEST(events_name_the_uppers_objects),
        TEST(peer_queues_and_counters_reach_their_owner),
        TEST(peer_receive_entries_change_hands_at_every_crossing),
        cmocka_unit_test_setup_teardown(hooks_replace_single_operations, setup_hook, teardown),
        cmocka_unit_test_setup_teardown(a_hook_is_told_of_objects, setup_watch, teardown),
    };

    return cmocka_run_group_tests_name("pass", tests, NULL, NULL);
}
