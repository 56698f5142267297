/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part table: the interface of a folder under transports/ or layers/ to the rest of Weft.
 *
 * A part's folder has one extern symbol, `const struct part <folder>_part`. compose finds it
 * through the generated registry, plans with `needs` and `offer`, and opens it with `open_fabric`.
 * From there on the seam is the OFI API itself: the part gives its upper fid_* objects and calls
 * fi_* on its lower. See docs/adding-a-part.md.
 */
#ifndef WEFT_CORE_PART_PART_H
#define WEFT_CORE_PART_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "core/base/reason.h"
#include "core/param/param.h"

struct hook_part;
struct layer_ops;

enum part_kind {
    PART_TRANSPORT, /* the end of a stack: stands on a device or the kernel */
    PART_LAYER,     /* stands on one lower */
    PART_JOIN,      /* stands on several lowers */
};

/* Endpoint types as a set, for part.gives and part.requires_ep. */
#define EP_SET(type) (1u << (type))

/*
 * In those sets, beside endpoint types: reliable packets. Endpoints are of type FI_EP_RDM, and
 * their infos say so, but offer only FI_MSG, of at most one packet (max_msg_size): each packet is
 * delivered once, in any order, into a receive that the upper has posted; without one it waits at
 * its sender. A send is complete when the peer's part has the packet, so that the sender's buffers
 * stay in use until then. FI_RMA, FI_MULTI_RECV, FI_MR_LOCAL and FI_MSG_PREFIX as the info says.
 * A layer that requires them makes messages of them. A part that has both offers packets where the
 * layer above requires them (request.upper), and FI_EP_RDM endpoints of its own elsewhere.
 */
#define EP_PACKETS (1u << 31)

/* In request.upper: no layer above has the address of its endpoint in packets, so a peer may know
 * the endpoint by any address that leads to it. */
#define UPPER_NAMELESS (1u << 30)

/* Properties of a part that the attributes of its infos do not express. */
enum peer_trait {
    /* With FI_PEER a shared receive context of the upper's is asked for each receive, as the
     * message comes. A device that needs receives beforehand cannot. */
    PEER_ASKS = 1 << 0,
    /* The part writes a completion before it carries out any request that came behind. A device
     * carries out an access while the message before it waits in a queue. */
    PEER_IN_TURN = 1 << 1,
    /* Its FI_EP_RDM endpoints carry reliable packets: the part gives EP_PACKETS instead. */
    PEER_PACKETS = 1 << 2,
};

/* In part.adds, beside capabilities, none of which it is: FI_ORDER_STRICT of comp_order. */
#define PART_ADDS_STRICT (1ULL << 63)

/* One question "what can you offer?", as one part of one candidate stack sees it. */
struct request {
    uint32_t version;            /* API version that the caller named */
    const char *node;            /* as in fi_getinfo; NULL when absent */
    const char *service;         /* as in fi_getinfo; NULL when absent */
    uint64_t flags;              /* fi_getinfo flags: FI_SOURCE, FI_NUMERICHOST, ... */
    const struct fi_info *hints; /* never NULL; every nested attr present; 0 or NULL is "any" */
    const struct params *params; /* this instance's parameters, already checked and typed */
    const char *domains; /* those that the spec chooses, '|' or ',' between; others are dropped */
    const struct part *part; /* the part that is asked */
    unsigned lower_traits;   /* enum peer_trait of the lower; 0 of joins and transports */
    unsigned upper;          /* requires_ep of the layer above, past what is transparent, and
                                UPPER_NAMELESS; 0: an application */
    struct reasons *reasons; /* where a refusal is written; may be NULL */
    size_t branch;           /* needs of a join: the index of the branch that they are for */
    /* needs of a join: how many of its alternatives, from the first, are asked with node, service
     * and FI_SOURCE; all unless it says so. */
    size_t *named;
    /* join: sets of 1 << index. Branches whose infos were asked without node and service, though
     * there are some; and branches whose atomics are all done by a CPU. */
    uint64_t unnamed, cpu_atomics;
};

/* The actor that changes memory for a remote atomic. Operations of one region must all be done by
 * one of them: a device and a CPU are not atomic together. */
enum part_atomics {
    ATOMICS_BELOW, /* a layer: its lower's; a transport: the device's */
    ATOMICS_CPU,   /* a CPU's, with its atomic instructions, whatever is below */
};

/* A part's hold on the part below it. Made by compose, owned by the layer from open_fabric on. */
struct lower {
    struct fid_fabric *fabric; /* opened, of the lower part */
    bool peer;                 /* speaks our fi_peer.h (FI_PEER of the same fi_version) */
    unsigned peer_traits;      /* enum peer_trait */
    /* The lower's offers for hints, as fi_getinfo would list them for this very sub-stack; hints in
     * the current layout. The caller frees *info with info_free. -FI_ENODATA: nothing fits. */
    int (*getinfo)(const struct lower *lower, uint32_t version, const char *node,
                   const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    /* Closes the fabric and frees the hold. -FI_EBUSY (and nothing happens) while it has
     * children. */
    int (*close)(struct lower *lower);
};

/* Arguments of open_fabric. Everything but `lowers` and `params` is valid during the call only. */
struct open_args {
    const struct part *part;
    struct params *params;             /* owned by the fabric after success; params_destroy */
    const struct fi_fabric_attr *attr; /* name, prov_name, api_version of the info chosen */
    uint32_t api_version;              /* that the caller's fi_getinfo named */
    unsigned abi;                      /* enum abi_level: the struct layouts that the upper has */
    /* lower_count of them; owned by the fabric after success. Of a join, NULL where a branch has
     * nothing in this fabric. */
    struct lower **lowers;
    size_t lower_count; /* 0 for a transport, 1 for a layer */
    bool usual;         /* a join's: the user did not write them */
    const char *whole;  /* the stack that the application opened, without what FI_HOOK put on top;
                          NULL in tests of one part */
};

struct part {
    const char *name;           /* short name: "rxm" */
    const char *prov_name;      /* upstream's spelling, as printed: "ofi_rxm" */
    const char *const *aliases; /* further names taken on input, NULL-terminated; may be NULL */
    const char *summary;        /* one line, for man pages and fi_info --tree */
    const char *description;    /* paragraphs for the man page, roff-free text */
    enum part_kind kind;
    bool transparent; /* changes no attribute: it provides what its lower provides (hooks) */
    bool nameless;    /* a layer: it works where an endpoint's address is that of every interface */
    unsigned rank;    /* transports: among infos that are equal otherwise the higher come first; 0
                             of sockets, 1 of devices that move data by themselves */
    bool hidden;      /* never a candidate unless named: test doubles, unproven parts */
    unsigned provides_ep; /* EP_SET of endpoint types, EP_PACKETS; 0 when transparent */
    unsigned requires_ep; /* EP_SET of lower endpoint types it can use, EP_PACKETS; 0 for a
                             transport. compose puts the layer that makes packets of datagrams
                             under one that needs packets, unseen. */
    const struct param_def *params; /* ends with key NULL; may be NULL */
    /* enum peer_trait of its infos; params as in struct request. NULL: none. Not asked of
     * transparent parts. */
    unsigned (*peer)(const struct params *params);
    /* Layers: parameters with which it may complete, unseen, a transport that was named bare, as
     * if it were part of it ("tcp" for FI_EP_RDM is rxm(tags=pass);tcp). Ends with key NULL;
     * NULL: it is never unseen. */
    const struct param_text *unnamed;
    /* Of a transport: the protocol (FI_PROTO_*) of the layer that completes it, unseen, with
     * default parameters; no other layer is offered there unless it is named. Of that layer
     * `completes` is the same. 0: none. */
    uint32_t completes, completed;
    /* Of a layer with `completes`, or NULL: the transport for peers of this node, which stands
     * beside it in a join whose face it is, and its own switch (PARAM_BOOL) that permits it. */
    const char *inside, *inside_permitted;
    /* Of a join, or NULL: the index of the lower whose names of fabric and domain are its own
     * ("its face"), or SIZE_MAX: its names are those of all lowers, joined by '+'. */
    size_t (*face)(const struct params *params);
    /* Layers: capabilities, and PART_ADDS_STRICT, that it adds to a lower without them. Where hints
     * ask for one of them the planner offers the layer on each stack that it can stand on, under
     * what is transparent; else it is there only when it is named. */
    uint64_t adds;
    /* Of such a layer: its operations name objects in memory of the application's, which only
     * transparent layers exchange: the planner puts nothing else on top of it. */
    bool topmost;
    enum part_atomics atomics;

    /* May be NULL. False: values of several parameters do not go together. In a spec that is an
     * error; of variables it is shown, and open_fabric gets them as they are. */
    bool (*agree)(const struct params *params, struct param_conflict *conflict);

    /*
     * Layers: the hints to put to the lower so that, with what this layer adds, req->hints can be
     * met. *lower_hints is a list (->next) of alternatives, best first, freed by the caller. Node,
     * service and flags go to the lower unchanged. Returns 0, or -FI_ENODATA with a reason recorded
     * when no lower could help. NULL for transports; transparent layers use part_needs_same.
     * A join is asked for each branch (req->branch); names of fabric and domain are set by compose.
     */
    int (*needs)(const struct request *req, struct fi_info **lower_hints);

    /*
     * The infos this part gives: for a transport (lower NULL) all that it has for node, service and
     * the addresses of the hints; for a layer those that it makes of one lower info. Each describes
     * everything the part can do (caps, largest sizes): compose checks them against the hints with
     * info_check and settles them with info_settle afterwards. A part refuses by itself only what
     * those cannot know (addresses, parameters against hints), and records why. prov_name is set by
     * compose. Returns 0 with *info possibly NULL, or a negative error. NULL for joins.
     */
    int (*offer)(const struct request *req, const struct fi_info *lower, struct fi_info **info);

    /*
     * Joins: the infos that it makes of all that its branches have. branches[i] is the list of
     * branch i, best first, or NULL: it has nothing, for a reason that is recorded. Names of fabric
     * and domain of each info are those of the branches' infos that it is made of, by join_name
     * (core/part/join_name.h), NULL for a branch that is not in it: so it is opened.
     */
    int (*join)(const struct request *req, const struct fi_info *const *branches, size_t count,
                struct fi_info **info);

    /*
     * Opens the part's fabric over args->lowers. A failure leaves lowers and params with the
     * caller. Closing the fabric (fi_close) closes the lowers.
     */
    int (*open_fabric)(const struct open_args *args, struct fid_fabric **fabric, void *context);
    struct hook_part *hook;        /* for hook_part_open (core/hook/hook_part.h) */
    const struct layer_ops *layer; /* for layer_open_fabric (core/layer/layer.h) */
};

/* needs/offer of a part that changes nothing: a copy of the hints, a copy of the lower's info. */
int part_needs_same(const struct request *req, struct fi_info **lower_hints);
int part_offer_same(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/* request.upper of what is below a part, from its own. */
static inline unsigned part_upper_below(const struct part *part, unsigned upper)
{
    if (part->transparent)
        return upper;
    return part->requires_ep |
           (part->nameless && (!upper || upper & UPPER_NAMELESS) ? UPPER_NAMELESS : 0);
}

#endif
