/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of tcp. */
#include "core/net/host.h"
#include "core/net/pcap.h"
#include "core/part/part.h"
#include "transports/tcp/tcp_fabric.h"
#include "transports/tcp/tcp_info.h"

static const char *const ios[] = {"sockets", "uring", NULL};

static const struct param_def tcp_params[] = {
    {.key = "iface",
     .type = PARAM_LIST,
     .selects = true,
     .help = "Network interfaces to use: names (with * and ?), addresses or CIDR blocks; ! before "
             "one excludes it. Container bridges are left out unless named."},
    HOST_PORT_PARAMS("passive endpoints"),
    {.key = "tx_size",
     .type = PARAM_INT,
     .default_text = "0",
     .automatic = "4096, or 65536 with a shared receive context",
     .max = TCP_SHARED_SIZE,
     .help = "Operations that an endpoint can have outstanding before a post returns FI_EAGAIN; "
             "0: 4096, or 65536 with a shared receive context."},
    {.key = "rx_size",
     .type = PARAM_INT,
     .default_text = "0",
     .automatic = "as tx_size",
     .max = TCP_SHARED_SIZE,
     .help =
         "Receives that can be posted to an endpoint or shared receive context; 0: as tx_size."},
    PARAM_NUMBER(
        "max_inject", PARAM_SIZE, "128", 0, 16384,
        "Largest message in bytes that fi_inject takes; messages up to this size are copied "
        "when they must wait."),
    PARAM_NUMBER("max_saved_size", PARAM_SIZE, "16m", 0, 0,
                 "Bytes of unexpected messages that are kept for each connection; beyond, the "
                 "connection is not read until some are received."),
    PARAM_NUMBER(
        "rndv_size", PARAM_SIZE, "1m", 0, 0,
        "Tagged messages of more bytes wait at the sender for their receive, where the peer "
        "supports it."),
    PARAM_NUMBER(
        "connect_timeout", PARAM_TIME, "15s", 1, 3600000,
        "How long a connection may take to be opened. If given, the answer of the peer's program "
        "is included; otherwise that may take ten minutes more."),
    PARAM_SWITCH("nodelay", "yes", "Send small messages at once (TCP_NODELAY)."),
    PARAM_SWITCH(
        "coalesce", "yes",
        "Send several small operations that follow each other without a progress call in one "
        "system call; the last of them may leave up to 2 ms later."),
    PARAM_NUMBER(
        "local_buffer_size", PARAM_SIZE, "256k", 0, 0,
        "Bytes that a sender may be ahead of its receiver inside of this host (SO_SNDBUF): "
        "bytes that stay in the caches are copied faster. inf: the kernel decides."),
    PARAM_PICK(
        "io", "sockets", ios,
        "How connections send and receive: sockets, by system calls; uring, through an "
        "io_uring for each queue, or as sockets where the kernel refuses one. With uring, the "
        "application's own epoll_wait on a queue's fd may end with EINTR without a signal, and "
        "must try again."),
    PARAM_NUMBER(
        "zero_copy_size", PARAM_SIZE, "64k", 0, 0,
        "Payloads of so many bytes or more are sent without a copy with io=uring; a connection "
        "whose device copies them all the same stops asking for it. inf: none."),
    PCAP_PARAMS,
    {.key = NULL},
};

static unsigned peer_traits(const struct params *params)
{
    return PEER_ASKS | PEER_IN_TURN;
}

const struct part tcp_part = {
    .name = "tcp",
    .prov_name = "tcp",
    .summary = "connected endpoints over TCP sockets",
    .description =
        "Messages, remote memory access and remote completion data over TCP, with the wire format "
        "of libfabric's tcp provider. Tagged messages for hints with FI_TAGGED, or with a "
        "shared receive context. IPv4 and IPv6. One info is offered for each address of each "
        "interface that is up; a server that names a port and no address gets one that listens on "
        "all of them.",
    .kind = PART_TRANSPORT,
    .peer = peer_traits,
    .provides_ep = EP_SET(FI_EP_MSG),
    .params = tcp_params,
    .agree = host_ports_agree,
    .offer = tcp_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = tcp_open_fabric,
};
