/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of shm. */
#include "core/part/part.h"
#include "transports/shm/shm_domain.h"
#include "transports/shm/shm_info.h"

static const char *const uses[] = {"auto", "on", "off", NULL};

static const struct param_def shm_params[] = {
    {.key = "single_node",
     .type = PARAM_BOOL,
     .selects = true,
     .default_text = "no",
     .help = "The user's promise that all peers are on this node: FI_REMOTE_COMM is offered too, "
             "for applications that insist on it."},
    PARAM_PICK(
        "cma", "auto", uses,
        "Large transfers by cross-memory attach (process_vm_readv): where a measurement says "
        "that it is faster than copying through shared memory, always, or never."),
    PARAM_PICK(
        "xpmem", "auto", uses,
        "Transfers of 64 KiB and more by memory of the peer's that is mapped by XPMEM, where "
        "the kernel has this module (/dev/xpmem): where a measurement says that it is faster "
        "than other ways, always, or never. It lets all processes of the user attach to this "
        "one, so auto asks for it only where ptrace(2) lets them, too: kernel.yama.ptrace_scope "
        "is 0, and this process is dumpable and has no capabilities."),
    PARAM_NUMBER("connect_timeout", PARAM_TIME, "5s", 1, 3600000,
                 "How long an operation to an address without a listener is tried again before it "
                 "ends in an error."),
    PARAM_NUMBER(
        "max_saved_size", PARAM_SIZE, "64m", 0, 0,
        "Bytes of unexpected messages that an endpoint keeps, with 136 for each; beyond, "
        "messages wait at their senders, but for what each has on its way (at most 300 KiB). "
        "There each waiting send takes one of tx_size."),
    PARAM_NUMBER(
        "tx_size", PARAM_INT, "4096", 1, 65536,
        "Operations that an endpoint can have outstanding before a post returns FI_EAGAIN."),
    PARAM_NUMBER("rx_size", PARAM_INT, "4096", 1, 1048576,
                 "Receives that can be posted to an endpoint."),
    {.key = NULL},
};

static unsigned peer_traits(const struct params *params)
{
    return PEER_ASKS | PEER_IN_TURN;
}

const struct part shm_part = {
    .name = "shm",
    .prov_name = "shm",
    .summary = "endpoints of one node over shared memory",
    .description =
        "Reliable-datagram endpoints of processes of one node and user: messages, tagged messages "
        "and remote memory access through shared memory. Addresses are texts (FI_ADDR_STR): "
        "fi_shm://NAME gets the user and a number added to be unique, any other scheme is used as "
        "it is. All processes must share a network namespace.\n\n"
        "With FI_SHARED_AV in the hints, address vectors that processes open with the same name "
        "hold the same addresses at the same indices.",
    .kind = PART_TRANSPORT,
    .peer = peer_traits,
    .provides_ep = EP_SET(FI_EP_RDM),
    .params = shm_params,
    .offer = shm_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = shm_open_fabric,
};
