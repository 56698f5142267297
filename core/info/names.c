/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/info/names.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>

/* Values with this bit are a provider's own: FI_PROV_SPECIFIC of fi_endpoint(3). */
#define PROV_SPECIFIC (UINT64_C(1) << 31)

#define N(constant)                                                                                \
    {                                                                                              \
        constant, #constant                                                                        \
    }
#define END                                                                                        \
    {                                                                                              \
        0, NULL                                                                                    \
    }

static const struct name ep_types[] = {N(FI_EP_UNSPEC), N(FI_EP_MSG), N(FI_EP_DGRAM), N(FI_EP_RDM),
                                       END};

static const struct name caps[] = {N(FI_MSG),
                                   N(FI_RMA),
                                   N(FI_TAGGED),
                                   N(FI_ATOMIC),
                                   N(FI_MULTICAST),
                                   N(FI_COLLECTIVE),
                                   N(FI_READ),
                                   N(FI_WRITE),
                                   N(FI_RECV),
                                   N(FI_SEND),
                                   N(FI_REMOTE_READ),
                                   N(FI_REMOTE_WRITE),
                                   N(FI_MULTI_RECV),
                                   N(FI_TAGGED_MULTI_RECV),
                                   N(FI_REMOTE_CQ_DATA),
                                   N(FI_TRIGGER),
                                   N(FI_FENCE),
                                   N(FI_RMA_PMEM),
                                   N(FI_SOURCE_ERR),
                                   N(FI_LOCAL_COMM),
                                   N(FI_REMOTE_COMM),
                                   N(FI_SHARED_AV),
                                   N(FI_RMA_EVENT),
                                   N(FI_SOURCE),
                                   N(FI_NAMED_RX_CTX),
                                   N(FI_DIRECTED_RECV),
                                   N(FI_TAGGED_DIRECTED_RECV),
                                   N(FI_EXACT_DIRECTED_RECV),
                                   N(FI_HMEM),
                                   N(FI_AV_USER_ID),
                                   N(FI_PEER),
                                   END};

static const struct name op_flags[] = {N(FI_MULTICAST),
                                       N(FI_MULTI_RECV),
                                       N(FI_REMOTE_CQ_DATA),
                                       N(FI_MORE),
                                       N(FI_PEEK),
                                       N(FI_TRIGGER),
                                       N(FI_FENCE),
                                       N(FI_COMPLETION),
                                       N(FI_INJECT),
                                       N(FI_INJECT_COMPLETE),
                                       N(FI_TRANSMIT_COMPLETE),
                                       N(FI_DELIVERY_COMPLETE),
                                       N(FI_MATCH_COMPLETE),
                                       N(FI_AFFINITY),
                                       N(FI_COMMIT_COMPLETE),
                                       N(FI_PEER_TRANSFER),
                                       N(FI_CLAIM),
                                       N(FI_DISCARD),
                                       END};

static const struct name cq_event_flags[] = {
    N(FI_SEND),       N(FI_RECV),        N(FI_RMA),          N(FI_ATOMIC),
    N(FI_MSG),        N(FI_TAGGED),      N(FI_COLLECTIVE),   N(FI_READ),
    N(FI_WRITE),      N(FI_REMOTE_READ), N(FI_REMOTE_WRITE), N(FI_REMOTE_CQ_DATA),
    N(FI_MULTI_RECV), N(FI_MORE),        N(FI_CLAIM),        END};

static const struct name addr_formats[] = {N(FI_FORMAT_UNSPEC),
                                           N(FI_SOCKADDR),
                                           N(FI_SOCKADDR_IN),
                                           N(FI_SOCKADDR_IN6),
                                           N(FI_SOCKADDR_IB),
                                           N(FI_ADDR_PSMX),
                                           N(FI_ADDR_GNI),
                                           N(FI_ADDR_BGQ),
                                           N(FI_ADDR_MLX),
                                           N(FI_ADDR_STR),
                                           N(FI_ADDR_PSMX2),
                                           N(FI_ADDR_IB_UD),
                                           N(FI_ADDR_EFA),
                                           N(FI_ADDR_PSMX3),
                                           N(FI_ADDR_OPX),
                                           N(FI_ADDR_CXI),
                                           N(FI_ADDR_UCX),
                                           N(FI_SOCKADDR_IP),
                                           END};

static const struct name threadings[] = {N(FI_THREAD_UNSPEC),
                                         N(FI_THREAD_SAFE),
                                         N(FI_THREAD_FID),
                                         N(FI_THREAD_DOMAIN),
                                         N(FI_THREAD_COMPLETION),
                                         N(FI_THREAD_ENDPOINT),
                                         END};

static const struct name progresses[] = {N(FI_PROGRESS_UNSPEC), N(FI_PROGRESS_AUTO),
                                         N(FI_PROGRESS_MANUAL), N(FI_PROGRESS_CONTROL_UNIFIED),
                                         END};

static const struct name protocols[] = {N(FI_PROTO_UNSPEC),
                                        N(FI_PROTO_RDMA_CM_IB_RC),
                                        N(FI_PROTO_IWARP),
                                        N(FI_PROTO_IB_UD),
                                        N(FI_PROTO_PSMX),
                                        N(FI_PROTO_UDP),
                                        N(FI_PROTO_SOCK_TCP),
                                        N(FI_PROTO_MXM),
                                        N(FI_PROTO_IWARP_RDM),
                                        N(FI_PROTO_IB_RDM),
                                        N(FI_PROTO_GNI),
                                        N(FI_PROTO_RXM),
                                        N(FI_PROTO_RXD),
                                        N(FI_PROTO_MLX),
                                        N(FI_PROTO_NETWORKDIRECT),
                                        N(FI_PROTO_PSMX2),
                                        N(FI_PROTO_SHM),
                                        N(FI_PROTO_MRAIL),
                                        N(FI_PROTO_RSTREAM),
                                        N(FI_PROTO_RDMA_CM_IB_XRC),
                                        N(FI_PROTO_EFA),
                                        N(FI_PROTO_PSMX3),
                                        N(FI_PROTO_RXM_TCP),
                                        N(FI_PROTO_OPX),
                                        N(FI_PROTO_CXI),
                                        N(FI_PROTO_XNET),
                                        N(FI_PROTO_COLL),
                                        N(FI_PROTO_UCX),
                                        N(FI_PROTO_SM2),
                                        N(FI_PROTO_CXI_RNR),
                                        N(FI_PROTO_LPP),
                                        N(FI_PROTO_LNX),
                                        END};

static const struct name msg_orders[] = {
    N(FI_ORDER_RAR),        N(FI_ORDER_RAW),        N(FI_ORDER_RAS),
    N(FI_ORDER_WAR),        N(FI_ORDER_WAW),        N(FI_ORDER_WAS),
    N(FI_ORDER_SAR),        N(FI_ORDER_SAW),        N(FI_ORDER_SAS),
    N(FI_ORDER_RMA_RAR),    N(FI_ORDER_RMA_RAW),    N(FI_ORDER_RMA_WAR),
    N(FI_ORDER_RMA_WAW),    N(FI_ORDER_ATOMIC_RAR), N(FI_ORDER_ATOMIC_RAW),
    N(FI_ORDER_ATOMIC_WAR), N(FI_ORDER_ATOMIC_WAW), END};

static const struct name modes[] = {N(FI_CONTEXT),
                                    N(FI_MSG_PREFIX),
                                    N(FI_ASYNC_IOV),
                                    N(FI_RX_CQ_DATA),
                                    N(FI_LOCAL_MR),
                                    N(FI_CONTEXT2),
                                    END};

static const struct name av_types[] = {N(FI_AV_UNSPEC), N(FI_AV_MAP), N(FI_AV_TABLE), END};

static const struct name datatypes[] = {N(FI_INT8),          N(FI_UINT8),
                                        N(FI_INT16),         N(FI_UINT16),
                                        N(FI_INT32),         N(FI_UINT32),
                                        N(FI_INT64),         N(FI_UINT64),
                                        N(FI_FLOAT),         N(FI_DOUBLE),
                                        N(FI_FLOAT_COMPLEX), N(FI_DOUBLE_COMPLEX),
                                        N(FI_LONG_DOUBLE),   N(FI_LONG_DOUBLE_COMPLEX),
                                        N(FI_INT128),        N(FI_UINT128),
                                        N(FI_FLOAT16),       N(FI_BFLOAT16),
                                        N(FI_FLOAT8_E4M3),   N(FI_FLOAT8_E5M2),
                                        N(FI_VOID),          END};

static const struct name atomic_ops[] = {N(FI_MIN),         N(FI_MAX),
                                         N(FI_SUM),         N(FI_PROD),
                                         N(FI_LOR),         N(FI_LAND),
                                         N(FI_BOR),         N(FI_BAND),
                                         N(FI_LXOR),        N(FI_BXOR),
                                         N(FI_ATOMIC_READ), N(FI_ATOMIC_WRITE),
                                         N(FI_CSWAP),       N(FI_CSWAP_NE),
                                         N(FI_CSWAP_LE),    N(FI_CSWAP_LT),
                                         N(FI_CSWAP_GE),    N(FI_CSWAP_GT),
                                         N(FI_MSWAP),       N(FI_DIFF),
                                         N(FI_NOOP),        END};

static const struct name eq_events[] = {
    N(FI_NOTIFY),      N(FI_CONNREQ),     N(FI_CONNECTED),     N(FI_SHUTDOWN),
    N(FI_MR_COMPLETE), N(FI_AV_COMPLETE), N(FI_JOIN_COMPLETE), END};

static const struct name mr_modes[] = {N(FI_MR_BASIC),
                                       N(FI_MR_SCALABLE),
                                       N(FI_MR_LOCAL),
                                       N(FI_MR_RAW),
                                       N(FI_MR_VIRT_ADDR),
                                       N(FI_MR_ALLOCATED),
                                       N(FI_MR_PROV_KEY),
                                       N(FI_MR_MMU_NOTIFY),
                                       N(FI_MR_RMA_EVENT),
                                       N(FI_MR_ENDPOINT),
                                       N(FI_MR_HMEM),
                                       N(FI_MR_COLLECTIVE),
                                       END};

static const struct name op_types[] = {
    N(FI_OP_RECV),           N(FI_OP_SEND),     N(FI_OP_TRECV),    N(FI_OP_TSEND),
    N(FI_OP_READ),           N(FI_OP_WRITE),    N(FI_OP_ATOMIC),   N(FI_OP_FETCH_ATOMIC),
    N(FI_OP_COMPARE_ATOMIC), N(FI_OP_CNTR_SET), N(FI_OP_CNTR_ADD), END};

static const struct name collective_ops[] = {
    N(FI_BARRIER),        N(FI_BROADCAST), N(FI_ALLTOALL), N(FI_ALLREDUCE), N(FI_ALLGATHER),
    N(FI_REDUCE_SCATTER), N(FI_REDUCE),    N(FI_SCATTER),  N(FI_GATHER),    END};

static const struct name hmem_ifaces[] = {N(FI_HMEM_SYSTEM),
                                          N(FI_HMEM_CUDA),
                                          N(FI_HMEM_ROCR),
                                          N(FI_HMEM_ZE),
                                          N(FI_HMEM_NEURON),
                                          N(FI_HMEM_SYNAPSEAI),
                                          END};

static const struct name cq_formats[] = {N(FI_CQ_FORMAT_UNSPEC), N(FI_CQ_FORMAT_CONTEXT),
                                         N(FI_CQ_FORMAT_MSG),    N(FI_CQ_FORMAT_DATA),
                                         N(FI_CQ_FORMAT_TAGGED), END};

static const struct name log_levels[] = {{FI_LOG_WARN, "warn"},
                                         {FI_LOG_TRACE, "trace"},
                                         {FI_LOG_INFO, "info"},
                                         {FI_LOG_DEBUG, "debug"},
                                         END};

static const struct name log_subsystems[] = {{FI_LOG_CORE, "core"},
                                             {FI_LOG_FABRIC, "fabric"},
                                             {FI_LOG_DOMAIN, "domain"},
                                             {FI_LOG_EP_CTRL, "ep_ctrl"},
                                             {FI_LOG_EP_DATA, "ep_data"},
                                             {FI_LOG_AV, "av"},
                                             {FI_LOG_CQ, "cq"},
                                             {FI_LOG_EQ, "eq"},
                                             {FI_LOG_MR, "mr"},
                                             {FI_LOG_CNTR, "cntr"},
                                             END};

static const struct name wait_conds[] = {N(FI_CQ_COND_NONE), N(FI_CQ_COND_THRESHOLD), END};

static const struct name wait_objs[] = {
    N(FI_WAIT_NONE),       N(FI_WAIT_UNSPEC), N(FI_WAIT_SET),    N(FI_WAIT_FD),
    N(FI_WAIT_MUTEX_COND), N(FI_WAIT_YIELD),  N(FI_WAIT_POLLFD), END};

#define FLAGS(table)                                                                               \
    {                                                                                              \
        .names = table, .flags = true, .size = sizeof(uint64_t)                                    \
    }
#define VALUE(table)                                                                               \
    {                                                                                              \
        .names = table, .size = sizeof(uint32_t)                                                   \
    }

static const struct name_table tables[] = {
    [FI_TYPE_EP_TYPE] = VALUE(ep_types),
    [FI_TYPE_CAPS] = FLAGS(caps),
    [FI_TYPE_OP_FLAGS] = FLAGS(op_flags),
    [FI_TYPE_ADDR_FORMAT] = {.names = addr_formats, .size = sizeof(uint32_t), .prov_bits = true},
    [FI_TYPE_THREADING] = VALUE(threadings),
    [FI_TYPE_PROGRESS] = VALUE(progresses),
    [FI_TYPE_PROTOCOL] = {.names = protocols, .size = sizeof(uint32_t), .prov_bits = true},
    [FI_TYPE_MSG_ORDER] = FLAGS(msg_orders),
    [FI_TYPE_MODE] = FLAGS(modes),
    [FI_TYPE_AV_TYPE] = VALUE(av_types),
    [FI_TYPE_ATOMIC_TYPE] = VALUE(datatypes),
    [FI_TYPE_ATOMIC_OP] = VALUE(atomic_ops),
    [FI_TYPE_EQ_EVENT] = VALUE(eq_events),
    [FI_TYPE_CQ_EVENT_FLAGS] = FLAGS(cq_event_flags),
    [FI_TYPE_MR_MODE] = {.names = mr_modes, .flags = true, .size = sizeof(int)},
    [FI_TYPE_OP_TYPE] = VALUE(op_types),
    [FI_TYPE_COLLECTIVE_OP] = VALUE(collective_ops),
    [FI_TYPE_HMEM_IFACE] = VALUE(hmem_ifaces),
    [FI_TYPE_CQ_FORMAT] = VALUE(cq_formats),
    [FI_TYPE_LOG_LEVEL] = VALUE(log_levels),
    [FI_TYPE_LOG_SUBSYS] = VALUE(log_subsystems),
    [FI_TYPE_CQ_WAIT_COND] = VALUE(wait_conds),
    [FI_TYPE_WAIT_OBJ] = VALUE(wait_objs),
};

const struct name_table *names_of(enum fi_type type)
{
    if ((size_t)type >= sizeof(tables) / sizeof(*tables) || !tables[type].names)
        return NULL;
    return &tables[type];
}

const char *names_text(enum fi_type type, uint64_t value)
{
    const struct name_table *table = names_of(type);

    if (!table)
        return NULL;
    if (table->prov_bits && (value & PROV_SPECIFIC))
        return "Provider specific";
    for (const struct name *name = table->names; name->text; name++) {
        if (name->value == value)
            return name->text;
    }
    return NULL;
}
