/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite: public API only, any libfabric.so.1, any stack. A case opens what it
 * needs, posts, and drives both ends itself, so that manual progress in one thread is enough.
 *
 *   conformance [--results DIR] [--processes | --long] [--any] SPEC [CASE]...
 *       SPEC        FI_PROVIDER text; all cases, or those whose name holds a CASE
 *       --results   writes a line for each case into a file of DIR, for tests/conformance/document
 *       --processes the cases between processes, instead of the others
 *       --long      the cases that take seconds or gigabytes, instead of the others
 *       --fail, --sweep   cases while calls of the library fail: faults.h
 *       --any       a stack that the table of offers does not know: each case is tried
 *
 * A stack runs the groups of each endpoint type that it has a table for. CONF_ADDRESS in the
 * environment is where the endpoints are, instead of 127.0.0.1.
 */
#ifndef WEFT_CONF_H
#define WEFT_CONF_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "ledger.h"
#include "offers.h"

enum {
    CONF_SEEN_MAX = 4096,
    CONF_TIMEOUT_MS = 60000,
    CONF_CASE_SECONDS = 300, /* of each process of a case */
    CONF_TRIES = 20          /* of what another thread may be too late, or too early, for */
};

/* A completion as read, and whether it was an error. */
struct conf_seen {
    void *context;
    uint64_t flags, len, data, tag;
    void *buf;
    fi_addr_t src;
    int err; /* 0, or the FI_E code of an error entry */
    size_t olen;
    char err_data[256];
    size_t err_len;
};

struct conf_ep;

/* Choices of a case before it opens; zero is the usual. */
struct conf_want {
    uint64_t caps;               /* 0: FI_MSG | FI_TAGGED | FI_RMA; FI_MSG of datagrams */
    enum fi_threading threading; /* 0: FI_THREAD_DOMAIN */
    enum fi_progress progress;   /* 0: manual */
    enum fi_wait_obj wait;       /* of the CQs; 0: none */
    enum fi_wait_obj set;        /* not 0: of a wait set for each end, with its CQs and counters */
    uint64_t cq_flags;           /* FI_SELECTIVE_COMPLETION */
    uint64_t op_flags;           /* default of the transmit side */
    uint64_t msg_order;          /* 0: FI_ORDER_SAS */
    uint64_t comp_order;
    int mr_mode;
    const char *node; /* source address; NULL: 127.0.0.1 */
    const char *service;
    size_t tx_size, rx_size; /* queue sizes asked; 0: the offer's */
    enum fi_av_type av_type; /* 0: FI_AV_TABLE */
    uint64_t av_flags;       /* FI_AV_USER_ID, FI_READ */
    const char *av_name;     /* both ends' */
    uint32_t version;        /* 0: 1.15 */
    size_t cq_size;          /* 0: 1024 */
    enum fi_wait_obj cntr_wait;
    void (*prepare)(struct conf_ep *end); /* before it is enabled: options, more counters */
    bool no_cntrs;                        /* none is bound but by prepare */
    size_t tx_ctx_cnt, rx_ctx_cnt;        /* contexts asked, or FI_SHARED_CONTEXT */
};

struct conf_fabric {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

/* One endpoint with its queues. */
struct conf_ep {
    struct conf_fabric *home;
    struct fid_ep *ep;
    struct fid_wait *set;
    struct fid_cq *tx, *rx; /* the context of each, and of the counters, is its place here */
    struct fid_cntr *sent, *received;
    struct fid_av *av;
    fi_addr_t peer;
    struct conf_seen seen[CONF_SEEN_MAX];
    size_t seen_count;
};

/* Two endpoints of one process that know each other. */
struct conf_pair {
    struct conf_want want;
    struct conf_fabric home;
    struct conf_ep a, b;
};

extern const char *conf_spec;
/* The address of the endpoints; NULL for stacks of one node. */
const char *conf_host(void);
extern const struct offers *conf_offers;

/* 0, or the negative error of fi_getinfo. */
int conf_getinfo(const struct conf_want *want, struct fi_info **info);
void conf_fabric_open(struct conf_fabric *home, const struct conf_want *want);
void conf_fabric_close(struct conf_fabric *home);
void conf_ep_open(struct conf_ep *end, struct conf_fabric *home, const struct conf_want *want);
void conf_ep_close(struct conf_ep *end);
void conf_introduce(struct conf_ep *end, struct conf_ep *to);
struct conf_pair *conf_pair_open(struct conf_want want);
void conf_pair_close(struct conf_pair *pair);

/* Memory of b that a may reach, and how a names a place in it. */
struct conf_region {
    char *memory; /* zeroed */
    struct fid_mr *mr;
    uint64_t base, key;
};
void conf_region_open(struct conf_pair *pair, struct conf_region *region, size_t size,
                      uint64_t access);
void conf_region_close(struct conf_region *region);

/* Inserts the address of `end` into the AV of `to`; returns the fi_addr_t. */
fi_addr_t conf_insert(struct conf_ep *to, struct conf_ep *end, uint64_t flags, fi_addr_t user_id);

/* Reads whatever the queues of one end, or both, have into `seen`. */
void conf_drive(struct conf_ep *end);
void conf_drive_pair(struct conf_pair *pair);

/* Waits, driving both ends, until `end` has seen a completion with context; takes it out. The case
 * fails when none comes in time. */
struct conf_seen conf_wait(struct conf_pair *pair, struct conf_ep *end, void *context);
/* True when end has seen it, without waiting or taking. */
bool conf_has(const struct conf_ep *end, const void *context);
/* Drives for some milliseconds, then asserts that nothing is left in either end's list. */
void conf_quiet(struct conf_pair *pair, int ms);
/* Until memory that a peer writes holds those bytes; completions that come meanwhile are kept. */
void conf_await_data(struct conf_pair *pair, const void *memory, size_t len, unsigned seed);

/* Another thread, which after a while sends the byte `out` from a to b with tag 1, and reads a's
 * completion; `late` lives until the join. */
struct conf_late {
    struct conf_pair *pair;
    char out;
    pthread_t thread;
};
void conf_send_late(struct conf_late *late, struct conf_pair *pair, char out);
void conf_late_join(struct conf_late *late);
/* End b of the pair, which nothing is sent to, is read until fi_trywait lets its application sleep:
 * a waiter may look for a while before, which takes the longer the more others want its core. */
void conf_fall_asleep(const struct conf_pair *pair, struct fid *fid);

/* How many receives may wait at one end, up to `wanted`. */
size_t conf_receives(const struct conf_pair *pair, size_t wanted);

/* The network puts accesses of a peer in an order with those of the case to the same memory, which
 * ThreadSanitizer does not see: for it both ends' locks are taken. Without it nothing happens. */
void conf_order(const struct conf_pair *pair);

/* Posts `expr` (an fi_* call) again while it says -FI_EAGAIN, driving both ends. */
#define conf_post(pair, expr)                                                                      \
    do {                                                                                           \
        ssize_t conf_rc_;                                                                          \
        long conf_tries_ = 0;                                                                      \
        conf_order(pair);                                                                          \
        while ((conf_rc_ = (expr)) == -FI_EAGAIN && conf_tries_++ < 50000000)                      \
            conf_drive_pair(pair);                                                                 \
        conf_check(conf_rc_ == 0, "%s: %s", #expr, fi_strerror((int)-conf_rc_));                   \
    } while (0)

/* The message comes after what the stack itself has to say; the case ends. */
#define conf_check(ok, ...)                                                                        \
    do {                                                                                           \
        if (!(ok))                                                                                 \
            conf_fail(__FILE__, __LINE__, __VA_ARGS__);                                            \
    } while (0)
_Noreturn void conf_fail(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* rc: what the call returned. */
static inline void must(const char *call, ssize_t rc)
{
    conf_check(rc >= 0, "%s: %s", call, fi_strerror((int)-rc));
}

/* A requirement of the case: a capability without FI_ ("ATOMIC"), a completion level, or a word of
 * `has` and `lacks`. Ends the case as not offered, if the table of offers says that the stack lacks
 * it; where the table grants it, the case goes on, and fails if it is not there. */
void conf_need(const char *word);
/* The same for a word that almost all stacks have: those that do not say that they lack it. */
void conf_may_lack(const char *word);
/* Does the table say `has strict_completions`: order is kept whether or not a case asks for it? */
bool conf_strict(void);
/* Ends the case as skipped, with the reason: the machine has not what it takes. Only of the cases
 * that docs/conformance.md leaves out. */
_Noreturn void conf_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void conf_fill(void *buffer, size_t len, unsigned seed);
bool conf_holds(const void *buffer, size_t len, unsigned seed);
long long conf_now_ms(void);

struct conf_case {
    const char *name;
    void (*run)(void);
};

/* Each file of cases ends with one of these, NULL-terminated. */
#define GROUP(name) extern const struct conf_case conf_##name##_cases[];
#include "groups.inc"
GROUP(proc)      /* --processes */
GROUP(long)      /* --long */
GROUP(connected) /* of FI_EP_MSG */
GROUP(dgram)     /* of FI_EP_DGRAM and reliable packets */
GROUP(packets)   /* of reliable packets */
#undef GROUP

#endif
