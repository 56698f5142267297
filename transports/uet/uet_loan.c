/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer may ask for the data of a read again until it has said that it came, so PDS keeps packets
 * that name memory of a region. fi_close of the region has what is left of it copied (mr_watch.h).
 * One loan is for all packets of a region; it is kept for the next ones until another region is
 * read. An endpoint of a layer's has no lock that fi_close could take: it copies at once.
 */
#include <stdlib.h>
#include <string.h>

#include "core/domain/mr_watch.h"
#include "transports/uet/uet.h"

struct uet_loan {
    struct list link; /* the latest is the first */
    struct uet_ep *ep;
    struct mr *mr; /* held; NULL: it is a copy */
    struct mr_watch *watch;
    size_t uses;
    uint8_t bytes[]; /* of a copy */
};

static void drop(struct uet_loan *loan)
{
    list_detach(&loan->link);
    mr_watch_close(loan->watch);
    mr_release(loan->mr);
    free(loan);
}

/* fi_close of the region. */
static void closed(void *arg)
{
    struct uet_loan *loan = arg;

    if (progress_forked(loan->ep->base.binding.progress))
        return; /* nothing leaves any more */
    loan->uses++;
    ses_take_back(loan->ep->ses, loan);
    drop(loan);
}

static struct uet_loan *find(struct uet_ep *ep, const struct mr *mr)
{
    list_for_each (pos, &ep->loans) {
        struct uet_loan *loan = list_item(pos, struct uet_loan, link);

        if (loan->mr == mr)
            return loan;
    }
    return NULL;
}

/* It is the latest from now on; the one before is kept no longer than it is used. */
static void use(struct uet_ep *ep, struct uet_loan *loan)
{
    struct uet_loan *before = NULL;

    loan->uses++;
    if (ep->loans.next == &loan->link)
        return;
    if (!list_empty(&ep->loans))
        before = list_item(ep->loans.next, struct uet_loan, link);
    list_detach(&loan->link);
    list_attach_before(&loan->link, ep->loans.next);
    if (before && !before->uses)
        drop(before);
}

/* NULL: the region is closed, or there is no memory. */
static struct uet_loan *make(struct uet_ep *ep, struct mr *mr)
{
    struct uet_loan *loan = calloc(1, sizeof(*loan));

    if (!loan)
        return NULL;
    loan->watch = mr_watch_open(mr, ep->base.binding.progress, closed, loan);
    if (!loan->watch) {
        free(loan);
        return NULL;
    }
    loan->ep = ep;
    loan->mr = mr;
    list_init(&loan->link);
    return loan;
}

static enum ses_code copy(struct mr *mr, size_t len, struct ses_lent *lent)
{
    struct uet_loan *loan = malloc(sizeof(*loan) + len);
    size_t at = 0;

    if (loan) {
        *loan = (struct uet_loan){.uses = 1};
        for (size_t i = 0; i < lent->count; at += lent->iov[i++].iov_len)
            memcpy(loan->bytes + at, lent->iov[i].iov_base, lent->iov[i].iov_len);
        lent->iov[0] = (struct iovec){loan->bytes, len};
        lent->count = 1;
    }
    mr_release(mr);
    lent->held = loan;
    return loan ? RC_OK : RC_UNCOR_TRANSIENT;
}

enum ses_code uet_lend(struct uet_ep *ep, struct mr *mr, size_t len, struct ses_lent *lent)
{
    struct uet_loan *loan;

    if (!ep->hears_closes)
        return copy(mr, len, lent);
    loan = find(ep, mr);
    if (loan) {
        mr_release(mr); /* it has one */
    } else if (!(loan = make(ep, mr))) {
        enum ses_code code = mr_any_closed(&mr, 1) ? RC_BAD_MKEY : RC_UNCOR_TRANSIENT;

        mr_release(mr);
        return code;
    }
    use(ep, loan);
    lent->held = loan;
    return RC_OK;
}

void uet_loan_end(struct uet_loan *loan)
{
    if (loan && !loan->mr)
        free(loan);
    else if (loan && !--loan->uses && loan->ep->loans.next != &loan->link)
        drop(loan);
}

void uet_loans_finish(struct uet_ep *ep)
{
    list_for_each_safe (pos, after, &ep->loans)
        drop(list_item(pos, struct uet_loan, link));
}
