/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/queue/cq.h"
#include "core/queue/eq.h"
#include "tests/core/objects.h"

static struct bare bare;
static atomic_uint yields;

/* Takes the place of libc's. */
int sched_yield(void)
{
    yields++;
    return 0;
}

static struct cq *open_cq(enum fi_cq_format format, enum fi_wait_obj obj, bool elided)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = obj};
    struct fid_cq *cq;

    bare_init(&bare, elided);
    assert_int_equal(cq_open(&bare.domain, &attr, &cq, NULL), 0);
    assert_true(children_any(&bare.domain.children));
    return object_of(cq, struct cq, fid);
}

static void close_cq(struct cq *cq)
{
    assert_int_equal(fi_close(&cq->fid.fid), 0);
    assert_false(children_any(&bare.domain.children));
}

static void put(struct cq *cq, uintptr_t n)
{
    progress_lock(cq->progress);
    cq_write(cq, (void *)n, FI_RECV | FI_TAGGED, n + 1, (void *)(n + 2), n + 3, n + 4, n + 5);
    progress_unlock(cq->progress);
}

static void put_error(struct cq *cq, uintptr_t n, int err)
{
    struct fi_cq_err_entry entry = {
        .op_context = (void *)n,
        .err = err,
        .prov_errno = err,
        .err_data = (void *)"detail",
        .err_data_size = 7,
        .src_addr = 9,
    };

    progress_lock(cq->progress);
    cq_write_error(cq, &entry);
    progress_unlock(cq->progress);
}

static void order_survives_growth_and_wraparound(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct fi_cq_entry entries[300];
    uintptr_t in = 1, out = 1;

    for (int round = 0; round < 50; round++) {
        int burst = round * 17 % 290 + 1;
        ssize_t n;

        for (int i = 0; i < burst; i++)
            put(cq, in++);
        n = fi_cq_read(&cq->fid, entries, round % 5 ? 300 : 7);
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal((uintptr_t)entries[i].op_context, out++);
    }
    while (fi_cq_read(&cq->fid, entries, 1) == 1)
        assert_int_equal((uintptr_t)entries[0].op_context, out++);
    assert_int_equal(in, out);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 1), -FI_EAGAIN);
    close_cq(cq);
}

/* Guard bytes behind the entry must survive; fields must be those of the format. */
static void each_format_writes_its_own_fields(void **state)
{
    static const struct {
        enum fi_cq_format format;
        size_t size;
    } formats[] = {
        {FI_CQ_FORMAT_UNSPEC, sizeof(struct fi_cq_entry)},
        {FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry)},
        {FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry)},
        {FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry)},
        {FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry)},
    };
    const struct fi_cq_tagged_entry expected = {(void *)10, FI_RECV | FI_TAGGED, 11, (void *)12, 13,
                                                14};

    for (size_t i = 0; i < 5; i++) {
        struct cq *cq = open_cq(formats[i].format, FI_WAIT_NONE, false);
        unsigned char buf[64];
        fi_addr_t src;

        memset(buf, 0xee, sizeof(buf));
        put(cq, 10);
        assert_int_equal(fi_cq_readfrom(&cq->fid, buf, 1, &src), 1);
        assert_memory_equal(buf, &expected, formats[i].size);
        for (size_t at = formats[i].size; at < sizeof(buf); at++)
            assert_int_equal(buf[at], 0xee);
        assert_int_equal(src, 15);
        close_cq(cq);
    }
}

/* A reason that comes with an error is its text; cut short in a caller's buffer, it still ends. */
static void reasons_are_the_text(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct fi_cq_err_entry error = {0};
    char room[4] = "????";

    put_error(cq, 1, CQ_ERR_TEXT + FI_ECONNREFUSED);
    put_error(cq, 2, CQ_ERR_TEXT + FI_ECONNREFUSED);
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_int_equal(error.prov_errno, FI_ECONNREFUSED);
    assert_string_equal(fi_cq_strerror(&cq->fid, error.prov_errno, error.err_data, NULL, 0),
                        "detail");
    assert_string_equal(fi_cq_strerror(&cq->fid, error.prov_errno, NULL, NULL, 0),
                        fi_strerror(FI_ECONNREFUSED));
    error = (struct fi_cq_err_entry){.err_data = room, .err_data_size = sizeof(room)};
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_string_equal(fi_cq_strerror(&cq->fid, error.prov_errno, error.err_data, NULL, 0), "det");
    assert_string_equal(fi_cq_strerror(&cq->fid, -FI_EINVAL, "detail", NULL, 0),
                        fi_strerror(FI_EINVAL));
    close_cq(cq);
}

static void errors_stay_in_their_place(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct fi_cq_err_entry error = {0};
    struct fi_cq_entry entries[8];

    put(cq, 1);
    put(cq, 2);
    put_error(cq, 3, FI_ECANCELED);
    put(cq, 4);
    put_error(cq, 5, FI_EIO);
    put_error(cq, 6, FI_EIO);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), 2);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), -FI_EAVAIL);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_int_equal((uintptr_t)error.op_context, 3);
    assert_int_equal(error.err, FI_ECANCELED);
    assert_string_equal(fi_cq_strerror(&cq->fid, error.prov_errno, error.err_data, NULL, 0),
                        fi_strerror(FI_ECANCELED));
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), 1);
    assert_int_equal((uintptr_t)entries[0].op_context, 4);
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_int_equal((uintptr_t)error.op_context, 5);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_cq_read(&cq->fid, entries, 8), -FI_EAGAIN);
    put_error(cq, 7, FI_EIO); /* closing frees entries that were not read */
    close_cq(cq);
}

static void err_data_goes_where_the_version_says(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct fi_cq_err_entry error = {0};
    char room[4] = "....";

    put_error(cq, 1, FI_EIO);
    error.err_data = room;
    error.err_data_size = 3;
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_memory_equal(room, "det.", 4);
    assert_int_equal(error.err_data_size, 3);
    assert_int_equal(error.src_addr, 9);

    put_error(cq, 1, FI_EIO);
    error.err_data = room;
    error.err_data_size = 0;
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_string_equal(error.err_data, "detail");
    assert_int_equal(error.err_data_size, 7);

    bare.fabric.api_version = FI_VERSION(1, 4);
    put_error(cq, 1, FI_EIO);
    error.err_data = NULL;
    error.err_data_size = 77;
    error.src_addr = 78;
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_string_equal(error.err_data, "detail");
    assert_int_equal(error.err_data_size, 77);
    assert_int_equal(error.src_addr, 78);
    close_cq(cq);
}

/* A caller compiled before 1.20 has no src_addr. */
static void err_entry_of_an_old_caller_is_not_overrun(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct fi_cq_err_entry error = {0};

    bare.fabric.abi = ABI_1_3;
    put_error(cq, 1, FI_EIO);
    error.src_addr = 0x5555;
    assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
    assert_int_equal(error.src_addr, 0x5555);
    assert_int_equal(error.err_data_size, 7);
    close_cq(cq);
}

struct producer {
    struct progress_source source;
    struct cq *cq;
    int calls, due; /* progress call that produces */
    int events;     /* fd's eventfd was read */
};

static void produce(struct progress_source *source)
{
    struct producer *producer = object_of(source, struct producer, source);
    uint64_t count;

    producer->calls++;
    if (source->fd >= 0 && read(source->fd, &count, sizeof(count)) > 0) {
        producer->events++;
        cq_write(producer->cq, (void *)99, 0, 0, NULL, 0, 0, 0);
    }
    if (producer->calls == producer->due)
        cq_write(producer->cq, (void *)98, 0, 0, NULL, 0, 0, 0);
}

static int may_sleep(struct progress_source *source)
{
    return 0;
}

static void add_producer(struct producer *producer, struct cq *cq, int fd)
{
    *producer = (struct producer){.cq = cq};
    producer->source = (struct progress_source){.poll = produce, .trywait = may_sleep, .fd = fd};
    list_init(&producer->source.link);
    progress_lock(cq->progress);
    assert_int_equal(progress_attach(cq->progress, &producer->source), 0);
    progress_unlock(cq->progress);
}

static void remove_producer(struct producer *producer)
{
    progress_lock(producer->cq->progress);
    progress_detach(producer->cq->progress, &producer->source);
    progress_unlock(producer->cq->progress);
}

static void reading_drives_only_an_empty_queue(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);
    struct producer producer;
    struct fi_cq_entry entry;

    add_producer(&producer, cq, -1);
    producer.due = 1;
    assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
    assert_int_equal(producer.calls, 1);
    put(cq, 1);
    assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
    assert_int_equal(producer.calls, 1);
    assert_int_equal(fi_cq_read(&cq->fid, NULL, 0), -FI_EAGAIN);
    assert_int_equal(producer.calls, 2);
    put(cq, 1);
    assert_int_equal(fi_cq_read(&cq->fid, NULL, 0), 0);
    assert_int_equal(producer.calls, 3);
    remove_producer(&producer);
    close_cq(cq);
}

/* A part that has two entries, an error, and one more entry at a time. */
static void produce_mixed(struct progress_source *source)
{
    struct producer *producer = object_of(source, struct producer, source);
    const struct fi_cq_err_entry error = {.op_context = (void *)3, .err = FI_EIO};
    struct cq *cq = producer->cq;

    if (++producer->calls != producer->due)
        return;
    for (uintptr_t n = 1; n <= 4; n++) {
        if (n == 3)
            cq_write_error(cq, &error);
        else
            cq_write(cq, (void *)n, FI_RECV | FI_TAGGED, n + 1, (void *)(n + 2), n + 3, n + 4, 5);
    }
}

/* Completions that a read drives, and that fit its array, go past the ring; what is left, and what
 * comes behind an error, is read later, in order. */
static void entries_that_a_read_drives_stay_in_order(void **state)
{
    static const size_t sizes[] = {sizeof(struct fi_cq_entry), sizeof(struct fi_cq_msg_entry),
                                   sizeof(struct fi_cq_data_entry),
                                   sizeof(struct fi_cq_tagged_entry)};
    struct fi_cq_err_entry error = {0};

    for (size_t i = 0; i < 8; i++) {
        struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT + i % 4, FI_WAIT_NONE, true);
        const struct fi_cq_tagged_entry first = {(void *)1, FI_RECV | FI_TAGGED, 2, (void *)3, 4,
                                                 5};
        size_t count = 1 + i / 4 * 7, size = sizes[i % 4];
        struct producer producer;
        unsigned char buf[8 * sizeof(first)];

        add_producer(&producer, cq, -1);
        producer.source.poll = produce_mixed;
        producer.due = 1;
        memset(buf, 0xee, sizeof(buf));
        assert_int_equal(fi_cq_read(&cq->fid, buf, count), count == 1 ? 1 : 2);
        assert_memory_equal(buf, &first, size);
        if (count == 1) {
            assert_int_equal(buf[size], 0xee);
            assert_int_equal(fi_cq_read(&cq->fid, buf, count), 1);
        }
        assert_int_equal(fi_cq_read(&cq->fid, buf, count), -FI_EAVAIL);
        assert_int_equal(producer.calls, 1);
        assert_int_equal(fi_cq_readerr(&cq->fid, &error, 0), 1);
        assert_ptr_equal(error.op_context, (void *)3);
        assert_int_equal(fi_cq_read(&cq->fid, buf, count), 1);
        assert_ptr_equal(((struct fi_cq_entry *)(void *)buf)->op_context, (void *)4);
        assert_int_equal(fi_cq_read(&cq->fid, buf, count), -FI_EAGAIN);
        remove_producer(&producer);
        close_cq(cq);
    }
}

static void sread_polls_without_a_wait_object(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_NONE, FI_WAIT_YIELD,  FI_WAIT_UNSPEC,
                                            FI_WAIT_FD,   FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, objs[i], i % 2);
        struct producer producer;
        struct fi_cq_entry entry;
        long long start;

        add_producer(&producer, cq, -1);
        producer.due = 4;
        assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), 1);
        start = clock_ms();
        assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, 20), -FI_EAGAIN);
        assert_true(clock_ms() - start >= 20);
        assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, 0), -FI_EAGAIN);
        put_error(cq, 1, FI_EIO);
        assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), -FI_EAVAIL);
        remove_producer(&producer);
        close_cq(cq);
    }
}

/* The application sleeps on the fd itself, with manual progress: what a source's fd shows wakes it.
 */
static void wait_fd_shows_work_for_manual_progress(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, false);
    struct fid *fids[] = {&cq->fid.fid};
    struct producer producer;
    struct fi_cq_entry entry;
    struct pollfd poll_fd = {.events = POLLIN};
    uint64_t one = 1;

    assert_int_equal(fi_control(&cq->fid.fid, FI_GETWAIT, &poll_fd.fd), 0);
    add_producer(&producer, cq, eventfd(0, EFD_NONBLOCK));
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    assert_int_equal(write(producer.source.fd, &one, sizeof(one)), sizeof(one));
    assert_int_equal(poll(&poll_fd, 1, 1000), 1);
    assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
    assert_int_equal(producer.events, 1);
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);

    put(cq, 1);
    assert_int_equal(poll(&poll_fd, 1, 0), 1);
    assert_int_equal(fids_trywait(fids, 1), -FI_EAGAIN);
    assert_int_equal(fi_cq_read(&cq->fid, &entry, 1), 1);
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    remove_producer(&producer);
    close(producer.source.fd);
    close_cq(cq);
}

/* A sleeper that takes what it has found itself writes no eventfd for it: looks come before arms.
 */
static void a_sleeper_signals_nobody_but_others(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, false);
    struct fid *fids[] = {&cq->fid.fid};
    struct producer producer;
    struct fi_cq_entry entry;

    add_producer(&producer, cq, -1);
    producer.due = 3; /* the look after the first sleep */
    assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), 1);
    assert_int_equal(producer.calls, 3);
    assert_int_equal(atomic_load(&cq->wait.armed), WAIT_IDLE);
    remove_producer(&producer);
    assert_int_equal(fids_trywait(fids, 1), 0); /* an application that sleeps on the fd itself */
    add_producer(&producer, cq, -1);
    producer.due = 3;
    assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), 1);
    assert_int_equal(atomic_load(&cq->wait.armed), WAIT_ARMED);
    put(cq, 1); /* this one is for it */
    assert_int_equal(atomic_load(&cq->wait.armed), WAIT_SIGNALED);
    remove_producer(&producer);
    close_cq(cq);
}

static void threshold_waits_for_that_many(void **state)
{
    struct fi_cq_attr attr = {
        .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_FD, .wait_cond = FI_CQ_COND_THRESHOLD};
    struct fi_cq_entry entries[4];
    struct producer producer;
    struct fid_cq *fid;
    struct cq *cq;

    bare_init(&bare, true);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), 0);
    cq = object_of(fid, struct cq, fid);
    add_producer(&producer, cq, -1);
    producer.due = 3;
    put(cq, 1);
    assert_int_equal(fi_cq_sread(fid, entries, 4, (void *)2, -1), 2);
    assert_true(producer.calls >= 3);
    put(cq, 1);
    assert_int_equal(fi_cq_sread(fid, entries, 4, (void *)2, 5), 1); /* the timeout takes what is */
    remove_producer(&producer);
    close_cq(cq);
}

static void *signal_later(void *arg)
{
    usleep(20000);
    fi_cq_signal(arg);
    return NULL;
}

static void signal_unblocks_a_reader_and_the_next_one(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_FD, false);
    struct fi_cq_entry entry;
    pthread_t thread;

    pthread_create(&thread, NULL, signal_later, &cq->fid);
    assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), -FI_EAGAIN);
    pthread_join(thread, NULL);
    assert_int_equal(fi_cq_signal(&cq->fid), 0);
    assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, -1), -FI_EAGAIN);
    assert_int_equal(fi_cq_sread(&cq->fid, &entry, 1, NULL, 1), -FI_EAGAIN);
    close_cq(cq);
}

#define MANY 20000

static void *put_many(void *arg)
{
    for (uintptr_t i = 1; i <= MANY; i++)
        put(arg, i);
    return NULL;
}

static void *read_many(void *arg)
{
    struct fi_cq_entry entry;
    struct cq *cq = arg;
    uintptr_t sum = 0;

    for (;;) {
        ssize_t rc = fi_cq_sread(&cq->fid, &entry, 1, NULL, -1);

        if (rc == -FI_EAVAIL)
            return (void *)sum;
        if (rc == 1)
            sum += (uintptr_t)entry.op_context;
    }
}

/* Two writers, three blocking readers: everything is read once, and no reader sleeps for ever. */
static void no_wakeup_is_lost(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_FD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < 2; i++) {
        struct cq *cq;
        pthread_t writers[2], readers[3];
        uintptr_t sum = 0;
        void *part;

        cq = open_cq(FI_CQ_FORMAT_CONTEXT, objs[i], false);
        for (int t = 0; t < 3; t++)
            pthread_create(&readers[t], NULL, read_many, cq);
        for (int t = 0; t < 2; t++)
            pthread_create(&writers[t], NULL, put_many, cq);
        for (int t = 0; t < 2; t++)
            pthread_join(writers[t], NULL);
        put_error(cq, 0, FI_ECANCELED);
        for (int t = 0; t < 3; t++) {
            pthread_join(readers[t], &part);
            sum += (uintptr_t)part;
        }
        assert_int_equal(sum, (uintptr_t)MANY * (MANY + 1));
        close_cq(cq);
    }
}

static ssize_t count_write(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len,
                           void *buf, uint64_t data, uint64_t tag, fi_addr_t src)
{
    ++*(int *)cq->fid.context;
    return 0;
}

static void peer_queue_writes_to_its_owner(void **state)
{
    struct fi_ops_cq_owner owner_ops = {.size = sizeof(owner_ops), .write = count_write};
    int written = 0;
    struct fid_peer_cq owner = {.fid.context = &written, .owner_ops = &owner_ops};
    struct fi_peer_cq_context context = {.size = sizeof(context), .cq = &owner};
    struct fi_cq_attr attr = {.flags = FI_PEER, .wait_obj = FI_WAIT_FD};
    struct producer producer;
    struct fi_cq_entry entry;
    struct fid_cq *fid;

    bare_init(&bare, true);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, &context), 0);
    add_producer(&producer, object_of(fid, struct cq, fid), -1);
    producer.due = 1;
    assert_int_equal(fi_cq_read(fid, NULL, 0), 0);
    assert_int_equal(written, 1);
    assert_int_equal(fi_cq_read(fid, &entry, 1), -FI_ENOSYS);
    assert_int_equal(fi_cq_sread(fid, &entry, 1, NULL, 0), -FI_ENOSYS);
    assert_int_equal(fi_cq_readerr(fid, NULL, 0), -FI_ENOSYS);
    remove_producer(&producer);
    close_cq(object_of(fid, struct cq, fid));
}

static void bad_attributes_are_refused(void **state)
{
    struct fi_cq_attr attr = {.format = (enum fi_cq_format)9};
    struct fid_cq *fid;

    bare_init(&bare, true);
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = FI_WAIT_SET};
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.wait_obj = (enum fi_wait_obj)42};
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.flags = FI_SEND};
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_cq_attr){.flags = FI_AFFINITY, .signaling_vector = 1};
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), 0);
    close_cq(object_of(fid, struct cq, fid));
}

static void close_is_refused_while_bound(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_CONTEXT, FI_WAIT_NONE, true);

    children_hold(&cq->children);
    assert_int_equal(fi_close(&cq->fid.fid), -FI_EBUSY);
    children_release(&cq->children);
    close_cq(cq);
}

enum {
    ALONE = 1000
};

static void *read_once(void *arg)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_cq_read(arg, &entry, 1), -FI_EAGAIN);
    return NULL;
}

/* Reads an empty queue in two threads in turns, then in one; yields of both parts. */
static void read_in_turns(struct cq *cq, unsigned *ret_turns, unsigned *ret_alone)
{
    pthread_t thread;

    yields = 0;
    read_once(&cq->fid);
    assert_int_equal(pthread_create(&thread, NULL, read_once, &cq->fid), 0);
    pthread_join(thread, NULL);
    read_once(&cq->fid);
    *ret_turns = yields;
    for (int i = 0; i < ALONE; i++)
        read_once(&cq->fid);
    yields = 0;
    for (int i = 0; i < ALONE; i++)
        read_once(&cq->fid);
    *ret_alone = yields;
}

static void readers_of_one_queue_offer_each_other_the_core(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, false);
    unsigned turns, alone;

    read_in_turns(cq, &turns, &alone);
    assert_int_equal(turns, 2); /* not the first, which knew of no other */
    assert_int_equal(alone, 0);
    close_cq(cq);
}

/* It may hold a lock of its own. */
static void a_caller_that_serializes_keeps_the_core(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, true);
    unsigned turns, alone;

    read_in_turns(cq, &turns, &alone);
    assert_int_equal(turns + alone, 0);
    close_cq(cq);
    bare_init(&bare, true);
    bare.domain_attr.control_progress = FI_PROGRESS_MANUAL; /* which has a lock */
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *fid;
    assert_int_equal(cq_open(&bare.domain, &attr, &fid, NULL), 0);
    read_in_turns(object_of(fid, struct cq, fid), &turns, &alone);
    assert_int_equal(turns + alone, 0);
    assert_int_equal(fi_close(&fid->fid), 0);
}

/* Not asserted: the figure of the machine at hand. */
static void push_and_read_cost(void **state)
{
    struct cq *cq = open_cq(FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE, true);
    struct fi_cq_tagged_entry entry;
    struct timespec start, end;
    const int rounds = 1000000;

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < rounds; i++) {
        cq_write(cq, &entry, FI_SEND, 8, NULL, 0, 0, FI_ADDR_NOTAVAIL);
        if (fi_cq_read(&cq->fid, &entry, 1) != 1)
            fail();
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    print_message(
        "cq: push and read of one entry: %.1f ns\n",
        ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) /
            rounds);
    close_cq(cq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_survives_growth_and_wraparound),
        cmocka_unit_test(each_format_writes_its_own_fields),
        cmocka_unit_test(errors_stay_in_their_place),
        cmocka_unit_test(reasons_are_the_text),
        cmocka_unit_test(err_data_goes_where_the_version_says),
        cmocka_unit_test(err_entry_of_an_old_caller_is_not_overrun),
        cmocka_unit_test(reading_drives_only_an_empty_queue),
        cmocka_unit_test(entries_that_a_read_drives_stay_in_order),
        cmocka_unit_test(sread_polls_without_a_wait_object),
        cmocka_unit_test(wait_fd_shows_work_for_manual_progress),
        cmocka_unit_test(a_sleeper_signals_nobody_but_others),
        cmocka_unit_test(threshold_waits_for_that_many),
        cmocka_unit_test(signal_unblocks_a_reader_and_the_next_one),
        cmocka_unit_test(no_wakeup_is_lost),
        cmocka_unit_test(peer_queue_writes_to_its_owner),
        cmocka_unit_test(bad_attributes_are_refused),
        cmocka_unit_test(close_is_refused_while_bound),
        cmocka_unit_test(readers_of_one_queue_offer_each_other_the_core),
        cmocka_unit_test(a_caller_that_serializes_keeps_the_core),
        cmocka_unit_test(push_and_read_cost),
    };

    return cmocka_run_group_tests_name("cq", tests, NULL, NULL);
}
