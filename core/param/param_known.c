/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param/param_known.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const char *const explain_words[] = {"1",  "brief", "tree",  "parts", "0",   "yes",
                                            "no", "true",  "false", "on",    "off", NULL};
static const char *const level_words[] = {"none", "warn", "trace", "info", "debug", NULL};
static const char *const subsys_words[] = {"core", "fabric", "domain", "ep_ctrl", "ep_data", "av",
                                           "cq",   "eq",     "mr",     "cntr",    NULL};

const struct core_variable core_variables[] = {
    {"FI_PROVIDER", FI_PARAM_STRING,
     "Providers or stacks to use, best first (tcp,udp or rxm;tcp); ^ in front excludes them "
     "(default: all available)"},
    {"FI_PROVIDER_PATH", FI_PARAM_STRING,
     "Where to look for external providers: dir1:dir2; a leading @ makes the first one found win, "
     "not the newest; +file names one that is preferred"},
    {"FI_HOOK", FI_PARAM_STRING, "Layers to put on top of every stack (noop;trace)"},
    {"FI_LOG_LEVEL", FI_PARAM_STRING,
     "Level to log: none, warn, trace, info, debug (default: only mistakes in the user's "
     "settings)",
     .form = CORE_WORD, .words = level_words, .words_are = "level", .used = "warn is used",
     .environment_only = true},
    {"FI_LOG_PROV", FI_PARAM_STRING,
     "Parts to log, comma separated; ^ in front excludes them (default: all)", .form = CORE_PARTS,
     .used = "this name is passed over", .environment_only = true},
    {"FI_LOG_SUBSYS", FI_PARAM_STRING,
     "Subsystems to log: core, fabric, domain, ep_ctrl, ep_data, av, cq, eq, mr, cntr; ^ in front "
     "excludes them (default: all)",
     .form = CORE_WORDS, .words = subsys_words, .words_are = "subsystem",
     .used = "this name is passed over", .environment_only = true},
    {"FI_LOG_LOCATION", FI_PARAM_STRING,
     "Where to log: stdout, stderr, a new file, or a directory for ofi_<pid>.log (default: "
     "stderr)",
     .environment_only = true},
    {"FI_LOG_LOCATION_MODE", FI_PARAM_STRING, "Mode of the log file (default: 0600)",
     .form = CORE_OCTAL, .used = "the default is used: 0600", .environment_only = true},
    {"FI_LOG_INTERVAL", FI_PARAM_INT,
     "Delay in ms between rate limited log messages (default: 2000)", .form = CORE_TYPED,
     .used = "the default is used: 2000", .environment_only = true},
    {"FI_EXPLAIN", FI_PARAM_STRING,
     "1: fi_getinfo prints the candidate stacks and why they were refused; brief: the most telling "
     "reason when nothing fits; tree: it draws what it returns; parts: it lists the parts when it "
     "is asked for the providers (default: 0)",
     .form = CORE_WORD, .words = explain_words, .words_are = "such answer", .used = "1 is used"},
    {"FI_CONF_FILE", FI_PARAM_STRING,
     "Configuration file: lines FI_NAME = value, or part.key = value (default: libfabric.conf of "
     "the installation)",
     .environment_only = true},
    {"FI_PREFER_SYSCONFIG", FI_PARAM_BOOL,
     "The configuration file wins over the environment (default: no)", .form = CORE_TYPED,
     .used = "the default is used: no", .environment_only = true},
    {"FI_UNIVERSE_SIZE", FI_PARAM_SIZE_T,
     "How many processes the application will have; taken, and without effect: tables grow as they "
     "are needed",
     .form = CORE_TYPED, .used = "it is not used"},
    {"FI_ADDR_FORMAT", FI_PARAM_STRING,
     "Return only infos of this address format: FI_SOCKADDR_IN, ... (default: all)"},
    {"FI_LNX_PROV_LINKS", FI_PARAM_STRING,
     "Providers that lnx joins: prov1+prov2, with :domain where one is meant"},
    {"FI_OFI_MRAIL_ADDR", FI_PARAM_STRING,
     "Addresses of the rails that mrail joins, comma separated"},
    {NULL, FI_PARAM_STRING, NULL},
};

/* Providers and subsystems of upstream that no part of ours has the name of. */
static const char *const upstream_prefixes[] = {
    "FI_CXI_",
    "FI_PSM_",
    "FI_PSM2_",
    "FI_PSM3_",
    "FI_OPX_",
    "FI_UCX_",
    "FI_SM2_",
    "FI_MR_",
    "FI_HMEM_",
    "FI_SOCKETS_",
    "FI_NET_",
    "FI_USNIC_",
    "FI_GNI_",
    "FI_BGQ_",
    "FI_LPP_",
    "FI_MLX_",
    "FI_XPMEM_",
    "FI_GDRCOPY_",
    "FI_CUDA_",
    "FI_ROCR_",
    "FI_ZE_",
    "FI_NEURON_",
    "FI_OPT_",
    "FI_SYNAPSEAI_",
    "FI_OFF_COLL_",
    "FI_OFFLOAD_COLL_",
    "FI_LINKX_",
    "FI_LNX_",
    "FI_OFI_MRAIL_",
    "FI_FORK_UNSAFE",
    "FI_AV_REMOVE_CLEANUP",
    NULL,
};

const struct upstream_variable upstream_variables[] = {
    {"FI_HMEM", FI_PARAM_STRING, NULL},
    {"FI_TCP_MAX_SAVED", FI_PARAM_INT, NULL},
    {"FI_TCP_MAX_RX_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_TCP_STAGING_SBUF_SIZE", FI_PARAM_INT, NULL},
    {"FI_TCP_PREFETCH_RBUF_SIZE", FI_PARAM_INT, NULL},
    {"FI_TCP_ZEROCOPY_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_TCP_TRACE_MSG", FI_PARAM_BOOL, NULL},
    {"FI_TCP_DISABLE_AUTO_PROGRESS", FI_PARAM_BOOL, NULL},
    {"FI_TCP_IO_URING", FI_PARAM_BOOL, NULL},
    {"FI_TCP_FIREWALL_ADDR", FI_PARAM_BOOL, NULL},
    {"FI_TCP_PROV_NAME", FI_PARAM_STRING, NULL},
    {"FI_SHM_SAR_THRESHOLD", FI_PARAM_SIZE_T, NULL},
    {"FI_SHM_DISABLE_CMA", FI_PARAM_BOOL, NULL},
    {"FI_SHM_USE_DSA_SAR", FI_PARAM_BOOL, NULL},
    {"FI_SHM_ENABLE_DSA_PAGE_TOUCH", FI_PARAM_BOOL, NULL},
    {"FI_SHM_MAX_GDRCOPY_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_SHM_USE_XPMEM", FI_PARAM_BOOL, NULL},
    {"FI_SHM_BUFFER_THRESHOLD", FI_PARAM_SIZE_T, NULL},
    {"FI_OFI_RXM_EAGER_LIMIT", FI_PARAM_SIZE_T, NULL},
    {"FI_OFI_RXM_COMP_PER_PROGRESS", FI_PARAM_INT, NULL},
    {"FI_OFI_RXM_TX_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_OFI_RXM_RX_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_OFI_RXM_MSG_TX_SIZE", FI_PARAM_SIZE_T, NULL},
    {"FI_OFI_RXM_CM_PROGRESS_INTERVAL", FI_PARAM_INT, NULL},
    {"FI_OFI_RXM_CQ_EQ_FAIRNESS", FI_PARAM_INT, NULL},
    {"FI_OFI_RXM_DATA_AUTO_PROGRESS", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXM_ENABLE_DYN_RBUF", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXM_ENABLE_DIRECT_SEND", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXM_ENABLE_PASSTHRU", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXM_DEF_WAIT_OBJ", FI_PARAM_STRING, NULL},
    {"FI_OFI_RXM_DEF_TCP_WAIT_OBJ", FI_PARAM_STRING, NULL},
    {"FI_OFI_RXM_DETECT_HMEM_IFACE", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXM_NUM_MSG_EPS", FI_PARAM_INT, NULL},
    {"FI_OFI_RXM_CONN_TIMEOUT", FI_PARAM_INT, NULL},
    {"FI_OFI_RXM_RESCAN", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXD_SPIN_COUNT", FI_PARAM_INT, NULL},
    {"FI_OFI_RXD_RETRY", FI_PARAM_BOOL, NULL},
    {"FI_OFI_RXD_MAX_PEERS", FI_PARAM_INT, NULL},
    {"FI_OFI_RXD_MAX_UNACKED", FI_PARAM_INT, NULL},
    {"FI_OFI_RXD_RESCAN", FI_PARAM_BOOL, NULL},
    {"FI_FORK_UNSAFE", FI_PARAM_BOOL,
     "memory is made safe for fork where IBV_FORK_SAFE or RDMAV_FORK_SAFE is set, which libibverbs "
     "reads"},
    {"FI_VERBS_USE_ODP", FI_PARAM_BOOL, "memory is pinned when it is registered"},
    {"FI_VERBS_USE_DMABUF", FI_PARAM_BOOL, "there is no memory of devices"},
    {"FI_VERBS_PREFER_XRC", FI_PARAM_BOOL,
     "verbs has no XRC endpoints; shared receive contexts are FI_SHARED_CONTEXT"},
    {"FI_VERBS_XRCD_FILENAME", FI_PARAM_STRING, "verbs has no XRC endpoints"},
    {"FI_VERBS_NIC_AFFINITY_POLICY", FI_PARAM_STRING,
     "set FI_VERBS_DEVICE_NAME, or FI_VERBS_IFACE"},
    {"FI_VERBS_AFFINITY_DEVICE", FI_PARAM_STRING, "set FI_VERBS_DEVICE_NAME, or FI_VERBS_IFACE"},
    {"FI_VERBS_NIC_AFFINITY_CONFIG", FI_PARAM_STRING,
     "set FI_VERBS_DEVICE_NAME, or FI_VERBS_IFACE"},
    {"FI_VERBS_DGRAM_USE_NAME_SERVER", FI_PARAM_BOOL, "verbs has no datagram endpoints"},
    {"FI_VERBS_DGRAM_NAME_SERVER_PORT", FI_PARAM_INT, "verbs has no datagram endpoints"},
    {"FI_VERBS_NAME_SERVER_PORT", FI_PARAM_INT, "verbs has no datagram endpoints"},
    {"FI_VERBS_MR_CACHE_ENABLE", FI_PARAM_BOOL,
     "there is no cache of registrations; rxm copies messages up to FI_OFI_RXM_BUFFER_SIZE"},
    {"FI_VERBS_MR_MAX_CACHED_CNT", FI_PARAM_SIZE_T,
     "there is no cache of registrations; rxm copies messages up to FI_OFI_RXM_BUFFER_SIZE"},
    {"FI_VERBS_MR_MAX_CACHED_SIZE", FI_PARAM_SIZE_T,
     "there is no cache of registrations; rxm copies messages up to FI_OFI_RXM_BUFFER_SIZE"},
    {"FI_VERBS_RDM_BUFFER_NUM", FI_PARAM_INT, "RDM is rxm over verbs: set FI_OFI_RXM_MSG_RX_SIZE"},
    {"FI_VERBS_RDM_BUFFER_SIZE", FI_PARAM_SIZE_T,
     "RDM is rxm over verbs: set FI_OFI_RXM_BUFFER_SIZE"},
    {"FI_VERBS_RDM_RNDV_SEG_SIZE", FI_PARAM_SIZE_T,
     "RDM is rxm over verbs, whose rendezvous is not segmented"},
    {"FI_VERBS_RDM_THREAD_TIMEOUT", FI_PARAM_INT,
     "RDM is rxm over verbs; progress threads sleep on events"},
    {"FI_VERBS_RDM_EAGER_SEND_OPCODE", FI_PARAM_STRING, "RDM is rxm over verbs, which sends"},
    {"FI_VERBS_RDM_CM_THREAD_AFFINITY", FI_PARAM_STRING,
     "RDM is rxm over verbs, which has no thread for connections"},
    {"FI_EFA_CQ_SIZE", FI_PARAM_SIZE_T, "completion queues grow as they are needed"},
    {"FI_EFA_RECVWIN_SIZE", FI_PARAM_INT,
     "messages that come early wait in no window: set FI_SRD_SAVED_SIZE"},
    {"FI_EFA_INTER_READ_SEGMENT_SIZE", FI_PARAM_SIZE_T,
     "the device reads as much at once as it can"},
    {"FI_EFA_INTER_MAX_GDRCOPY_MESSAGE_SIZE", FI_PARAM_SIZE_T,
     "memory of other devices moves by the EFA device alone"},
    {"FI_EFA_MAX_MEMCPY_SIZE", FI_PARAM_SIZE_T, "messages are copied once at each end"},
    {"FI_EFA_MTU_SIZE", FI_PARAM_SIZE_T, "packets have the size that the device tells"},
    {"FI_EFA_TX_IOV_LIMIT", FI_PARAM_SIZE_T, "the limit is the device's"},
    {"FI_EFA_RX_IOV_LIMIT", FI_PARAM_SIZE_T, "the limit is the device's"},
    {"FI_EFA_RX_COPY_UNEXP", FI_PARAM_BOOL, "messages without a receive are always copied"},
    {"FI_EFA_RX_COPY_OOO", FI_PARAM_BOOL, "messages that come early are always copied"},
    {"FI_EFA_READCOPY_POOL_SIZE", FI_PARAM_INT,
     "packets for memory of other devices are collected by message"},
    {"FI_EFA_SHM_AV_SIZE", FI_PARAM_INT, "address vectors grow as they are needed"},
    {"FI_EFA_SHM_MAX_MEDIUM_SIZE", FI_PARAM_INT, "shared memory is another part's: shm"},
    {"FI_EFA_USE_SM2", FI_PARAM_BOOL, "shared memory is another part's: shm"},
    {"FI_EFA_EFA_CQ_READ_SIZE", FI_PARAM_SIZE_T, "a poll takes 16 completions of the device"},
    {"FI_EFA_SHM_CQ_READ_SIZE", FI_PARAM_SIZE_T, "shared memory is another part's: shm"},
    {"FI_EFA_FORK_SAFE", FI_PARAM_BOOL, "set IBV_FORK_SAFE or RDMAV_FORK_SAFE, for libibverbs"},
    {"FI_EFA_USE_HUGE_PAGE", FI_PARAM_BOOL, "packets have ordinary pages"},
    {"FI_EFA_USE_ZCPY_RX", FI_PARAM_BOOL, "fabric efa-direct receives without a copy"},
    {"FI_EFA_INTERNAL_RX_REFILL_THRESHOLD", FI_PARAM_SIZE_T,
     "receives of the device are posted again one by one"},
    {"FI_EFA_USE_DATA_PATH_DIRECT", FI_PARAM_BOOL, "requests go by libibverbs"},
    {"FI_EFA_USE_HW_CNTR", FI_PARAM_BOOL,
     "fi_cntr_open gives counters of the library, cntr_open_ext those of the device"},
    {"FI_EFA_ENABLE_HIGH_PPS", FI_PARAM_BOOL, "requests have no classes of rates"},
    {"FI_EFA_USE_SQ_REQ_ID_64_BIT", FI_PARAM_BOOL, "requests go by libibverbs"},
    {"FI_EFA_SET_CUDA_SYNC_MEMOPS", FI_PARAM_BOOL, "no function of CUDA's is called"},
    {"FI_EFA_ZCPY_RX_SEED", FI_PARAM_INT, "fabric efa-direct receives without a copy"},
    {"FI_EFA_TRACK_MR", FI_PARAM_BOOL, "FI_PROVIDER='debug;...' finds wrong uses of regions"},
    {"FI_EFA_MR_CACHE_ENABLE", FI_PARAM_BOOL, "there is no cache of registrations"},
    {"FI_EFA_MR_MAX_CACHED_COUNT", FI_PARAM_SIZE_T, "there is no cache of registrations"},
    {"FI_EFA_MR_MAX_CACHED_SIZE", FI_PARAM_SIZE_T, "there is no cache of registrations"},
    {NULL, FI_PARAM_STRING, NULL},
};

bool param_known_upstream(const char *name, bool claimed)
{
    /* A part that is not in every build. */
    if (!claimed && (!strncmp(name, "FI_VERBS_", strlen("FI_VERBS_")) ||
                     !strncmp(name, "FI_EFA_", strlen("FI_EFA_"))))
        return true;
    for (size_t i = 0; upstream_prefixes[i]; i++) {
        if (!strncmp(name, upstream_prefixes[i], strlen(upstream_prefixes[i])))
            return true;
    }
    for (size_t i = 0; upstream_variables[i].name; i++) {
        if (!strcmp(name, upstream_variables[i].name))
            return true;
    }
    return false;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcasecmp(*names, name) != 0)
        names++;
    return *names;
}

enum upstream_kind param_upstream_provider(const char *name)
{
    static const char *const transports[] = {
        "bgq",  "cxi", "efa", "gni", "lpp",     "mlx", "net", "netdir", "opx",   "psm", "psm2",
        "psm3", "shm", "sm2", "tcp", "sockets", "ucx", "udp", "usnic",  "verbs", NULL};
    static const char *const layers[] = {"linkx",   "lnx", "mrail", "off_coll",
                                         "rstream", "rxd", "rxm",   NULL};

    if (is_one_of(name, transports))
        return UPSTREAM_TRANSPORT;
    return is_one_of(strncasecmp(name, "ofi_", 4) ? name : name + 4, layers) ? UPSTREAM_LAYER
                                                                             : UPSTREAM_NONE;
}
