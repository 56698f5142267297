/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "loop.h"
#include "object.h"
#include "report.h"
#include "settings.h"

enum {
    KINDS = 16,
    SHOWN = 20,
};

static struct list objects = {&objects, &objects};

static struct {
    const char *kind;
    unsigned count;
} counts[KINDS];

static unsigned *count_of(const char *kind)
{
    for (int i = 0; i < KINDS; i++) {
        if (!counts[i].kind)
            counts[i].kind = kind;
        if (strcmp(counts[i].kind, kind) == 0)
            return &counts[i].count;
    }
    return &counts[KINDS - 1].count;
}

void object_add(struct object *object, const char *kind, uint32_t number)
{
    object->kind = kind;
    object->number = number;
    list_attach(&object->link, &objects);
    (*count_of(kind))++;
}

void object_remove(struct object *object)
{
    list_detach(&object->link);
    (*count_of(object->kind))--;
}

void object_forget_all(void)
{
    while (!list_empty(&objects))
        list_detach(objects.next);
}

unsigned object_count(const char *kind)
{
    return *count_of(kind);
}

__attribute__((destructor)) static void report_leaks(void)
{
    unsigned shown = 0, total = 0;

    if (!settings()->leaks)
        return;
    loop_lock();
    list_for_each (link, &objects) {
        struct object *object = list_item(link, struct object, link);
        total++;
        if (shown++ < SHOWN)
            report_say("leak: %s %#x was not destroyed", object->kind, object->number);
    }
    loop_unlock();
    if (total > SHOWN)
        report_say("leak: %u objects in all", total);
}
