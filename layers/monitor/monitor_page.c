/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/monitor/monitor_page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/fork.h"
#include "core/base/log.h"

_Thread_local struct monitor_thread *monitor_thread;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of pages' slots */
static struct list pages = {&pages, &pages};
static struct list all_threads = {&all_threads, &all_threads};
static uint64_t serials;
static unsigned char *numbers; /* 1: in use */
static size_t numbers_room;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

/* ---- Threads and processes ---- */

static void thread_ends(void *arg)
{
    struct monitor_thread *thread = arg;

    pthread_mutex_lock(&mutex);
    list_for_each (item, &pages) {
        struct monitor_page *page = list_item(item, struct monitor_page, link);

        for (struct monitor_slot *slot = page->slots; slot; slot = slot->next) {
            if (slot->owner != thread)
                continue;
            slot->owner = NULL;
            slot->block->thread = 0;
        }
    }
    list_detach(&thread->link);
    pthread_mutex_unlock(&mutex);
    monitor_thread = NULL;
    free(thread->places);
    free(thread);
}

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The file is the parent's: counts of the child are dropped. */
static void child_of_fork(void)
{
    list_for_each (item, &pages) {
        struct monitor_page *page = list_item(item, struct monitor_page, link);

        if (mmap(page->header, page->size, PROT_READ | PROT_WRITE,
                 MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
            _exit(127);
    }
    pthread_mutex_unlock(&mutex);
}

static void start(void)
{
    fork_watch();
    pthread_atfork(lock, unlock, child_of_fork);
    key_made = !pthread_key_create(&key, thread_ends);
}

/* A process that ends without closing leaves nothing behind. */
__attribute__((destructor)) static void unload(void)
{
    pthread_mutex_lock(&mutex);
    list_for_each (item, &pages) {
        struct monitor_page *page = list_item(item, struct monitor_page, link);

        __atomic_store_n(&page->header->state, WEFT_MONITOR_CLOSED, __ATOMIC_RELEASE);
        if (!page->lingers && page->generation == fork_generation)
            unlink(page->path);
    }
    pthread_mutex_unlock(&mutex);
    if (key_made)
        pthread_key_delete(key);
    key_made = false;
}

void monitor_page_start(struct monitor_page *page)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    page->generation = fork_generation;
    list_attach(&page->link, &pages);
    pthread_mutex_unlock(&mutex);
}

void monitor_page_stop(struct monitor_page *page)
{
    pthread_mutex_lock(&mutex);
    list_detach(&page->link);
    pthread_mutex_unlock(&mutex);
    while (page->slots) {
        struct monitor_slot *slot = page->slots;

        page->slots = slot->next;
        free(slot);
    }
}

/* ---- Blocks ---- */

static struct weft_monitor_block *block_at(const struct monitor_page *page, uint32_t index)
{
    return (struct weft_monitor_block *)(page->header + 1) + index;
}

/* Its memory is reserved first: a store into a page that the file system has no room for would be a
 * SIGBUS. */
static struct monitor_slot *slot_create(struct monitor_page *page, uint32_t count)
{
    const off_t size = sizeof(struct weft_monitor_block);
    struct monitor_slot *slot = NULL;
    int rc = count < WEFT_MONITOR_BLOCKS ? 0 : ENOSPC;

    /* The child of a fork has no file. */
    if (!rc && page->generation == fork_generation)
        rc = posix_fallocate(page->fd, (off_t)sizeof(*page->header) + count * size, size);
    if (!rc)
        slot = calloc(1, sizeof(*slot));
    if (!slot) {
        if (!page->full)
            log_user("monitor: not everything is counted in '%s': %s", page->path,
                     strerror(rc ? rc : ENOMEM));
        page->full = true;
        return NULL;
    }
    slot->block = block_at(page, count);
    op_timer_turns_start(&slot->turns);
    slot->next = page->slots;
    page->slots = slot;
    return slot;
}

static struct monitor_slot *slot_take(struct monitor_page *page, uint32_t object)
{
    uint32_t count = 0;

    for (struct monitor_slot *slot = page->slots; slot; slot = slot->next) {
        count++;
        if (slot->object == object && slot->owner == monitor_thread)
            return slot;
    }
    for (struct monitor_slot *slot = page->slots; slot; slot = slot->next)
        if (slot->object == object && !slot->owner)
            return slot;
    for (struct monitor_slot *slot = page->slots; slot; slot = slot->next)
        if (slot->empty)
            return slot;
    return slot_create(page, count);
}

static struct monitor_slot *slot_own(struct monitor_page *page, uint32_t object)
{
    struct monitor_slot *slot = slot_take(page, object);
    uint32_t used;

    /* One that is there already is better than none. */
    if (!slot && object)
        return slot_own(page, 0);
    if (!slot)
        return NULL;
    if (slot->owner != monitor_thread || slot->object != object)
        op_timer_turns_start(&slot->turns);
    slot->object = slot->block->object = object;
    slot->owner = monitor_thread;
    slot->empty = false;
    slot->block->thread = (uint32_t)gettid();
    used = (uint32_t)(slot->block - block_at(page, 0)) + 1;
    if (used > page->header->block_count)
        __atomic_store_n(&page->header->block_count, used, __ATOMIC_RELEASE);
    return slot;
}

static bool thread_grow(size_t number)
{
    size_t room = monitor_thread ? monitor_thread->room : 0;
    struct monitor_place *places;

    if (!monitor_thread) {
        monitor_thread = calloc(1, sizeof(*monitor_thread));
        if (!monitor_thread)
            return false;
        pthread_mutex_lock(&mutex);
        list_attach(&monitor_thread->link, &all_threads);
        pthread_mutex_unlock(&mutex);
        if (key_made)
            pthread_setspecific(key, monitor_thread);
    }
    if (number < room)
        return true;
    room = number < 8 ? 16 : number * 2;
    places = realloc(monitor_thread->places, room * sizeof(*places));
    if (!places)
        return false;
    memset(places + monitor_thread->room, 0, (room - monitor_thread->room) * sizeof(*places));
    monitor_thread->places = places;
    monitor_thread->room = room;
    return true;
}

struct monitor_slot *monitor_slot_find(const struct monitor_object *object)
{
    struct monitor_slot *slot;

    if (!thread_grow(object->number))
        return NULL;
    pthread_mutex_lock(&mutex);
    slot = slot_own(object->page, object->entry);
    pthread_mutex_unlock(&mutex);
    monitor_thread->places[object->number] = (struct monitor_place){object->serial, slot};
    return slot;
}

/* ---- Objects ---- */

/* The smallest number that no object has; -1 without memory. */
static int64_t number_take(void)
{
    size_t number = 0, room = numbers_room ? numbers_room * 2 : 64;
    unsigned char *grown;

    while (number < numbers_room && numbers[number])
        number++;
    if (number == numbers_room) {
        grown = realloc(numbers, room);
        if (!grown)
            return -1;
        memset(grown + numbers_room, 0, room - numbers_room);
        numbers = grown;
        numbers_room = room;
    }
    numbers[number] = 1;
    return (int64_t)number;
}

static uint32_t entry_take(struct monitor_page *page, const struct monitor_object *object,
                           uint32_t fclass, uint32_t parent, const char *name)
{
    struct weft_monitor_header *header = page->header;
    uint32_t entry = 1;

    while (entry <= WEFT_MONITOR_OBJECTS && header->objects[entry - 1].serial)
        entry++;
    if (entry > WEFT_MONITOR_OBJECTS)
        return 0;
    header->objects[entry - 1].fclass = fclass;
    header->objects[entry - 1].parent = parent;
    snprintf(header->objects[entry - 1].name, sizeof(header->objects[0].name), "%s",
             name ? name : "");
    __atomic_store_n(&header->objects[entry - 1].serial, object->serial, __ATOMIC_RELEASE);
    if (entry > header->object_count)
        __atomic_store_n(&header->object_count, entry, __ATOMIC_RELEASE);
    return entry;
}

struct monitor_object *monitor_object_open(struct monitor_page *page, uint32_t fclass,
                                           uint32_t parent, const char *name)
{
    struct monitor_object *object = calloc(1, sizeof(*object));
    int64_t number;

    if (!object)
        return NULL;
    pthread_mutex_lock(&mutex);
    number = number_take();
    if (number >= 0) {
        object->page = page;
        object->serial = ++serials;
        object->number = (uint32_t)number;
        object->entry = entry_take(page, object, fclass, parent, name);
    }
    pthread_mutex_unlock(&mutex);
    if (number < 0) {
        free(object);
        return NULL;
    }
    return object;
}

void monitor_object_name(const struct monitor_object *object, const char *name)
{
    if (object->entry)
        snprintf(object->page->header->objects[object->entry - 1].name,
                 sizeof(object->page->header->objects[0].name), "%s", name);
}

/* Behind the object and the thread a block is nothing but counts. */
static void block_move(struct weft_monitor_block *to, struct weft_monitor_block *from)
{
    const size_t head = offsetof(struct weft_monitor_block, counts);
    uint64_t *into = (uint64_t *)((char *)to + head), *out_of = (uint64_t *)((char *)from + head);

    for (size_t i = 0; i < (sizeof(*from) - head) / sizeof(*into); i++) {
        per_thread_add(into + i, out_of[i]);
        per_thread_add(out_of + i, -out_of[i]);
    }
}

static void slots_close(struct monitor_page *page, uint32_t entry)
{
    uint64_t *moving = &page->header->moving;

    __atomic_fetch_add(moving, 1, __ATOMIC_SEQ_CST);
    for (struct monitor_slot *slot = page->slots; slot; slot = slot->next) {
        if (slot->object != entry)
            continue;
        if (!page->closed) {
            page->closed = slot;
            slot->owner = page;
        } else {
            block_move(page->closed->block, slot->block);
            slot->owner = NULL;
            slot->empty = true;
        }
        slot->object = slot->block->object = 0;
        slot->block->thread = 0;
    }
    __atomic_fetch_add(moving, 1, __ATOMIC_SEQ_CST);
}

void monitor_object_close(struct monitor_object *object)
{
    if (!object)
        return;
    pthread_mutex_lock(&mutex);
    if (object->entry) {
        slots_close(object->page, object->entry);
        __atomic_store_n(&object->page->header->objects[object->entry - 1].serial, 0,
                         __ATOMIC_RELEASE);
    }
    numbers[object->number] = 0;
    pthread_mutex_unlock(&mutex);
    free(object);
}

/* ---- Times ---- */

void monitor_time_end(struct monitor_page *page, const void *context, uint64_t flags)
{
    struct weft_monitor_times *times;
    struct op_timed timed;

    if (!op_timer_end(&page->timer, context, flags, &timed) || timed.first)
        return;
    times = &page->header->times[timed.class];
    __atomic_fetch_add(&times->buckets[weft_monitor_bucket(timed.ns)], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&times->count, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&times->sum, timed.ns, __ATOMIC_RELAXED);
}
