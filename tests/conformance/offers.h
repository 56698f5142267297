/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of what each stack must offer: the file `offers`, whose head tells its form. */
#ifndef WEFT_CONF_OFFERS_H
#define WEFT_CONF_OFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include <rdma/fi_endpoint.h>

enum {
    OFFERS_WORDS = 64
};

/* Kinds of endpoints: each has blocks of its own. */
enum offers_kind {
    OFFERS_RDM,
    OFFERS_MSG,
    OFFERS_DGRAM,
    OFFERS_PACKETS, /* FI_EP_RDM with messages of one packet, in any order, and nothing else */
    OFFERS_KINDS
};

struct offers {
    enum offers_kind kind;
    enum fi_ep_type type;
    const char *groups[OFFERS_WORDS]; /* of cases, NULL-terminated; of OFFERS_RDM all are run */
    bool known; /* false: the file has no block for this stack, and nothing may be said of it */
    uint64_t caps, msg_order, comp_order, mode, mr_mode, mr_asked, op_flags, tag_format;
    uint64_t max_msg_size, max_order_raw_size, max_order_waw_size, inject_size;
    uint64_t iov_limit, rma_iov_limit, mr_iov_limit, cq_data_size, mr_key_size, tx_size, rx_size;
    uint64_t threading, progress, av, wait; /* bit N: value N of the enum */
    uint64_t address, protocol;
    const char *has[OFFERS_WORDS]; /* NULL-terminated */
    struct {
        const char *word, *reason;
    } lacks[OFFERS_WORDS]; /* the last has no word */
};

/* Reads the file for one stack and kind. Exits with the mistake and its place: the file is this
 * repository's own. The table lives as long as the process. */
const struct offers *offers_read(const char *path, const char *stack, enum offers_kind kind);

/* The reason why `word` is lacking; NULL when it is granted, and a word that the table does not
 * know is an error that ends the process. */
const char *offers_lacks(const struct offers *offers, const char *word);
/* The same for a word that is granted unless the table has a reason. */
const char *offers_may_lack(const struct offers *offers, const char *word);

/* The bit of a name such as "RMA_EVENT" of the line `caps`; 0: not a capability. */
uint64_t offers_cap(const char *name);

#endif
