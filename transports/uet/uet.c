/* SPDX-License-Identifier: BSD-2-Clause */
/* The part table of uet. */
#include "transports/uet/uet.h"

static const char *const profile_choices[] = {"auto", "any", "hpc", "ai-full", "ai-base", NULL};
static const char *const payload_choices[] = {"auto", "1024", "2048", "4096", "8192", NULL};

static const char *const addressing_choices[] = {"relative", "absolute", NULL};

#define TIME(name, text, what)                                                                     \
    {                                                                                              \
        .key = name, .type = PARAM_INT, .default_text = text, .min = 1, .max = 600000000,          \
        .help = what                                                                               \
    }
#define COUNT(name, text, low, high, what)                                                         \
    {                                                                                              \
        .key = name, .type = PARAM_INT, .default_text = text, .min = low, .max = high,             \
        .help = what                                                                               \
    }

static const struct param_def uet_params[] = {
    {.key = "iface",
     .type = PARAM_LIST,
     .selects = true,
     .help = "Network interfaces to use: names (with * and ?), addresses or CIDR blocks; ! before "
             "one excludes it. Container bridges are left out unless named."},
    COUNT("port", "4793", 1, 65535, "UDP port of endpoints, where it is not taken."),
    {.key = "shared",
     .type = PARAM_BOOL,
     .default_text = "no",
     .help = "Endpoints at one address, also of several processes of a user, share that port; the "
             "kernel gives each its packets by PDC id and PIDonFEP (SO_ATTACH_REUSEPORT_CBPF). "
             "Where that is off, or cannot be, all but the first take any port. Not yet "
             "for production: see docs/design/uet.md."},
    {.key = "profile",
     .type = PARAM_CHOICE,
     .choices = profile_choices,
     .default_text = "auto",
     .help =
         "Profile of Ultra Ethernet: 'ai-base' has messages of one packet, writes and atomics "
         "that fetch nothing, for layers that make more of them (rxd); 'ai-full' and 'hpc' "
         "have messages of any size, reads and all atomics. 'any': an info for each, of which "
         "the application takes one; 'auto': that of the protocol that it asks for, else that of "
         "hpc."},
    {.key = "payload",
     .type = PARAM_CHOICE,
     .choices = payload_choices,
     .default_text = "auto",
     .help = "Bytes of a packet's payload, the same on all endpoints of a fabric; 'auto': the most "
             "that the MTU of the route between two hosts leaves."},
    COUNT(
        "job", "1", 0, 16777215,
        "Job ID of endpoints without an authorization key; endpoints of different jobs do not hear "
        "each other."),
    {.key = "fallback",
     .variable = "UET_PROVIDER_FALLBACK_JOBID_SUPPORT",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help = "Endpoints that no authorization key, service or 'job=' of the user's gives a Job ID "
             "have the default of 'job'; without it they are refused."},
    {.key = "services",
     .variable = "UET_PROVIDER_SERVICE_PATH",
     .type = PARAM_STRING,
     .help = "A file of services, one a line: a name, then job=, pid=, initiator=, port= and "
             "addressing= (relative or absolute) of endpoints; # begins a comment. Parameters that "
             "the user set win."},
    {.key = "service",
     .type = PARAM_STRING,
     .default_text = "default",
     .help = "The service of that file that endpoints are of."},
    {.key = "addressing",
     .type = PARAM_CHOICE,
     .choices = addressing_choices,
     .default_text = "relative",
     .help = "Whether the PIDonFEP of endpoints is one of their job (relative) or of the node "
             "(absolute), as their addresses say."},
    COUNT(
        "pid", "0", 0, 4095,
        "PIDonFEP of endpoints; 0: a free one. Where an address is shared, the 64 from a multiple "
        "of 64 on are one endpoint's."),
    COUNT("generation", "0", 0, 255,
          "Generation of endpoints, which is in their addresses: requests to another one, such as "
          "those of peers with an address from before a restart, are refused."),
    {.key = "initiator",
     .variable = "UET_PROVIDER_INITIATOR_ID",
     .type = PARAM_INT,
     .default_text = "0",
     .max = INT32_MAX,
     .help = "Initiator ID of endpoints; 0: their UDP port."},
    {.key = "dscp",
     .variable = "UET_PROVIDER_DEF_DATA_DC",
     .type = PARAM_INT,
     .default_text = "0",
     .max = 63,
     .help = "DSCP of the packets of endpoints without a traffic class."},
    {.key = "headers",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help = "Short requests have small and medium headers, where both ends are of the profile HPC "
             "and their addresses say that they take them."},
    {.key = "optimized",
     .type = PARAM_BOOL,
     .default_text = "no",
     .help =
         "Keys of regions that the provider chooses (FI_MR_PROV_KEY) are one of 4096 while there "
         "are some, so that short writes have small headers; such keys can be guessed."},
    {.key = "window",
     .type = PARAM_SIZE,
     .default_text = "1m",
     .min = 1024,
     .max = 1 << 30,
     .help = "Bytes that a packet delivery context has under way at most."},
    {.key = "saved",
     .type = PARAM_SIZE,
     .default_text = "64m",
     .max = 1LL << 40,
     .help = "Bytes of messages without a receive that an endpoint keeps; beyond it they wait at "
             "their senders."},
    {.key = "rendezvous",
     .variable = "UET_PROVIDER_MSG_RENDEZVOUS_SIZE",
     .type = PARAM_SIZE,
     .default_text = "1m",
     .max = UINT32_MAX,
     .help = "Bytes of a message without a tag above which its receiver reads what is not sent at "
             "once, where both ends are of the profile HPC; of AI Full it is sent again when there "
             "is a receive."},
    {.key = "tagged_rendezvous",
     .variable = "UET_PROVIDER_TAGGED_RENDEZVOUS_SIZE",
     .type = PARAM_SIZE,
     .default_text = "1m",
     .max = UINT32_MAX,
     .help = "The same for messages with a tag."},
    {.key = "eager",
     .variable = "UET_PROVIDER_MAX_EAGER_SIZE",
     .type = PARAM_SIZE,
     .default_text = "64k",
     .max = UINT32_MAX,
     .help = "Bytes of such a message that are sent at once."},
    COUNT("burst_wait", "50", 0, 10000000,
          "Microseconds: where the last bursts of messages were each followed by a look at the "
          "queue so soon, the next one leaves with that look, but for its first message; 0: each "
          "leaves as it is posted."),
    TIME("rto", "5000",
         "RTO_Init_Time: microseconds after which a packet is sent again, doubled "
         "each time up to 8 s."),
    COUNT("rto_count", "15", 1, 15, "Max_RTO_Retx_Cnt: how often, until the peer is given up."),
    TIME("patience", "10000000",
         "Microseconds of timeouts after which the peer is given up, however few there were; one "
         "whose port is closed is given up sooner."),
    TIME("nack_time", "1000",
         "NACK_Retx_Time: microseconds until a packet that the peer had no "
         "room for is sent again."),
    COUNT("nack_count", "31", 1, 31, "Max_NACK_Retx_Cnt: how often; 31: without end."),
    TIME("tail_time", "2000",
         "Tail_Loss_Time: microseconds of silence after which the peer is "
         "asked what has come."),
    COUNT("tail_count", "5", 1, 15, "Max_Tail_Loss_Retx: how often."),
    TIME(
        "clear_time", "1000",
        "PDS_Clear_Time: microseconds until the peer is told which guaranteed responses have come, "
        "where no request tells it."),
    TIME("new_pdc_time", "1000000",
         "New_PDC_Time: microseconds that a packet delivery context waits for its initiator's "
         "number."),
    TIME("close_time", "1000000",
         "Close_REQ_Time: microseconds that a peer has to close what it was asked to close."),
    TIME("safety_time", "100000",
         "Syn_Retx_Safety_Time: microseconds that a closed packet delivery context is remembered."),
    COUNT("mpr", "8", 1, 255,
          "Default_MPR: packets that a peer may have under way on a context, in units of 128."),
    COUNT("pdcs", "65535", 2, 65535,
          "Packet delivery contexts of an endpoint at a time; peers may take half of them."),
    COUNT("ack_data", "16", 0, 1024,
          "Max_ACK_Data_Size: bytes of a read that come with its acknowledgement."),
    COUNT("ack_trigger", "16384", 1, 32768,
          "ACK_Gen_Trigger: bytes after which packets are acknowledged that do not ask for it."),
    COUNT("ack_least", "1024", 1, 2048,
          "ACK_Gen_Min_Pkt_Add: bytes that a packet counts, at least."),
    {.key = "ack_each",
     .type = PARAM_BOOL,
     .default_text = "no",
     .help = "Enb_ACK_Per_Pkt: each packet is acknowledged at once."},
    TIME("idle_time", "5000000",
         "Microseconds after which a packet delivery context without work is closed."),
    {.key = "entropy",
     .type = PARAM_INT,
     .default_text = "0",
     .max = UET_NIC_ENTROPY,
     .help =
         "UDP source ports that the requests of an endpoint leave from, by PDC, so that they take "
         "several paths, and one that loses or marks them is left for the next; answers go to "
         "`port`, whichever port a request came from. The same, or 0 nowhere, on all endpoints of "
         "a fabric; 0: all packets leave from the endpoint's port."},
    {.key = "demand_start",
     .type = PARAM_BOOL,
     .default_text = "no",
     .help =
         "Peers open a packet delivery context with a Start_PSN that they were given only (NACK "
         "NEW_START_PSN), which takes one more round trip: packets with forged addresses open "
         "nothing, and late ones neither."},
    {.key = "rx_buffer",
     .type = PARAM_SIZE,
     .default_text = "4m",
     .max = 1 << 30,
     .help = "Bytes of the kernel's buffer for packets that wait to be read, where the kernel "
             "allows so much (net.core.rmem_max); 0: as the kernel has it."},
    {.key = "tx_buffer",
     .type = PARAM_SIZE,
     .default_text = "4m",
     .max = 1 << 30,
     .help = "The same for packets that wait for the device (net.core.wmem_max)."},
    {.key = "gso",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help =
         "Packets of one length that leave together for one peer go to the kernel in one piece, "
         "which the kernel or the device cuts (UDP_SEGMENT), where that is possible."},
    {.key = "gro",
     .type = PARAM_BOOL,
     .default_text = "yes",
     .help = "Take several packets of one peer from the kernel in one piece (UDP_GRO)."},
    {.key = "crc",
     .type = PARAM_BOOL,
     .default_text = "no",
     .help = "UET_Data_Protect: packets end with a CRC-32C, and those that do not, or whose CRC is "
             "wrong, are dropped; the same on all endpoints of a fabric."},
    PCAP_PARAMS,
    {.key = NULL},
};

const struct part uet_part = {
    .name = "uet",
    .prov_name = "uet",
    .summary = "Ultra Ethernet's packet delivery and semantics over UDP sockets",
    .description =
        "Reliable datagram endpoints that speak the packets of Ultra Ethernet 1.0 (PDS and SES) "
        "over UDP port 4793: messages with and without tags, remote memory access and atomics, "
        "over packet delivery contexts that open with the first packet of data. Packets are "
        "ordered (ROD) where the application asks for an order, else they come in any order (RUD). "
        "A fixed window bounds what is under way; congestion control and security are not there. "
        "Datagram endpoints have packets of their own (UUD). Never chosen unless named.\n\n"
        "Endpoints of one job speak with each other: its Job ID is an authorization key of three "
        "bytes, the highest first, of the endpoint or of the domain; with FI_AV_AUTH_KEY an "
        "endpoint is of all jobs of its address vector, and receives and regions may name one of "
        "them. Without a key the job is that of a service (services=), or of job=.\n\n"
        "One info is offered for each address of each interface that is up, and to a server that "
        "names a port and no address one that is at all of them (not with crc=yes). "
        "The address of an endpoint says what it can do, so endpoints of different profiles speak "
        "what both have.\n\n"
        "A region that is registered with FI_UET_MR_IDEMPOTENT (rdma/fi_ext_uet.h) is written and "
        "read by RUDI between endpoints of HPC, where no order is asked for: at least once, and "
        "without a word of it at the target.",
    .kind = PART_TRANSPORT,
    .hidden = true,
    .provides_ep = EP_SET(FI_EP_RDM) | EP_SET(FI_EP_DGRAM),
    .peer = uet_peer_traits,
    .params = uet_params,
    .offer = uet_offer,
    .atomics = ATOMICS_CPU,
    .open_fabric = uet_open_fabric,
};
