/* SPDX-License-Identifier: BSD-2-Clause */
/* The ledger of the suite, over endpoints and queues that are made of what the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"
#include "failing.h"

/* In the process of one ledger, which says what it is content with by how it ends. */
#define MUST_EQUAL(a, b)                                                                           \
    do {                                                                                           \
        if ((long long)(a) != (long long)(b))                                                      \
            _exit(2);                                                                              \
    } while (0)

/* ---- What the ledger calls ---- */

static long long now;

const char *failing_what(int *err, unsigned long *place)
{
    *err = 0;
    *place = 0;
    return NULL;
}

long long conf_now_ms(void)
{
    return now += 50;
}

void conf_fail(const char *file, int line, const char *fmt, ...)
{
    (void)fmt;
    (void)file;
    (void)line;
    _exit(2);
}

/* ---- Objects ---- */

struct queue {
    struct fid_cq fid;
    struct fi_cq_tagged_entry entries[8];
    unsigned count;
};

struct end {
    struct fid_ep fid;
    ssize_t answer; /* of the next post */
    unsigned cancels;
};

static ssize_t read_queue(struct fid_cq *fid, void *entries, size_t count)
{
    struct queue *queue = (struct queue *)fid;

    MUST_EQUAL(count, 1);
    if (!queue->count)
        return -FI_EAGAIN;
    memcpy(entries, &queue->entries[--queue->count], sizeof queue->entries[0]);
    return 1;
}

static int close_any(struct fid *fid)
{
    (void)fid;
    return 0;
}

static int bind_any(struct fid *fid, struct fid *to, uint64_t flags)
{
    (void)fid;
    (void)to;
    (void)flags;
    return 0;
}

static ssize_t post_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to,
                         uint64_t tag, void *context)
{
    (void)buf;
    (void)len;
    (void)desc;
    (void)to;
    (void)tag;
    (void)context;
    return ((struct end *)ep)->answer;
}

static ssize_t post_msg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    (void)msg;
    (void)flags;
    return ((struct end *)ep)->answer;
}

static ssize_t count_cancel(fid_t fid, void *context)
{
    (void)context;
    ((struct end *)fid)->cancels++;
    return -FI_ENOENT;
}

static struct fi_ops fid_ops = {.size = sizeof fid_ops, .close = close_any, .bind = bind_any};
static struct fi_ops_cq cq_ops = {.size = sizeof cq_ops, .read = read_queue};
static struct fi_ops_tagged tagged_ops = {
    .size = sizeof tagged_ops, .send = post_send, .sendmsg = post_msg};
static struct fi_ops_ep ep_ops = {.size = sizeof ep_ops, .cancel = count_cancel};
static struct queue queues[2];
static struct end ends[2];
static int context;

/* Two endpoints, each with a queue of its own, or both with the first. */
static void open_ends(bool shared, uint64_t flags)
{
    static const struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};

    memset(queues, 0, sizeof queues);
    memset(ends, 0, sizeof ends);
    ledger_on = true;
    for (int i = 0; i < 2; i++) {
        struct queue *queue = &queues[shared ? 0 : i];
        struct fid_cq *cq = &queue->fid;

        queues[i].fid = (struct fid_cq){{FI_CLASS_CQ, NULL, &fid_ops}, &cq_ops};
        ends[i].fid = (struct fid_ep){
            .fid = {FI_CLASS_EP, NULL, &fid_ops}, .ops = &ep_ops, .tagged = &tagged_ops};
        if (!shared || !i)
            ledger_opened(&cq, &attr, 0);
        MUST_EQUAL(fi_ep_bind(&ends[i].fid, &cq->fid, FI_TRANSMIT | flags), 0);
    }
}

static void send_from(int end, ssize_t answer)
{
    ends[end].answer = answer;
    MUST_EQUAL(fi_tsend(&ends[end].fid, NULL, 0, NULL, 0, 0, &context), answer);
}

static void completes(int queue)
{
    struct fi_cq_tagged_entry entry;

    queues[queue].entries[queues[queue].count++] =
        (struct fi_cq_tagged_entry){.op_context = &context, .flags = FI_SEND | FI_TAGGED};
    MUST_EQUAL(fi_cq_read(&queues[queue].fid, &entry, 1), 1);
}

static void refuse_one(int end)
{
    send_from(end, -FI_EAGAIN);
}

static void triggered_from(int end)
{
    struct fi_msg_tagged msg = {.context = &context};

    MUST_EQUAL(fi_tsendmsg(&ends[end].fid, &msg, FI_TRIGGER), 0);
}

/* ---- What is played ---- */

static void all_end(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(1, 0);
    completes(1);
    completes(0);
}

static void one_is_missing(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(0, 0);
    completes(0);
}

static void one_too_many(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    completes(0);
    completes(0);
}

static void one_of_the_other_queue(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(1, 0);
    completes(0);
    completes(0);
}

/* The other endpoint, with the same context, is held to its own. */
static void missing_when_the_other_closes(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(1, 0);
    fi_close(&ends[0].fid.fid);
}

static void discarded_by_its_own_close(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(1, 0);
    completes(1);
    fi_close(&ends[0].fid.fid);
}

static void read_after_the_close(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    fi_close(&ends[0].fid.fid);
    completes(0);
}

static void twice_after_the_close(void)
{
    read_after_the_close();
    completes(0);
}

/* It may have been the completion of either. */
static void one_queue_is_in_doubt(void)
{
    open_ends(true, 0);
    send_from(0, 0);
    send_from(1, 0);
    completes(0);
    fi_close(&ends[0].fid.fid);
}

static void one_queue_two_missing(void)
{
    open_ends(true, 0);
    send_from(0, 0);
    send_from(1, 0);
    send_from(1, 0);
    completes(0);
    fi_close(&ends[0].fid.fid);
}

/* A refused post takes nothing from accepted ones, */
static void refused_beside_accepted(void)
{
    open_ends(false, 0);
    send_from(0, 0);
    send_from(1, 0);
    refuse_one(0);
    refuse_one(0);
    completes(1);
}

/* nor does one that need not complete. */
static void refused_beside_silent(void)
{
    struct fi_msg_tagged msg = {.context = &context};

    open_ends(false, FI_SELECTIVE_COMPLETION);
    MUST_EQUAL(fi_tsendmsg(&ends[0].fid, &msg, FI_COMPLETION), 0);
    ends[0].answer = -FI_EAGAIN;
    MUST_EQUAL(fi_tsendmsg(&ends[0].fid, &msg, 0), -FI_EAGAIN);
}

static void refused_and_completed(void)
{
    open_ends(false, 0);
    refuse_one(0);
    completes(0);
}

static void silent_completes(void)
{
    struct fi_msg_tagged msg = {.context = &context};

    open_ends(false, FI_SELECTIVE_COMPLETION);
    MUST_EQUAL(fi_tsendmsg(&ends[0].fid, &msg, 0), 0);
    completes(0);
}

static void triggered_is_missing(void)
{
    open_ends(false, 0);
    triggered_from(0);
}

static void triggered_ends(void)
{
    open_ends(false, 0);
    triggered_from(0);
    completes(0);
}

static const struct {
    const char *name;
    void (*play)(void);
    bool content;
} plays[] = {
    {"all_end", all_end, true},
    {"one_is_missing", one_is_missing, false},
    {"one_too_many", one_too_many, false},
    {"one_of_the_other_queue", one_of_the_other_queue, false},
    {"missing_when_the_other_closes", missing_when_the_other_closes, false},
    {"discarded_by_its_own_close", discarded_by_its_own_close, true},
    {"read_after_the_close", read_after_the_close, true},
    {"twice_after_the_close", twice_after_the_close, false},
    {"one_queue_is_in_doubt", one_queue_is_in_doubt, true},
    {"one_queue_two_missing", one_queue_two_missing, false},
    {"refused_beside_accepted", refused_beside_accepted, false},
    {"refused_beside_silent", refused_beside_silent, false},
    {"refused_and_completed", refused_and_completed, false},
    {"silent_completes", silent_completes, false},
    {"triggered_is_missing", triggered_is_missing, false},
    {"triggered_ends", triggered_ends, true},
};

/* One ledger for each process. */
static void content_or_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++) {
        int status = 0;
        pid_t pid = fork();

        if (pid == 0) {
            plays[i].play();
            _exit(ledger_settle() != NULL);
        }
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != !plays[i].content)
            fail_msg("%s: status %#x", plays[i].name, (unsigned)status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_or_not),
    };

    return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
