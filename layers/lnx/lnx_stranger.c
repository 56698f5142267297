/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/lnx/lnx_stranger.h"

#include <stdlib.h>
#include <string.h>

#include "layers/lnx/lnx_av.h"

struct stranger {
    struct list link; /* in av->strangers, the oldest first */
    unsigned branch;
    uint32_t name;
    size_t len, have; /* bytes of the address: all, and those that have come */
    fi_addr_t addr;   /* FI_ADDR_UNSPEC: not all of them have */
    _Alignas(8) unsigned char bytes[LNX_BRANCH_ADDR_MAX]; /* behind them zeros */
};

static struct stranger *find(const struct lnx_av *av, unsigned branch, uint32_t name)
{
    list_for_each (item, &av->strangers) {
        struct stranger *stranger = list_item(item, struct stranger, link);

        if (stranger->branch == branch && stranger->name == name)
            return stranger;
    }
    return NULL;
}

static void drop(struct lnx_av *av, struct stranger *stranger)
{
    if (stranger->addr != FI_ADDR_UNSPEC) {
        lnx_answers_forget(&av->answers, stranger->branch, stranger->addr);
        fi_av_remove(av->branch[stranger->branch].av, &stranger->addr, 1, 0);
    }
    list_detach(&stranger->link);
    av->stranger_count--;
    free(stranger);
}

static void begin(struct lnx_av *av, unsigned branch, uint32_t name, size_t len)
{
    struct stranger *stranger = find(av, branch, name);

    if (!len || len >= sizeof(stranger->bytes)) /* a text needs its end */
        return;
    if (!stranger) {
        if (av->stranger_count == LNX_STRANGERS)
            drop(av, list_item(av->strangers.next, struct stranger, link));
        stranger = calloc(1, sizeof(*stranger));
        if (!stranger)
            return;
        stranger->addr = FI_ADDR_UNSPEC;
        list_attach(&stranger->link, &av->strangers);
        av->stranger_count++;
    } else if (stranger->addr != FI_ADDR_UNSPEC) {
        return; /* it says so again */
    }
    stranger->branch = branch;
    stranger->name = name;
    stranger->len = len;
    stranger->have = 0;
    memset(stranger->bytes, 0, sizeof(stranger->bytes));
}

static void insert(struct lnx_av *av, struct stranger *stranger)
{
    fi_addr_t addr;

    if (lnx_av_insert_below(av, stranger->branch, stranger->bytes, FI_ADDR_NOTAVAIL, &addr))
        drop(av, stranger);
    else
        stranger->addr = addr;
}

void lnx_stranger_message_came(struct lnx_av *av, unsigned branch, uint64_t message)
{
    uint32_t name = message >> 32 & ((1U << LNX_STRANGER_BITS) - 1), bytes = (uint32_t)message;
    size_t number = message >> 49 & 0x7f;
    struct stranger *stranger;

    if (!number) {
        begin(av, branch, name, bytes);
        return;
    }
    stranger = find(av, branch, name);
    if (!stranger || stranger->addr != FI_ADDR_UNSPEC || stranger->have != 4 * (number - 1))
        return;
    for (unsigned i = 0; i < 4 && stranger->have < stranger->len; i++)
        stranger->bytes[stranger->have++] = (unsigned char)(bytes >> 8 * i);
    if (stranger->have == stranger->len)
        insert(av, stranger);
}

fi_addr_t lnx_stranger_addr(const struct lnx_av *av, unsigned branch, uint32_t name)
{
    const struct stranger *stranger = find(av, branch, name);

    return stranger ? stranger->addr : FI_ADDR_UNSPEC;
}

void lnx_stranger_forget(struct lnx_av *av, unsigned branch, const void *addr)
{
    list_for_each_safe (item, after, &av->strangers) {
        struct stranger *stranger = list_item(item, struct stranger, link);

        if (stranger->branch == branch && !memcmp(stranger->bytes, addr, stranger->len))
            drop(av, stranger);
    }
}

void lnx_strangers_finish(struct lnx_av *av)
{
    list_for_each_safe (item, after, &av->strangers)
        drop(av, list_item(item, struct stranger, link));
}
