/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extensions of the provider efa: tables of functions that fi_open_ops(3) gives by name, and a flag
 * of operations. Source: fi_efa(7). The handles that the functions take may be of any layer above
 * efa's own.
 */
#ifndef RDMA_FI_EXT_EFA_H
#define RDMA_FI_EXT_EFA_H

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names of the tables: of any domain, of a domain in fabric efa-direct, of a fabric. */
#define FI_EFA_DOMAIN_OPS "efa domain ops"
#define FI_EFA_GDA_OPS "efa gda ops"
#define FI_EFA_FEATURE_OPS "efa feature ops"

/* Of a write: the device is to favour the rate of messages. */
#define FI_EFA_WR_HIGH_PPS (1ULL << 60)

/* ---- FI_EFA_DOMAIN_OPS ---- */

/* Bits of ic_id_validity. */
enum {
    FI_EFA_MR_ATTR_RECV_IC_ID = 1 << 0,
    FI_EFA_MR_ATTR_RDMA_READ_IC_ID = 1 << 1,
    FI_EFA_MR_ATTR_RDMA_RECV_IC_ID = 1 << 2,
};

/* The interconnects by which the device reaches a region. */
struct fi_efa_mr_attr {
    uint16_t ic_id_validity;
    uint16_t recv_ic_id;
    uint16_t rdma_read_ic_id;
    uint16_t rdma_recv_ic_id;
};

struct fi_efa_ops_domain {
    /* -FI_EOPNOTSUPP: neither the device nor libefa tells, or the region is not with the device. */
    int (*query_mr)(struct fid_mr *mr, struct fi_efa_mr_attr *attr);
};

/* ---- FI_EFA_GDA_OPS ---- */

/* A send or receive queue of the device. */
struct fi_efa_wq_attr {
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
    uint32_t *doorbell;
    uint32_t max_batch;
};

struct fi_efa_cq_attr {
    uint8_t *buffer;
    uint32_t entry_size;
    uint32_t num_entries;
};

/* Of fi_efa_cq_init_attr.flags. */
enum {
    FI_EFA_CQ_INIT_FLAGS_EXT_MEM_DMABUF = 1 << 0,
};

struct fi_efa_cq_init_attr {
    uint64_t flags;
    struct {
        uint8_t *buffer; /* where the process has it mapped, or NULL */
        uint64_t length;
        uint64_t offset;
        uint32_t fd;
    } ext_mem_dmabuf;
};

enum fi_efa_memory_location_type {
    FI_EFA_MEMORY_LOCATION_VA,
    FI_EFA_MEMORY_LOCATION_DMABUF,
};

struct fi_efa_memory_location {
    uint8_t *ptr;
    struct {
        uint64_t offset;
        int32_t fd;
        uint32_t reserved;
    } dmabuf;
    uint8_t type; /* enum fi_efa_memory_location_type */
    uint8_t reserved[7];
};

/* Of fi_efa_comp_cntr_init_attr.flags: whose memory the counts are in. */
enum {
    FI_EFA_COMP_CNTR_INIT_WITH_COMP_EXTERNAL_MEM = 1 << 0,
    FI_EFA_COMP_CNTR_INIT_WITH_ERR_EXTERNAL_MEM = 1 << 1,
};

struct fi_efa_comp_cntr_init_attr {
    uint64_t comp_mask;
    uint32_t flags;
    uint32_t reserved;
    struct fi_efa_memory_location comp_cntr_ext_mem;
    struct fi_efa_memory_location err_cntr_ext_mem;
};

struct fi_efa_ops_gda {
    /* Of an address of the endpoint's AV: the device's number of its address handle, queue pair and
     * key. -FI_EINVAL: nothing is inserted there. */
    int (*query_addr)(struct fid_ep *ep, fi_addr_t addr, uint16_t *ahn, uint16_t *remote_qpn,
                      uint32_t *remote_qkey);
    /* -FI_EOPNOTSUPP always: Weft posts and polls by libibverbs. So the next. */
    int (*query_qp_wqs)(struct fid_ep *ep, struct fi_efa_wq_attr *sq_attr,
                        struct fi_efa_wq_attr *rq_attr);
    int (*query_cq)(struct fid_cq *cq, struct fi_efa_cq_attr *attr);
    /* fi_cq_open; with memory of the application's -FI_EOPNOTSUPP. */
    int (*cq_open_ext)(struct fid_domain *domain, struct fi_cq_attr *attr,
                       struct fi_efa_cq_init_attr *efa_attr, struct fid_cq **cq, void *context);
    /* FI_KEY_NOTAVAIL: the region is not with the device. */
    uint64_t (*get_mr_lkey)(struct fid_mr *mr);
    /* Since 2.5. The device counts for the endpoints that it is bound to before they are enabled,
     * in memory of the application's where that is given. -FI_EOPNOTSUPP: neither the device nor
     * its libraries have counters, or the domain has a hook. */
    int (*cntr_open_ext)(struct fid_domain *domain, struct fi_cntr_attr *attr,
                         struct fid_cntr **cntr, void *context,
                         struct fi_efa_comp_cntr_init_attr *efa_attr);
};

/* ---- FI_EFA_FEATURE_OPS ---- */

struct fi_efa_feature_ops {
    /* "mixed_hmem_iov", in fabric efa-direct: each segment's own descriptor counts. */
    bool (*query)(const char *feature);
};

#ifdef __cplusplus
}
#endif

#endif
