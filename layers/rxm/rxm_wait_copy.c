/* SPDX-License-Identifier: BSD-2-Clause */
#include "layers/rxm/rxm_wait_copy.h"

#include <stdlib.h>
#include <string.h>

#include "core/atomic.h"
#include "core/iov.h"

enum {
    ALIGN = _Alignof(max_align_t)
};

/* Something of a post that is copied behind it; at: the pointer that leads to the copy. */
struct piece {
    void *at;
    const void *from;
    size_t size;
};

static size_t rounded(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* pieces lead from the scratch to what it will be a copy of. NULL without memory. */
static struct rxm_wait *copy(const struct rxm_wait *scratch, const struct piece *pieces,
                             size_t count, size_t extra)
{
    size_t size = rounded(sizeof(*scratch)) + rounded(extra);
    struct rxm_wait *wait;
    char *pos;

    for (size_t i = 0; i < count; i++)
        size += rounded(pieces[i].size);
    wait = malloc(size);
    if (!wait)
        return NULL;
    *wait = *scratch;
    pos = (char *)wait + rounded(sizeof(*wait));
    for (size_t i = 0; i < count; i++) {
        char *field = (char *)wait + ((const char *)pieces[i].at - (const char *)scratch);

        if (!pieces[i].from)
            continue;
        memcpy(pos, pieces[i].from, pieces[i].size);
        memcpy(field, &pos, sizeof(pos));
        pos += rounded(pieces[i].size);
    }
    return wait;
}

/* The last `extra` bytes of what copy made. */
static char *extra_of(struct rxm_wait *wait, const struct piece *pieces, size_t count)
{
    char *pos = (char *)wait + rounded(sizeof(*wait));

    for (size_t i = 0; i < count; i++)
        pos += pieces[i].from ? rounded(pieces[i].size) : 0;
    return pos;
}

/* len: of the payload. With FI_INJECT it becomes one segment, in our memory. */
struct rxm_wait *rxm_wait_copy_post(const struct post *post, size_t len)
{
    struct rxm_wait scratch = {.is_atomic = false, .post = *post}, *wait;
    bool inject = post->flags & FI_INJECT && post->count;
    const struct piece pieces[] = {
        {&scratch.post.iov, post->iov, post->count * sizeof(*post->iov)},
        {&scratch.post.desc, post->desc, post->count * sizeof(*post->desc)},
        {&scratch.post.rma, post->rma, post->rma_count * sizeof(*post->rma)},
    };
    size_t count = sizeof(pieces) / sizeof(pieces[0]);
    struct iovec *iov, one;

    wait = copy(&scratch, pieces, count, inject ? len : 0);
    if (!wait || !inject)
        return wait;
    one = (struct iovec){.iov_base = extra_of(wait, pieces, count), .iov_len = len};
    iov_copy(&one, 1, post->iov, post->count);
    iov = (struct iovec *)(uintptr_t)wait->post.iov;
    *iov = one;
    wait->post.count = 1;
    wait->post.desc = NULL;
    return wait;
}

/* Operands become one segment at `to`; returns what follows them. */
static char *take_operands(const struct fi_ioc **iov, void ***desc, size_t *count, size_t size,
                           char *to)
{
    struct fi_ioc *first = (struct fi_ioc *)(uintptr_t)*iov;
    char *start = to;

    if (!*count)
        return to;
    for (size_t i = 0; i < *count; i++) {
        if (first[i].count)
            memcpy(to, first[i].addr, first[i].count * size);
        to += first[i].count * size;
    }
    *first = (struct fi_ioc){.addr = start, .count = (size_t)(to - start) / size};
    *desc = NULL;
    *count = 1;
    return to;
}

/* elements: of the operation. */
struct rxm_wait *rxm_wait_copy_atomic(const struct post_atomic *post, size_t elements)
{
    struct rxm_wait scratch = {.is_atomic = true, .atomic = *post}, *wait;
    struct post_atomic *mine = &scratch.atomic;
    size_t size = atomic_size(post->datatype);
    const struct piece pieces[] = {
        {&mine->iov, post->iov, post->count * sizeof(*post->iov)},
        {&mine->desc, post->desc, post->count * sizeof(*post->desc)},
        {&mine->compare, post->compare, post->compare_count * sizeof(*post->compare)},
        {&mine->compare_desc, post->compare_desc, post->compare_count * sizeof(*post->desc)},
        {&mine->result, post->result, post->result_count * sizeof(*post->result)},
        {&mine->result_desc, post->result_desc, post->result_count * sizeof(*post->desc)},
        {&mine->rma, post->rma, post->rma_count * sizeof(*post->rma)},
    };
    size_t count = sizeof(pieces) / sizeof(pieces[0]);
    char *pos;

    wait = copy(&scratch, pieces, count, post->flags & FI_INJECT ? 2 * elements * size : 0);
    if (!wait || !(post->flags & FI_INJECT))
        return wait;
    mine = &wait->atomic;
    pos = take_operands(&mine->iov, &mine->desc, &mine->count, size, extra_of(wait, pieces, count));
    take_operands(&mine->compare, &mine->compare_desc, &mine->compare_count, size, pos);
    return wait;
}

void rxm_wait_free(struct rxm_wait *wait)
{
    free(wait);
}
