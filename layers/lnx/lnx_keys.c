/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <rdma/fi_errno.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/op/op_build.h"
#include "layers/lnx/lnx_ep.h"
#include "layers/lnx/lnx_stranger.h"

static const uint64_t key_mask = (UINT64_C(1) << LNX_KEY_BITS) - 1;

/* A peer's question for a key. */
struct question {
    struct list link; /* in keys->asked */
    struct lnx_ep *ep;
    unsigned branch;
    fi_addr_t addr; /* the branch's */
    uint64_t key;
};

/* Our question for a peer's key, and its answer. */
struct answer {
    struct list link; /* in its bucket */
    struct list age;  /* in by_age, the oldest first */
    unsigned branch;
    fi_addr_t addr;
    uint64_t key;                 /* the join's */
    enum lnx_key_message state;   /* LNX_KEY_ASKED: it has not come */
    uint64_t below;               /* LNX_KEY_TOLD: the branch's */
    long long first_ms, asked_ms; /* clock_coarse_ms */
    long long pause_ms;           /* before it is asked again */
};

static size_t bucket_of(uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 58;
}

static void init_buckets(struct list *buckets)
{
    for (size_t i = 0; i < LNX_KEY_BUCKETS; i++)
        list_init(&buckets[i]);
}

static ssize_t say(struct lnx_ep *ep, unsigned branch, fi_addr_t addr, enum lnx_key_message what,
                   uint64_t key, uint64_t data)
{
    struct cntr *cntr = ep->base.binding.cntr[BIND_SEND];
    const struct iovec nothing = {.iov_base = NULL};
    struct op op;
    ssize_t rc;

    op_start(&op, OP_TINJECTDATA, OP_GROUP_TSEND, FI_SEND | FI_TAGGED, addr, NULL);
    op_set_flags(&op, FI_INJECT);
    op_set_iov(&op, &nothing, NULL, 1);
    op_set_data(&op, data);
    op.tag = LNX_KEY_TAGS | (uint64_t)what << LNX_KEY_BITS | key;
    op.ignore = 0;
    if (cntr)
        lnx_cntr_of(cntr)->uncounted++;
    rc = op_post(&ep->branch[branch].target, &op);
    if (rc && cntr)
        lnx_cntr_of(cntr)->uncounted--;
    return rc;
}

/* ---- Regions ---- */

static struct lnx_key *find_region(const struct lnx_keys *keys, uint64_t key)
{
    list_for_each (item, &keys->regions[bucket_of(key)]) {
        struct lnx_key *region = list_item(item, struct lnx_key, link);

        if (region->key == key)
            return region;
    }
    return NULL;
}

int lnx_keys_draw(const struct lnx_keys *keys, size_t size, uint64_t *key)
{
    do {
        if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
            return -FI_EAGAIN;
        *key &= key_mask;
        if (size && size < sizeof(*key))
            *key &= (UINT64_C(1) << 8 * size) - 1;
    } while (find_region(keys, *key));
    return 0;
}

void lnx_keys_add(struct lnx_keys *keys, struct lnx_key *key)
{
    list_attach(&key->link, &keys->regions[bucket_of(key->key)]);
}

void lnx_keys_remove(struct lnx_key *key)
{
    if (!key->link.next)
        return;
    list_detach(&key->link);
    key->link.next = NULL;
}

/* ---- Questions of peers ---- */

static void drop(struct lnx_keys *keys, struct question *question)
{
    list_detach(&question->link);
    keys->asked_count--;
    free(question);
}

static ssize_t answer(const struct lnx_keys *keys, const struct question *question)
{
    const struct lnx_key *region = find_region(keys, question->key);
    uint64_t below = region ? lnx_mr_key_in(region, question->branch) : FI_KEY_NOTAVAIL;

    return say(question->ep, question->branch, question->addr,
               below == FI_KEY_NOTAVAIL ? LNX_KEY_UNKNOWN : LNX_KEY_TOLD, question->key,
               below == FI_KEY_NOTAVAIL ? 0 : below);
}

static void answer_all(struct progress_source *source)
{
    struct lnx_keys *keys = object_of(source, struct lnx_keys, source);

    list_for_each_safe (item, after, &keys->asked) {
        struct question *question = list_item(item, struct question, link);

        if (answer(keys, question) != -FI_EAGAIN)
            drop(keys, question);
    }
}

static int all_answered(struct progress_source *source)
{
    return list_empty(&object_of(source, struct lnx_keys, source)->asked) ? 0 : -FI_EAGAIN;
}

/* A peer whose address we do not have cannot be answered yet: it asks again. */
static void keep_question(struct lnx_ep *ep, unsigned branch,
                          const struct fi_peer_rx_entry *message)
{
    struct lnx_keys *keys = &ep->domain->keys;
    fi_addr_t addr = message->addr;
    struct question *question;

    if (addr == FI_ADDR_UNSPEC || addr == FI_ADDR_NOTAVAIL)
        addr = lnx_stranger_addr(ep->av, branch, (uint32_t)message->cq_data);
    if (addr == FI_ADDR_UNSPEC || keys->asked_count == LNX_KEYS_WAITING)
        return;
    question = malloc(sizeof(*question));
    if (!question)
        return;
    *question =
        (struct question){.ep = ep, .branch = branch, .addr = addr, .key = message->tag & key_mask};
    list_attach(&question->link, &keys->asked);
    keys->asked_count++;
}

void lnx_keys_leave(struct lnx_ep *ep)
{
    struct lnx_keys *keys = &ep->domain->keys;

    list_for_each_safe (item, after, &keys->asked) {
        struct question *question = list_item(item, struct question, link);

        if (question->ep == ep)
            drop(keys, question);
    }
}

int lnx_keys_init(struct lnx_keys *keys, struct progress *progress)
{
    int rc;

    init_buckets(keys->regions);
    list_init(&keys->asked);
    list_init(&keys->source.link);
    keys->source.poll = answer_all;
    keys->source.trywait = all_answered;
    keys->source.fd = PROGRESS_NO_FD;
    progress_lock(progress);
    rc = progress_attach(progress, &keys->source);
    progress_unlock(progress);
    return rc;
}

void lnx_keys_finish(struct lnx_keys *keys, struct progress *progress)
{
    progress_lock(progress);
    progress_detach(progress, &keys->source);
    progress_unlock(progress);
}

/* ---- Answers of peers ---- */

static void remove_answer(struct lnx_answers *answers, struct answer *answer)
{
    list_detach(&answer->link);
    list_detach(&answer->age);
    answers->count--;
    free(answer);
}

static struct answer *find_answer(const struct lnx_answers *answers, unsigned branch,
                                  fi_addr_t addr, uint64_t key)
{
    list_for_each (item, &answers->known[bucket_of(key)]) {
        struct answer *answer = list_item(item, struct answer, link);

        if (answer->key == key && answer->addr == addr && answer->branch == branch)
            return answer;
    }
    return NULL;
}

void lnx_answers_init(struct lnx_answers *answers)
{
    init_buckets(answers->known);
    list_init(&answers->by_age);
    answers->count = 0;
}

void lnx_answers_finish(struct lnx_answers *answers)
{
    list_for_each_safe (item, after, &answers->by_age)
        remove_answer(answers, list_item(item, struct answer, age));
}

void lnx_answers_forget(struct lnx_answers *answers, unsigned branch, fi_addr_t addr)
{
    list_for_each_safe (item, after, &answers->by_age) {
        struct answer *answer = list_item(item, struct answer, age);

        if (answer->branch == branch && answer->addr == addr)
            remove_answer(answers, answer);
    }
}

/* For peers that have not our address: drawn with the first question. */
static uint32_t name_of_endpoint(struct lnx_ep *ep)
{
    while (!ep->name) {
        if (getrandom(&ep->name, sizeof(ep->name), 0) != sizeof(ep->name))
            ep->name = (uint32_t)clock_ns();
        ep->name &= (1U << LNX_STRANGER_BITS) - 1;
    }
    return ep->name;
}

static ssize_t ask(struct lnx_ep *ep, struct answer *answer)
{
    ssize_t rc =
        say(ep, answer->branch, answer->addr, LNX_KEY_ASKED, answer->key, name_of_endpoint(ep));

    if (!rc)
        answer->asked_ms = clock_coarse_ms();
    return rc;
}

/* Of ours in that branch. */
static ssize_t say_address(struct lnx_ep *ep, const struct answer *answer)
{
    _Alignas(8) unsigned char addr[LNX_BRANCH_ADDR_MAX] = {0};
    size_t len = sizeof(addr);
    ssize_t rc = fi_getname(&ep->branch[answer->branch].ep->fid, addr, &len);

    for (size_t at = 0; !rc && at < len + 4; at += 4) {
        uint32_t bytes = (uint32_t)len;

        for (unsigned i = 0; at && i < 4; i++)
            bytes = i ? bytes | (uint32_t)addr[at - 4 + i] << 8 * i : addr[at - 4];
        rc = say(ep, answer->branch, answer->addr, LNX_KEY_ADDRESS,
                 lnx_stranger_message(name_of_endpoint(ep), (unsigned)(at / 4), bytes), 0);
    }
    return rc;
}

static ssize_t ask_first(struct lnx_ep *ep, unsigned branch, fi_addr_t addr, uint64_t key)
{
    struct lnx_answers *answers = &ep->av->answers;
    struct answer *answer = calloc(1, sizeof(*answer));
    ssize_t rc;

    if (!answer)
        return -FI_ENOMEM;
    answer->branch = branch;
    answer->addr = addr;
    answer->key = key;
    answer->state = LNX_KEY_ASKED;
    answer->first_ms = clock_coarse_ms();
    answer->pause_ms = LNX_KEY_AGAIN_MS;
    rc = ask(ep, answer);
    if (rc) {
        free(answer);
        return rc;
    }
    if (answers->count == LNX_KEYS_KNOWN)
        remove_answer(answers, list_item(answers->by_age.next, struct answer, age));
    list_attach(&answer->link, &answers->known[bucket_of(key)]);
    list_attach(&answer->age, &answers->by_age);
    answers->count++;
    return -FI_EAGAIN;
}

static ssize_t ask_again(struct lnx_ep *ep, struct answer *answer)
{
    long long now = clock_coarse_ms();
    ssize_t rc = 0;

    if (now - answer->first_ms > LNX_KEY_PATIENCE_MS) {
        LOG_WARN("lnx", FI_LOG_MR,
                 "a peer has not told the key of its region for %d s: its application makes no "
                 "progress",
                 LNX_KEY_PATIENCE_MS / 1000);
        remove_answer(&ep->av->answers, answer);
        return -FI_ETIMEDOUT;
    }
    if (now - answer->asked_ms <= answer->pause_ms)
        return -FI_EAGAIN;
    rc = say_address(ep, answer);
    if (!rc)
        rc = ask(ep, answer);
    if (!rc && answer->pause_ms < LNX_KEY_AGAIN_MOST_MS)
        answer->pause_ms *= 2;
    return rc ? rc : -FI_EAGAIN;
}

static void take_answer(struct lnx_ep *ep, unsigned branch, const struct fi_peer_rx_entry *message,
                        enum lnx_key_message what)
{
    struct answer *answer =
        find_answer(&ep->av->answers, branch, message->addr, message->tag & key_mask);

    if (!answer || answer->state != LNX_KEY_ASKED)
        return;
    answer->state = what;
    answer->below = message->cq_data;
}

/* The branch's key. One that no region has stays as it is: the branch refuses it in time. */
static ssize_t exchange(struct lnx_ep *ep, const struct lnx_path *path, uint64_t *key)
{
    struct answer *answer;

    if (*key & ~key_mask)
        return 0;
    answer = find_answer(&ep->av->answers, path->branch, path->addr, *key);
    if (!answer)
        return ask_first(ep, path->branch, path->addr, *key);
    if (answer->state == LNX_KEY_ASKED)
        return ask_again(ep, answer);
    if (answer->state == LNX_KEY_TOLD)
        *key = answer->below;
    else
        remove_answer(&ep->av->answers, answer);
    return 0;
}

ssize_t lnx_keys_translate(struct lnx_ep *ep, const struct lnx_path *path, struct op *op,
                           struct lnx_remote *room)
{
    bool atomic = op->group == OP_GROUP_ATOMIC;
    ssize_t rc = 0;

    if (op->rma_count > sizeof(room->rma) / sizeof(room->rma[0]))
        return -FI_EINVAL;
    for (size_t i = 0; i < op->rma_count; i++) {
        ssize_t each;

        if (atomic)
            room->ioc[i] = op->rma_ioc[i];
        else
            room->rma[i] = op->rma[i];
        each = exchange(ep, path, atomic ? &room->ioc[i].key : &room->rma[i].key);
        rc = rc ? rc : each;
    }
    if (!rc && atomic)
        op->rma_ioc = room->ioc;
    else if (!rc)
        op->rma = room->rma;
    return rc;
}

void lnx_keys_message(struct lnx_ep *ep, unsigned branch, const struct fi_peer_rx_entry *message)
{
    enum lnx_key_message what = (message->tag & ~LNX_KEY_TAGS) >> LNX_KEY_BITS;

    switch (what) {
    case LNX_KEY_ASKED: keep_question(ep, branch, message); break;
    case LNX_KEY_TOLD:
    case LNX_KEY_UNKNOWN: take_answer(ep, branch, message, what); break;
    case LNX_KEY_ADDRESS: lnx_stranger_message_came(ep->av, branch, message->tag & key_mask); break;
    default: break; /* of a later version */
    }
}
