/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread for each endpoint, all connecting to all and exchanging messages, with manual progress.
 * The locks are there (FI_THREAD_SAFE, one domain) or elided (FI_THREAD_DOMAIN, a domain for each
 * thread); the fabric below, where connections are opened, is everybody's in both.
 */
#include "rdm.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS = 4,
    ROUNDS = 200,
    LIMIT_S = 30,
};

struct worker {
    struct rdm end;
    fi_addr_t peers[THREADS];
    pthread_t thread;
    pthread_barrier_t *barrier;
    atomic_int *working;
    char in[ROUNDS * THREADS][8];
};

/* Some worker's call failed: none goes on, and exchange fails in the thread that may say so. */
static atomic_bool failed;

static void work(struct worker *worker)
{
    struct fi_cq_tagged_entry entry;
    int sent = 0, done = 0, total = ROUNDS * THREADS;
    time_t limit = time(NULL) + LIMIT_S;
    ssize_t rc;

    for (int i = 0; i < total; i++)
        if (fi_trecv(worker->end.ep, worker->in[i], 8, NULL, FI_ADDR_UNSPEC, 0, 0, NULL))
            atomic_store(&failed, true);
    while (done < 2 * total && !atomic_load(&failed)) {
        if (time(NULL) > limit) /* what an injected fault took does not come */
            atomic_store(&failed, true);
        if (sent < total) {
            rc = fi_tsend(worker->end.ep, "payload", 8, NULL, worker->peers[sent % THREADS], 0,
                          NULL);
            if (rc && rc != -FI_EAGAIN)
                atomic_store(&failed, true);
            sent += !rc;
        }
        rc = fi_cq_read(worker->end.cq, &entry, 1);
        if (rc != 1 && rc != -FI_EAGAIN)
            atomic_store(&failed, true);
        done += rc == 1;
    }
}

static void *run(void *opaque)
{
    struct fi_cq_tagged_entry entry;
    struct worker *worker = opaque;

    pthread_barrier_wait(worker->barrier);
    work(worker);
    atomic_fetch_sub(worker->working, 1);
    while (atomic_load(worker->working)) /* others still need our progress */
        if (fi_cq_read(worker->end.cq, &entry, 1) != -FI_EAGAIN)
            atomic_store(&failed, true);
    return NULL;
}

static void exchange(struct worker *workers)
{
    pthread_barrier_t barrier;
    atomic_int working = THREADS;

    atomic_store(&failed, false);
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < THREADS; j++)
            workers[i].peers[j] = rdm_insert(&workers[i].end, &workers[j].end.name);
        workers[i].barrier = &barrier;
        workers[i].working = &working;
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run, &workers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&barrier);
    assert_false(atomic_load(&failed));
    for (int i = 0; i < THREADS; i++)
        for (int n = 0; n < ROUNDS * THREADS; n++)
            assert_string_equal(workers[i].in[n], "payload");
}

static void endpoints_of_one_domain(void **state)
{
    struct worker *workers = calloc(THREADS, sizeof(*workers));
    struct rdm_net net;

    rdm_net_open_with(&net, "rxm(tags=pass);tcp", 0, FI_THREAD_SAFE);
    for (int i = 0; i < THREADS; i++)
        rdm_open(&workers[i].end, &net, 0);
    exchange(workers);
    for (int i = 0; i < THREADS; i++)
        rdm_close(&workers[i].end);
    rdm_net_close(&net);
    free(workers);
}

static void domains_of_one_fabric(void **state)
{
    struct worker *workers = calloc(THREADS, sizeof(*workers));
    struct rdm_net nets[THREADS];

    rdm_net_open_with(&nets[0], "rxm(tags=pass);tcp", 0, FI_THREAD_DOMAIN);
    for (int i = 1; i < THREADS; i++) {
        nets[i] = nets[0];
        assert_int_equal(fi_domain(nets[0].fabric, nets[0].info, &nets[i].domain, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++)
        rdm_open(&workers[i].end, &nets[i], 0);
    exchange(workers);
    for (int i = 0; i < THREADS; i++)
        rdm_close(&workers[i].end);
    for (int i = 1; i < THREADS; i++)
        assert_int_equal(fi_close(&nets[i].domain->fid), 0);
    rdm_net_close(&nets[0]);
    free(workers);
}

struct late_reader {
    struct rdm end;
    size_t expected;
};

static void *read_all(void *opaque)
{
    struct late_reader *reader = opaque;
    struct fi_cq_tagged_entry entry;
    char in[128];

    for (size_t got = 0; got < reader->expected; got++) {
        assert_int_equal(fi_trecv(reader->end.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL),
                         0);
        assert_int_equal(rdm_next(&reader->end, RDM_ENDS(&reader->end), &entry, NULL, NULL), 0);
    }
    return NULL;
}

/* Until nothing more is taken: sockets are full, and so is the queue behind. */
static size_t inject_all(struct rdm *from, fi_addr_t to, size_t len)
{
    enum {
        ENOUGH = 2000
    };
    char out[128] = "";
    size_t taken = 0;
    ssize_t rc = 0;

    for (int refused = 0; refused < ENOUGH; refused += rc != 0) {
        rc = fi_tinject(from->ep, out, len, to, 1);
        assert_true(!rc || rc == -FI_EAGAIN);
        taken += !rc;
    }
    return taken;
}

/* The peer begins to read when the endpoint is closed. */
static void what_a_full_socket_keeps_outlives_its_endpoint(void **state)
{
    static const char *const specs[] = {"rxm(tags=pass);tcp", "rxm(tags=emulate);tcp",
                                        "noop;rxm(tags=pass);noop;tcp"};

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct late_reader reader = {.expected = 1};
        struct rdm_net from_net, to_net;
        pthread_t thread;
        struct rdm from;
        fi_addr_t to;

        rdm_net_open(&from_net, specs[i], FI_MSG | FI_TAGGED);
        rdm_net_open(&to_net, specs[i], FI_MSG | FI_TAGGED);
        rdm_open(&from, &from_net, 0);
        rdm_open(&reader.end, &to_net, 0);
        to = rdm_insert(&from, &reader.end.name);
        while (fi_tinject(from.ep, "x", 1, to, 1) == -FI_EAGAIN)
            rdm_progress(RDM_ENDS(&reader.end));
        reader.expected += inject_all(&from, to, 128);
        assert_int_equal(pthread_create(&thread, NULL, read_all, &reader), 0);
        rdm_close(&from);
        pthread_join(thread, NULL);
        rdm_close(&reader.end);
        rdm_net_close(&from_net);
        rdm_net_close(&to_net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(endpoints_of_one_domain),
        cmocka_unit_test(domains_of_one_fabric),
        cmocka_unit_test(what_a_full_socket_keeps_outlives_its_endpoint),
    };

    return cmocka_run_group_tests_name("rxm_threads", tests, NULL, NULL);
}
