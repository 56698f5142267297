/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/base/per_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/fork.h"

_Thread_local struct per_thread_last per_thread_last;
static _Thread_local uint64_t own_thread; /* 0: not named yet */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of lists of blocks */
static struct list all = {&all, &all};
static uint64_t numbers, threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

void per_thread_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void per_thread_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void leave(struct per_thread *per_thread, struct block *block)
{
    if (per_thread->left)
        per_thread->left(block);
    block->thread = 0;
}

static void thread_ends(void *unused)
{
    pthread_mutex_lock(&mutex);
    list_for_each (item, &all) {
        struct per_thread *per_thread = list_item(item, struct per_thread, link);

        for (struct block *block = per_thread->first; block; block = block->next)
            if (block->thread == own_thread)
                leave(per_thread, block);
    }
    pthread_mutex_unlock(&mutex);
    per_thread_last = (struct per_thread_last){0, NULL};
    own_thread = 0;
}

static void start(void)
{
    fork_watch();
    pthread_atfork(per_thread_lock, per_thread_unlock, per_thread_unlock);
    key_made = !pthread_key_create(&key, thread_ends);
}

__attribute__((destructor)) static void unload(void)
{
    if (key_made)
        pthread_key_delete(key);
}

void per_thread_init(struct per_thread *per_thread, size_t size,
                     void (*taken)(struct per_thread *per_thread, struct block *block),
                     void (*left)(struct block *block))
{
    pthread_once(&once, start);
    per_thread->size = size;
    per_thread->taken = taken;
    per_thread->left = left;
    per_thread->first = NULL;
    pthread_mutex_lock(&mutex);
    per_thread->number = ++numbers;
    per_thread->generation = fork_generation;
    list_attach(&per_thread->link, &all);
    pthread_mutex_unlock(&mutex);
}

void per_thread_finish(struct per_thread *per_thread)
{
    if (!per_thread->number)
        return;
    pthread_mutex_lock(&mutex);
    list_detach(&per_thread->link);
    pthread_mutex_unlock(&mutex);
    while (per_thread->first) {
        struct block *block = per_thread->first;

        per_thread->first = block->next;
        if (block->thread)
            leave(per_thread, block);
        free(block);
    }
}

static struct block *take(struct per_thread *per_thread)
{
    struct block *block;

    for (block = per_thread->first; block; block = block->next)
        if (block->thread == own_thread)
            return block;
    for (block = per_thread->first; block && block->thread; block = block->next)
        ;
    if (!block) {
        block = calloc(1, per_thread->size);
        if (!block)
            return NULL;
        block->next = per_thread->first;
        per_thread->first = block;
    }
    block->thread = own_thread;
    if (per_thread->taken)
        per_thread->taken(per_thread, block);
    return block;
}

struct block *per_thread_find(struct per_thread *per_thread)
{
    struct block *block;

    pthread_mutex_lock(&mutex);
    if (!own_thread)
        own_thread = ++threads;
    block = take(per_thread);
    pthread_mutex_unlock(&mutex);
    if (!block)
        return NULL;
    if (key_made)
        pthread_setspecific(key, &all);
    per_thread_last = (struct per_thread_last){per_thread->number, block};
    return block;
}
