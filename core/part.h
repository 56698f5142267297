/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part table: what a folder under transports/ or layers/ is to the rest of Weft.
 *
 * A part's folder has one extern symbol, `const struct part <folder>_part`. compose finds it
 * through the generated registry, plans with `needs` and `offer`, and opens it with `open_fabric`.
 * From there on the seam is the OFI API itself: the part gives its upper fid_* objects and calls
 * fi_* on its lower. See docs/adding-a-part.md.
 */
#ifndef WEFT_CORE_PART_H
#define WEFT_CORE_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include "core/param.h"
#include "core/reason.h"

enum part_kind {
    PART_TRANSPORT, /* the end of a stack: stands on a device or the kernel */
    PART_LAYER,     /* stands on one lower */
    PART_JOIN,      /* stands on several lowers */
};

/* Endpoint types as a set, for part.gives and part.stands_on. */
#define EP_SET(type) (1u << (type))

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
    const struct part *part;     /* the part that is asked */
    struct reasons *reasons;     /* where a refusal is written; may be NULL */
};

/* A part's hold on the part below it. Made by compose, owned by the layer from open_fabric on. */
struct lower {
    struct fid_fabric *fabric; /* opened, of the lower part */
    bool peer;                 /* speaks our fi_peer.h (FI_PEER of the same fi_version) */
    /* The lower's offers for hints, as fi_getinfo would list them for this very sub-stack; hints in
     * the current layout. The caller frees *info with info_free. -FI_ENODATA: nothing fits. */
    int (*getinfo)(const struct lower *lower, uint32_t version, const char *node,
                   const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    /* Closes the fabric and frees the hold. -FI_EBUSY (and nothing happens) while it has
     * children. */
    int (*close)(struct lower *lower);
};

/* What open_fabric gets. Everything but `lowers` and `params` is valid during the call only. */
struct open_args {
    const struct part *part;
    struct params *params;             /* owned by the fabric after success; params_destroy */
    const struct fi_fabric_attr *attr; /* name, prov_name, api_version of the info chosen */
    uint32_t api_version;              /* that the caller's fi_getinfo named */
    unsigned abi;                      /* enum abi_level: the struct layouts that the upper has */
    struct lower **lowers;             /* lower_count of them; owned by the fabric after success */
    size_t lower_count;                /* 0 for a transport, 1 for a layer */
    const char *whole; /* the stack that the application opened, without what FI_HOOK put on top;
                          NULL in tests of one part */
};

struct part {
    const char *name;           /* short name: "rxm" */
    const char *prov_name;      /* upstream's spelling, as printed: "ofi_rxm" */
    const char *const *aliases; /* further names taken on input, NULL-terminated; may be NULL */
    const char *summary;        /* one line, for man pages and fi_info --tree */
    const char *description;    /* paragraphs for the man page, roff-free text */
    enum part_kind kind;
    bool transparent;   /* changes no attribute: what it stands on is what it gives (hooks) */
    bool hidden;        /* never a candidate unless named (test doubles) */
    unsigned gives;     /* EP_SET of endpoint types; 0 when transparent */
    unsigned stands_on; /* EP_SET of lower endpoint types it can use; 0 for a transport */
    const struct param_def *params; /* ends with key NULL; may be NULL */
    /* Layers: parameters with which it may complete, unseen, a transport that was named bare, as
     * if it were part of it ("tcp" for FI_EP_RDM is rxm(tags=pass);tcp). Ends with key NULL;
     * NULL: it is never unseen. */
    const struct param_text *unnamed;
    /* Layers: capabilities, and PART_ADDS_STRICT, that it adds to a lower without them. Where hints
     * ask for one of them the planner offers the layer on each stack that it can stand on, under
     * what is transparent; else it is there only when it is named. */
    uint64_t adds;
    /* Of such a layer: its operations name objects in memory of the application's, which only
     * transparent layers exchange: the planner puts nothing else on top of it. */
    bool topmost;

    /*
     * Layers: the hints to put to the lower so that, with what this layer adds, req->hints can be
     * met. *lower_hints is a list (->next) of alternatives, best first, freed by the caller. Node,
     * service and flags go to the lower unchanged. Returns 0, or -FI_ENODATA with a reason recorded
     * when no lower could help. NULL for transports; transparent layers use part_needs_same.
     */
    int (*needs)(const struct request *req, struct fi_info **lower_hints);

    /*
     * The infos this part gives: for a transport (lower NULL) all that it has for node, service and
     * the addresses of the hints; for a layer those that it makes of one lower info. Each describes
     * everything the part can do (caps, largest sizes): compose checks them against the hints with
     * info_check and settles them with info_settle afterwards. A part refuses by itself only what
     * those cannot know (addresses, parameters against hints), and records why. prov_name is set by
     * compose. Returns 0 with *info possibly NULL, or a negative error.
     */
    int (*offer)(const struct request *req, const struct fi_info *lower, struct fi_info **info);

    /*
     * Opens the part's fabric over args->lowers. A failure leaves lowers and params with the
     * caller. Closing the fabric (fi_close) closes the lowers.
     */
    int (*open_fabric)(const struct open_args *args, struct fid_fabric **fabric, void *context);
};

/* needs/offer of a part that changes nothing: a copy of the hints, a copy of the lower's info. */
int part_needs_same(const struct request *req, struct fi_info **lower_hints);
int part_offer_same(const struct request *req, const struct fi_info *lower, struct fi_info **info);

/*
 * Seam options: fi_setopt(ep, FI_OPT_ENDPOINT, ...) between our own parts, numbers outside the
 * public ranges. A part that does not know one answers -FI_ENOPROTOOPT, and the upper goes on.
 */
enum {
    /* uint32_t. Version of the wire that the peer said it speaks (from the upper's own exchange);
     * until it is set a lower uses only what every peer understands. */
    OPT_PEER_WIRE_VERSION = -0x57450001,
    /* uint32_t, milliseconds, before fi_connect. How long the peer may leave the request without an
     * answer, where the upper knows better than the default of the lower. */
    OPT_ANSWER_TIMEOUT = -0x57450002,
    /* uint32_t, OPT_FEATURE_ bits. What the peer said (in the upper's own exchange) it understands
     * beyond its wire version. Until it is set, what needs such a feature is accepted and completes
     * with FI_EOPNOTSUPP (of calls without a completion: is returned), and nothing is sent. */
    OPT_PEER_FEATURES = -0x57450003,
    /* size_t, fi_getopt. Messages that have come and wait for their receive, where the part matches
     * by itself. */
    OPT_UNEXPECTED = -0x57450004,
    /* struct fi_cq_err_entry[], fi_getopt. What is known of each of them: flags, bytes, data, tag,
     * source. -FI_ETOOSMALL: *optlen bytes are needed just now. */
    OPT_UNEXPECTED_QUEUE = -0x57450005,
    /* size_t, fi_getopt. A message that is longer is had sooner when its receiver is told of it and
     * reads it than when it comes in pieces; as measured over the part. */
    OPT_FETCH_SIZE = -0x57450006,
    /* struct match_watch (core/match.h), which outlives the endpoint or shared receive context that
     * is enabled; fi_setopt. It is told of each match. Nothing matches where receives come from a
     * shared context; that has its own. */
    OPT_MATCH_WATCH = -0x57450007,
    /* uint32_t, before the connection. 1: a message with a tag to an endpoint without FI_TAGGED
     * takes a receive as any other does, and its completion says FI_TAGGED, and the tag. 0: it ends
     * the connection. */
    OPT_TAGS_PLAIN = -0x57450008,
};

/* fi_control of a completion queue between our own parts, through hooks too. Else -FI_ENOSYS. */
enum {
    /* struct cq_sources (core/cq.h): what the wait fd of a queue holds that is driven without a
     * lock, for who watches it itself. */
    CONTROL_SOURCES = -0x57450100,
};

enum {
    OPT_FEATURE_ATOMICS = 1,
};

#endif
