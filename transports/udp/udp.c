/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of udp. */
#include "core/net/host.h"
#include "core/net/pcap.h"
#include "core/part/part.h"
#include "transports/udp/udp_fabric.h"
#include "transports/udp/udp_info.h"

static const struct param_def udp_params[] = {
    {.key = "iface",
     .type = PARAM_LIST,
     .selects = true,
     .help = "Network interfaces to use: names (with * and ?), addresses or CIDR blocks; ! before "
             "one excludes it. Container bridges are left out unless named."},
    HOST_PORT_PARAMS("endpoints"),
    {.key = "rx_buffer",
     .type = PARAM_SIZE,
     .default_text = "4m",
     .max = 1 << 30,
     .help = "Bytes of the kernel's buffer for datagrams that wait to be read, where the kernel "
             "allows so much (net.core.rmem_max); 0: as the kernel has it."},
    {.key = "tx_buffer",
     .type = PARAM_SIZE,
     .default_text = "4m",
     .max = 1 << 30,
     .help = "Bytes of the kernel's buffer for datagrams that wait for the device, where the "
             "kernel allows so much (net.core.wmem_max); 0: as the kernel has it."},
    {.key = "busy_poll",
     .type = PARAM_INT,
     .default_text = "0",
     .max = 1000000,
     .help = "Microseconds for which the kernel polls the device itself when there is no datagram "
             "(SO_BUSY_POLL); 0: as the kernel has it. Beyond net.core.busy_read it takes "
             "CAP_NET_ADMIN."},
    {.key = "gso",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help = "Send datagrams of one length to one peer that are posted with FI_MORE in one piece, "
             "which the kernel or the device cuts (UDP_SEGMENT), where that is possible."},
    {.key = "gro",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help = "Take several datagrams of one peer from the kernel in one piece (UDP_GRO) into "
             "multi-receive buffers of 64 KiB or more, where that is possible."},
    PCAP_PARAMS,
    {.key = NULL},
};

const struct part udp_part = {
    .name = "udp",
    .prov_name = "udp",
    .summary = "datagrams over UDP sockets",
    .description =
        "Datagram endpoints: one message is the payload of one UDP datagram, nothing around it, as "
        "libfabric's udp provider sends it. Messages may be lost, doubled, or come in another "
        "order; a datagram that comes before its receive is kept by the kernel as long as its "
        "buffer has room. Multicast groups (fi_join), multi-receive, counters and every wait "
        "object. IPv4 and IPv6. One info is offered for each address of each interface that is "
        "up, and to a server that names a port and no address one that takes from all of them; the "
        "longest message is what the interface's MTU leaves. With an event queue bound, "
        "ICMP errors are reported there.",
    .kind = PART_TRANSPORT,
    .provides_ep = EP_SET(FI_EP_DGRAM),
    .params = udp_params,
    .agree = host_ports_agree,
    .offer = udp_offer,
    .open_fabric = udp_open_fabric,
};
