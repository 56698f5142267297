/* SPDX-License-Identifier: BSD-2-Clause */
/* Options and commands between parts of ours, carried by public functions: their numbers. */
#ifndef WEFT_CORE_BASE_SEAM_H
#define WEFT_CORE_BASE_SEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Seam options: fi_setopt(ep, FI_OPT_ENDPOINT, ...) between our own parts, numbers outside the
 * public ranges. A part that does not know one answers -FI_ENOPROTOOPT, and the upper goes on.
 */
enum {
    /* uint32_t. Version of the wire that the peer said it speaks (from the upper's own exchange);
     * until it is set a lower uses only features that every peer understands. */
    OPT_PEER_WIRE_VERSION = -0x57450001,
    /* uint32_t, milliseconds, before fi_connect. How long the peer may leave the request without an
     * answer, where the upper knows better than the default of the lower. */
    OPT_ANSWER_TIMEOUT = -0x57450002,
    /* uint32_t, OPT_FEATURE_ bits. The peer understands these beyond its wire version, as it said
     * in the upper's own exchange. Until it is set, operations that need such a feature are
     * accepted and complete with FI_EOPNOTSUPP (of calls without a completion: is returned), and
     * nothing is sent. */
    OPT_PEER_FEATURES = -0x57450003,
    /* size_t, fi_getopt. Messages that have come and wait for their receive, where the part matches
     * by itself. */
    OPT_UNEXPECTED = -0x57450004,
    /* struct fi_cq_err_entry[], fi_getopt. Each of them: flags, bytes, data, tag,
     * source. -FI_ETOOSMALL: *optlen bytes are needed just now. */
    OPT_UNEXPECTED_QUEUE = -0x57450005,
    /* size_t, fi_getopt. A longer message arrives sooner if it is announced, and its receiver reads
     * it, than in pieces; as measured over the part. */
    OPT_FETCH_SIZE = -0x57450006,
    /* struct match_watch (core/match/match.h), which outlives the endpoint or shared receive
     * context that is enabled; fi_setopt. It is called for each match. An endpoint whose receives
     * come from a shared context has no matches; the context has its own watch. */
    OPT_MATCH_WATCH = -0x57450007,
    /* uint32_t, before the connection. 1: a message with a tag to an endpoint without FI_TAGGED
     * takes a receive as any other does, and its completion says FI_TAGGED, and the tag. 0: it ends
     * the connection. */
    OPT_TAGS_PLAIN = -0x57450008,
    /* uint32_t, milliseconds. How long fi_close may wait for peers to take accepted operations: the
     * upper knows whether it may wait, and what they have already told it. */
    OPT_CLOSE_WAIT = -0x57450009,
    /* uint32_t, OPT_FRAGMENTS_: the fate of a datagram that is longer than the path takes. */
    OPT_FRAGMENTS = -0x57450020,
    /* uint32_t, 0 to 3: the ECN field of packets sent (RFC 3168). */
    OPT_ECN = -0x57450021,
    /* uint32_t, OPT_NOTES_ bits; may change at any time. `data` of a receive's completion holds
     * these notes on its datagram, OPT_NOTE_; its flags do not say FI_REMOTE_CQ_DATA. */
    OPT_NOTES = -0x57450022,
    /* size_t, fi_getopt. Datagrams that came and were dropped for want of room, as far as is known
     * by now. */
    OPT_DROPS = -0x57450023,
    /* size_t, fi_getopt. Bytes of datagrams that it keeps while there is no receive for them. A
     * part that does not know the option drops them. */
    OPT_KEPT = -0x57450025,
    /* struct packet_room, fi_getopt, of an endpoint of reliable packets: what fits in one packet to
     * a peer now, which the path decides, and what may be sent in several beyond max_msg_size, to a
     * peer with OPT_READER. A part that does not know: max_msg_size. */
    OPT_PACKET_ROOM = -0x57450024,
    /* struct packet_reader, before fi_enable, of an endpoint of reliable packets: packets go to it
     * where they lie, instead of being copied into receives, which are not to be posted then. */
    OPT_READER = -0x57450027,
    /* struct event_target. Where an endpoint of reliable packets writes what it has to say of its
     * rails, for as long as it lives: the application bound its queue to an endpoint above. */
    OPT_EVENTS = -0x57450026,
    /* void *, fi_setopt: the context of a read (fi_read) under way, or NULL, which stops nothing.
     * When the call returns no byte of it lands any more; its end is reported as ever, perhaps from
     * inside of the call. Not from inside of a report of that endpoint. */
    OPT_STOP_READ = -0x57450028,
    /* size_t, fi_getopt, of an endpoint of reliable packets. 1: a packet to a peer that is gone
     * ends in an error also where another endpoint has its address now. */
    OPT_SESSIONS = -0x57450029,
    /* struct train_port, before fi_enable, of an endpoint of datagrams: fi_getopt fills in what the
     * lower has, and fi_setopt gives it what the upper has. A part that does not know the option
     * sends and completes each datagram by itself. */
    OPT_TRAINS = -0x5745002a,
};

struct eq;
struct fid;
struct fid_ep;
struct iovec;

/* Datagrams that lie end to end, all of `segment` bytes but the last, which may have fewer. */
struct train {
    uint64_t peer; /* fi_addr_t: where it goes; where it came from, as a completion says */
    const struct iovec *iov; /* `count` segments of memory, `len` bytes in all; or NULL, and */
    const void *bytes;
    size_t count, len, segment;
};

/* Of OPT_TRAINS. */
struct train_port {
    /* In both calls: the endpoint that the upper has. -FI_ENOPROTOOPT where a layer is in between,
     * which would not see the datagrams. */
    const struct fid_ep *of;
    /* Of the upper: a train has come into the multi-receive buffer of that context. flags and notes
     * (OPT_NOTES) are those of a lone datagram's completion; called when that would be written. */
    void (*came)(void *arg, void *context, uint64_t flags, const struct train *train,
                 uint64_t notes);
    void *arg;
    /* Of the lower: sends a train, which has left when it returns 0. -FI_EAGAIN: not now;
     * -FI_ENOSYS: never; others: not this one. NULL: never. */
    ssize_t (*send)(void *lower, const struct train *train);
    /* Of the lower: room for a train, which the upper may put together there as one segment: the
     * next call of send does not copy that. NULL: there is none, so it comes in segments. */
    void *(*memory)(void *lower);
    void *lower;
};

/* Of OPT_READER. */
struct packet_reader {
    /* The endpoint that the upper has: the option is refused where a layer is in between, which
     * would not see the packets. */
    const struct fid_ep *of;
    size_t room; /* packets of one sender that it takes without an answer of its own */
    /* A packet of `src`, as a completion would name it. The bytes are valid during the call. False:
     * there is no memory for it now; its sender keeps it, and sends it again. Called where the
     * completion of a receive would be written. */
    bool (*read)(void *arg, const uint8_t *bytes, size_t len, uint64_t src);
    /* The same of a packet that lies in several places, the first of which is the longest. NULL: it
     * is put together first. */
    bool (*read_parts)(void *arg, const struct iovec *parts, size_t count, uint64_t src);
    /* All packets that have come were read, and none is acknowledged yet: what the upper sends now
     * takes the acknowledgements along. NULL: it sends nothing then. */
    void (*answer)(void *arg);
    void *arg;
};

/* Of OPT_EVENTS. */
struct event_target {
    struct eq *eq;   /* core/queue/eq.h */
    struct fid *fid; /* that its entries name: the application's endpoint */
};

/* Of OPT_PACKET_ROOM. */
struct packet_room {
    uint64_t addr; /* in: fi_addr_t of the peer */
    size_t size;   /* out: bytes of a message, without a prefix */
    size_t train;  /* out: bytes of a message of several packets that leaves at once, or 0 */
};

/* fi_control of a completion queue between our own parts, through hooks too. Else -FI_ENOSYS. */
enum {
    /* struct cq_sources (core/queue/cq.h): the sources in the wait fd of a queue that is driven
     * without a lock, for a caller that watches them itself. */
    CONTROL_SOURCES = -0x57450100,
};

/* fi_control of a domain between our own parts, through hooks too: which peers its endpoints reach.
 * -FI_ENOSYS: every peer that has an address for them, as over a network. */
enum {
    /* struct reach: filled with the token that the domain's endpoints give peers, for
     * CONTROL_REACHES. */
    CONTROL_REACH = -0x57450101,
    /* const struct reach, from a peer's CONTROL_REACH, of any bytes: 0, or -FI_EHOSTUNREACH. */
    CONTROL_REACHES = -0x57450102,
};

/* fi_control of a domain between our own parts, through hooks too: is this, of the form of its
 * addr_format that only the part reads, an address that its endpoints reach? */
enum {
    /* const struct own_addr, of any bytes. 0; -FI_EINVAL, -FI_EHOSTUNREACH, with a line in the log.
     */
    CONTROL_ADDR = -0x57450103,
};

struct own_addr {
    const void *bytes;
    size_t len;
};

/*
 * fi_control of an object of any class between our own parts, through every cover: the object that
 * a table of functions (fi_open_ops) is about, of a handle that the application has. Covers hand it
 * down; a table that a part answers about takes the handles of covers, so that these pass it up.
 */
enum {
    /* struct own_object. 0: `fid` is the object of the part that has the table. -FI_ENOSYS: no part
     * under this handle has it. */
    CONTROL_OWN = -0x57450104,
};

/* fi_control of a domain between our own parts, through hooks too: the meaning of a prov_errno. */
enum {
    /* struct error_text. 0; -FI_ENOSYS: it has none. */
    CONTROL_ERROR_TEXT = -0x57450105,
};

struct error_text {
    int code;
    const char *text; /* out */
};

struct own_object {
    const char *table; /* its name, or NULL */
    struct fid *fid;   /* out */
};

enum {
    REACH_MAX = 16
};

/* Means something to the part only that made it. */
struct reach {
    size_t len; /* to REACH_MAX */
    unsigned char token[REACH_MAX];
};

enum {
    OPT_FEATURE_ATOMICS = 1,
};

enum {
    OPT_FRAGMENTS_ALLOWED, /* the node sends it in fragments */
    OPT_FRAGMENTS_NEVER,   /* beyond what is known of the path: -FI_EMSGSIZE */
    OPT_FRAGMENTS_PROBE,   /* beyond the interface's MTU: -FI_EMSGSIZE; else the network drops it */
};

/* Of OPT_NOTES. */
enum {
    OPT_NOTES_ECN = 1 << 0,
    OPT_NOTES_WAITED = 1 << 1,      /* 0 unless several datagrams come at once */
    OPT_NOTES_WAITED_EACH = 1 << 2, /* the same, of each */
};
#define OPT_NOTE_ECN(data) ((unsigned)((data)&3))        /* the ECN field */
#define OPT_NOTE_WAITED_NS(data) ((uint64_t)(data) >> 2) /* from the device to its reading */

#endif
