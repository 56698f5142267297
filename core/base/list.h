/* SPDX-License-Identifier: BSD-2-Clause */
/* A circular doubly linked list, embedded in its elements. */
#ifndef WEFT_CORE_BASE_LIST_H
#define WEFT_CORE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *prev;
};

static inline void list_init(struct list *list)
{
    list->next = list;
    list->prev = list;
}

static inline bool list_empty(const struct list *list)
{
    return list->next == list;
}

static inline void list_attach_before(struct list *item, struct list *position)
{
    item->next = position;
    item->prev = position->prev;
    position->prev->next = item;
    position->prev = item;
}

/* Adds item as the last of list. */
static inline void list_attach(struct list *item, struct list *list)
{
    list_attach_before(item, list);
}

/* Takes item out and leaves it empty, so that a second detach does nothing. */
static inline void list_detach(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* Moves all items of `from` to the end of `to`. */
static inline void list_join(struct list *from, struct list *to)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define list_item(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_for_each(pos, head)                                                                   \
    for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* The loop body may detach pos. */
#define list_for_each_safe(pos, after, head)                                                       \
    for (struct list *pos = (head)->next, *after = pos->next; pos != (head);                       \
         pos = after, after = pos->next)

#endif
