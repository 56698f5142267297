/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads that poll a progress domain's sources past the list of them: one, or a pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/fid.h"
#include "core/progress/progress.h"

static struct progress *create(enum fi_threading threading, enum fi_progress data_progress)
{
    struct fi_domain_attr attr = {
        .threading = threading,
        .control_progress = FI_PROGRESS_CONTROL_UNIFIED,
        .data_progress = data_progress,
    };
    struct progress *progress;

    assert_int_equal(progress_create(&attr, "test", NULL, &progress), 0);
    return progress;
}

struct counter {
    struct progress_source source;
    int calls;
    struct counter *victim; /* detached by progress */
    struct progress *progress;
};

static void count(struct progress_source *source)
{
    struct counter *counter = object_of(source, struct counter, source);

    counter->calls++;
    if (counter->victim)
        progress_detach(counter->progress, &counter->victim->source);
}

static int idle(struct progress_source *source)
{
    return 0;
}

static void attach(struct progress *progress, struct counter *counter, int fd)
{
    *counter = (struct counter){.progress = progress};
    counter->source = (struct progress_source){.poll = count, .trywait = idle, .fd = fd};
    list_init(&counter->source.link);
    assert_int_equal(progress_attach(progress, &counter->source), 0);
}

static void detach(struct counter *counter)
{
    progress_detach(counter->progress, &counter->source);
}

/* A source that reaches no other progress domain is polled past all rounds while it is alone; it
 * may leave, and others may come, at any time. */
static void a_lone_leaf_is_polled_like_others(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct progress *other = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct counter leaf, late;
    struct progress *root;

    attach(progress, &leaf, -1);
    detach(&leaf);
    leaf.source.leaf = true;
    assert_int_equal(progress_attach(progress, &leaf.source), 0);
    assert_ptr_equal(progress->sole, &leaf.source);
    root = progress_enter(progress);
    progress_poll_root(root);
    assert_int_equal(leaf.calls, 1);
    root->driving = true; /* as from inside of its poll */
    progress_poll_root(root);
    assert_int_equal(leaf.calls, 1);
    root->driving = false;
    attach(other, &late, -1);
    progress_leave(root);
    assert_int_equal(progress_merge(progress, other), 0);
    root = progress_enter(progress);
    assert_ptr_equal(root, progress_root(other));
    assert_null(root->sole);
    progress_poll_root(root);
    assert_int_equal(leaf.calls, 2);
    assert_int_equal(late.calls, 1);
    detach(&late);
    assert_ptr_equal(root->sole, &leaf.source);
    leaf.victim = &leaf;
    progress_poll_root(root);
    assert_int_equal(leaf.calls, 3);
    assert_null(root->sole);
    progress_leave(root);
    progress_release(progress);
    progress_release(other);
}

/* Two sources of which one at most reaches another progress domain are polled past all rounds too;
 * any of them may leave meanwhile. */
static void a_pair_is_polled_like_others(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct counter layer, leaf, third;
    struct progress *root;

    attach(progress, &layer, -1);
    attach(progress, &leaf, -1);
    assert_null(progress->pair[0]); /* as both could */
    detach(&leaf);
    leaf.source.leaf = true;
    assert_int_equal(progress_attach(progress, &leaf.source), 0);
    assert_ptr_equal(progress->pair[0], &layer.source);
    assert_ptr_equal(progress->pair[1], &leaf.source);
    assert_null(progress->sole);
    root = progress_enter(progress);
    progress_poll_root(root);
    root->driving = true; /* as from inside of its poll */
    progress_poll_root(root);
    root->driving = false;
    assert_int_equal(layer.calls, 1);
    assert_int_equal(leaf.calls, 1);
    attach(progress, &third, -1);
    assert_null(progress->pair[0]);
    progress_poll_root(root);
    assert_int_equal(third.calls, 1);
    detach(&third);
    layer.victim = &leaf;
    progress_poll_root(root);
    assert_int_equal(layer.calls, 3);
    assert_int_equal(leaf.calls, 2);
    assert_ptr_equal(root->pair[0], &layer.source);
    assert_null(root->pair[1]);
    progress_leave(root);
    detach(&layer);
    assert_null(root->pair[0]);
    progress_release(progress);
}

/* So are two that drive others, if they cannot be the same ones. */
static void a_pair_may_reach_others_that_differ(void **state)
{
    struct progress *progress = create(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
    struct counter one, two;
    int here, there;

    attach(progress, &one, -1);
    attach(progress, &two, -1);
    detach(&two);
    one.source.reach = two.source.reach = &here;
    assert_int_equal(progress_attach(progress, &two.source), 0);
    assert_null(progress->pair[0]);
    detach(&two);
    two.source.reach = &there;
    assert_int_equal(progress_attach(progress, &two.source), 0);
    assert_ptr_equal(progress->pair[0], &one.source);
    assert_ptr_equal(progress->pair[1], &two.source);
    progress_poll_root(progress_root(progress));
    assert_int_equal(one.calls, 1);
    assert_int_equal(two.calls, 1);
    detach(&one);
    detach(&two);
    progress_release(progress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_leaf_is_polled_like_others),
        cmocka_unit_test(a_pair_is_polled_like_others),
        cmocka_unit_test(a_pair_may_reach_others_that_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
