/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/param_known.h"

#include <stddef.h>
#include <string.h>

const struct core_variable core_variables[] = {
    {"FI_PROVIDER", FI_PARAM_STRING,
     "What to use: providers or stacks, best first (tcp,udp or rxm;tcp); ^ in front excludes them "
     "(default: all available)"},
    {"FI_PROVIDER_PATH", FI_PARAM_STRING,
     "Where to look for external providers: dir1:dir2; a leading @ makes the first one found win, "
     "not the newest; +file names one that is preferred"},
    {"FI_HOOK", FI_PARAM_STRING, "Layers to put on top of every stack (noop;trace)"},
    {"FI_LOG_LEVEL", FI_PARAM_STRING,
     "What to log: none, warn, trace, info, debug (default: only mistakes in what a user typed)"},
    {"FI_LOG_PROV", FI_PARAM_STRING,
     "Parts to log, comma separated; ^ in front excludes them (default: all)"},
    {"FI_LOG_SUBSYS", FI_PARAM_STRING,
     "Subsystems to log: core, fabric, domain, ep_ctrl, ep_data, av, cq, eq, mr, cntr; ^ in front "
     "excludes them (default: all)"},
    {"FI_LOG_LOCATION", FI_PARAM_STRING,
     "Where to log: stdout, stderr, a new file, or a directory for ofi_<pid>.log (default: "
     "stderr)"},
    {"FI_LOG_LOCATION_MODE", FI_PARAM_STRING, "Mode of the log file (default: 0600)"},
    {"FI_LOG_INTERVAL", FI_PARAM_INT,
     "Delay in ms between rate limited log messages (default: 2000)"},
    {"FI_EXPLAIN", FI_PARAM_STRING,
     "1: fi_getinfo prints the candidate stacks and why they were refused; tree: it draws what it "
     "returns"},
    {"FI_CONF_FILE", FI_PARAM_STRING,
     "Configuration file: lines FI_NAME = value, or part.key = value (default: libfabric.conf of "
     "the installation)"},
    {"FI_PREFER_SYSCONFIG", FI_PARAM_BOOL,
     "The configuration file wins over the environment (default: no)"},
    {"FI_UNIVERSE_SIZE", FI_PARAM_SIZE_T,
     "How many processes the application will have; tables are sized by it (default: 256)"},
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
    "FI_EFA_",        "FI_VERBS_",
    "FI_CXI_",        "FI_PSM_",
    "FI_PSM2_",       "FI_PSM3_",
    "FI_OPX_",        "FI_UCX_",
    "FI_SHM_",        "FI_SM2_",
    "FI_MR_",         "FI_HMEM_",
    "FI_SOCKETS_",    "FI_NET_",
    "FI_USNIC_",      "FI_GNI_",
    "FI_BGQ_",        "FI_LPP_",
    "FI_MLX_",        "FI_XPMEM_",
    "FI_MONITOR_",    "FI_PERF_",
    "FI_GDRCOPY_",    "FI_CUDA_",
    "FI_ROCR_",       "FI_ZE_",
    "FI_NEURON_",     "FI_SYNAPSEAI_",
    "FI_OPT_",        "FI_COLL_",
    "FI_OFF_COLL_",   "FI_OFI_HOOK_",
    "FI_FORK_UNSAFE", "FI_AV_REMOVE_CLEANUP",
    "FI_LINKX_",      NULL,
};

/* Variables of providers that we have a part for, and which that part has no use for. */
static const char *const upstream_names[] = {
    "FI_TCP_IFACE",
    "FI_TCP_PORT_LOW_RANGE",
    "FI_TCP_PORT_HIGH_RANGE",
    "FI_TCP_TX_SIZE",
    "FI_TCP_RX_SIZE",
    "FI_TCP_MAX_INJECT",
    "FI_TCP_MAX_SAVED",
    "FI_TCP_MAX_SAVED_SIZE",
    "FI_TCP_MAX_RX_SIZE",
    "FI_TCP_NODELAY",
    "FI_TCP_STAGING_SBUF_SIZE",
    "FI_TCP_PREFETCH_RBUF_SIZE",
    "FI_TCP_ZEROCOPY_SIZE",
    "FI_TCP_TRACE_MSG",
    "FI_TCP_DISABLE_AUTO_PROGRESS",
    "FI_TCP_IO_URING",
    "FI_TCP_PROV_NAME",
    "FI_UDP_IFACE",
    "FI_OFI_RXM_BUFFER_SIZE",
    "FI_OFI_RXM_EAGER_LIMIT",
    "FI_OFI_RXM_COMP_PER_PROGRESS",
    "FI_OFI_RXM_SAR_LIMIT",
    "FI_OFI_RXM_USE_SRX",
    "FI_OFI_RXM_TX_SIZE",
    "FI_OFI_RXM_RX_SIZE",
    "FI_OFI_RXM_MSG_TX_SIZE",
    "FI_OFI_RXM_MSG_RX_SIZE",
    "FI_OFI_RXM_CM_PROGRESS_INTERVAL",
    "FI_OFI_RXM_CQ_EQ_FAIRNESS",
    "FI_OFI_RXM_DATA_AUTO_PROGRESS",
    "FI_OFI_RXM_USE_RNDV_WRITE",
    "FI_OFI_RXM_ENABLE_DYN_RBUF",
    "FI_OFI_RXM_ENABLE_DIRECT_SEND",
    "FI_OFI_RXM_ENABLE_PASSTHRU",
    "FI_OFI_RXM_DEF_WAIT_OBJ",
    "FI_OFI_RXM_DEF_TCP_WAIT_OBJ",
    "FI_OFI_RXM_DETECT_HMEM_IFACE",
    "FI_OFI_RXM_NUM_MSG_EPS",
    "FI_OFI_RXM_CONN_TIMEOUT",
    "FI_OFI_RXD_SPIN_COUNT",
    "FI_OFI_RXD_RETRY",
    "FI_OFI_RXD_MAX_PEERS",
    "FI_OFI_RXD_MAX_UNACKED",
    "FI_OFI_MRAIL_CONFIG",
    "FI_OFI_MRAIL_ADDR",
    "FI_OFI_MRAIL_ADDR_STRC",
    "FI_LNX_PROV_LINKS",
    "FI_LNX_DISABLE_SHM",
    "FI_LNX_MULTI_RAIL_SELECTION",
    "FI_LNX_SRQ_SUPPORT",
    NULL,
};

bool param_known_upstream(const char *name)
{
    for (size_t i = 0; upstream_prefixes[i]; i++) {
        if (!strncmp(name, upstream_prefixes[i], strlen(upstream_prefixes[i])))
            return true;
    }
    for (size_t i = 0; upstream_names[i]; i++) {
        if (!strcmp(name, upstream_names[i]))
            return true;
    }
    return false;
}
