/* SPDX-License-Identifier: BSD-2-Clause */
#include "core/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/fork.h"

_Thread_local struct block_last block_last;
static _Thread_local uint64_t own_thread; /* 0: not named yet */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of lists of blocks */
static struct list all = {&all, &all};
static uint64_t numbers, threads;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

void blocks_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void blocks_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void leave(struct blocks *blocks, struct block *block)
{
    if (blocks->left)
        blocks->left(block);
    block->thread = 0;
}

static void thread_ends(void *unused)
{
    pthread_mutex_lock(&mutex);
    list_for_each (item, &all) {
        struct blocks *blocks = list_item(item, struct blocks, link);

        for (struct block *block = blocks->first; block; block = block->next)
            if (block->thread == own_thread)
                leave(blocks, block);
    }
    pthread_mutex_unlock(&mutex);
    block_last = (struct block_last){0, NULL};
    own_thread = 0;
}

static void start(void)
{
    fork_watch();
    pthread_atfork(blocks_lock, blocks_unlock, blocks_unlock);
    key_made = !pthread_key_create(&key, thread_ends);
}

__attribute__((destructor)) static void unload(void)
{
    if (key_made)
        pthread_key_delete(key);
}

void blocks_init(struct blocks *blocks, size_t size,
                 void (*taken)(struct blocks *blocks, struct block *block),
                 void (*left)(struct block *block))
{
    pthread_once(&once, start);
    blocks->size = size;
    blocks->taken = taken;
    blocks->left = left;
    blocks->first = NULL;
    pthread_mutex_lock(&mutex);
    blocks->number = ++numbers;
    blocks->generation = fork_generation;
    list_attach(&blocks->link, &all);
    pthread_mutex_unlock(&mutex);
}

void blocks_finish(struct blocks *blocks)
{
    if (!blocks->number)
        return;
    pthread_mutex_lock(&mutex);
    list_detach(&blocks->link);
    pthread_mutex_unlock(&mutex);
    while (blocks->first) {
        struct block *block = blocks->first;

        blocks->first = block->next;
        if (block->thread)
            leave(blocks, block);
        free(block);
    }
}

static struct block *take(struct blocks *blocks)
{
    struct block *block;

    for (block = blocks->first; block; block = block->next)
        if (block->thread == own_thread)
            return block;
    for (block = blocks->first; block && block->thread; block = block->next)
        ;
    if (!block) {
        block = calloc(1, blocks->size);
        if (!block)
            return NULL;
        block->next = blocks->first;
        blocks->first = block;
    }
    block->thread = own_thread;
    if (blocks->taken)
        blocks->taken(blocks, block);
    return block;
}

struct block *block_find(struct blocks *blocks)
{
    struct block *block;

    pthread_mutex_lock(&mutex);
    if (!own_thread)
        own_thread = ++threads;
    block = take(blocks);
    pthread_mutex_unlock(&mutex);
    if (!block)
        return NULL;
    if (key_made)
        pthread_setspecific(key, &all);
    block_last = (struct block_last){blocks->number, block};
    return block;
}
