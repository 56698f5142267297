/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "conf.h"

static void selective(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){.cq_flags = FI_SELECTIVE_COMPLETION});
    char out = 'x', in[2] = {0};
    struct iovec from = {&in[1], 1}, to = {&out, 1};
    struct fi_msg_tagged recv = {
        .msg_iov = &from, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = 2, .context = &in[1]};
    struct fi_msg_tagged send = {
        .msg_iov = &to, .iov_count = 1, .addr = p->a.peer, .tag = 2, .context = &out};

    conf_post(p, fi_trecv(p->b.ep, &in[0], 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in[0]));
    conf_post(p, fi_trecvmsg(p->b.ep, &recv, FI_COMPLETION));
    conf_post(p, fi_tsend(p->a.ep, &out, 1, NULL, p->a.peer, 1, &out));
    conf_post(p, fi_tsendmsg(p->a.ep, &send, FI_COMPLETION));
    conf_wait(p, &p->b, &in[1]);
    conf_wait(p, &p->a, &out);
    conf_check(in[0] == 'x' && in[1] == 'x', "data");
    conf_quiet(p, 20);
    conf_check(fi_cntr_read(p->b.received) == 2, "receives counted: %lu",
               (unsigned long)fi_cntr_read(p->b.received));
    conf_check(fi_cntr_read(p->a.sent) == 2, "sends counted: %lu",
               (unsigned long)fi_cntr_read(p->a.sent));
    conf_pair_close(p);
}

static void counters(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char out[10] = {0}, in[10];

    for (int i = 0; i < 10; i++) {
        conf_post(p, fi_recv(p->b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, &in[i]));
        conf_post(p, fi_inject(p->a.ep, &out[i], 1, p->a.peer));
    }
    for (int i = 0; i < 10; i++)
        conf_wait(p, &p->b, &in[i]);
    /* A send may end later than its receive: when the peer has said that it has it. */
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS;
         fi_cntr_read(p->a.sent) < 10 && conf_now_ms() < end;)
        conf_drive_pair(p);
    conf_check(fi_cntr_read(p->a.sent) == 10 && fi_cntr_read(p->b.received) == 10, "%lu, %lu",
               (unsigned long)fi_cntr_read(p->a.sent), (unsigned long)fi_cntr_read(p->b.received));
    conf_check(fi_cntr_wait(p->b.received, 10, 0) == 0, "fi_cntr_wait of what is there");
    conf_check(fi_cntr_wait(p->b.received, 11, 20) == -FI_ETIMEDOUT, "fi_cntr_wait times out");
    conf_check(!fi_cntr_set(p->b.received, 5) && !fi_cntr_add(p->b.received, 2) &&
                   fi_cntr_read(p->b.received) == 7,
               "set and add");
    conf_quiet(p, 5);
    conf_pair_close(p);
}

static const enum fi_cq_format cq_formats[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
                                               FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED};

enum {
    FORMATS = sizeof cq_formats / sizeof *cq_formats
};

/* An endpoint whose queue has that format; p->a knows it as *to. */
static struct conf_ep *open_reader(struct conf_pair *p, enum fi_cq_format format, fi_addr_t *to)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = FI_WAIT_NONE, .size = 16};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct conf_ep *end = calloc(1, sizeof *end);
    char address[256];
    size_t len = sizeof address;

    conf_check(!fi_endpoint(p->home.domain, p->home.info, &end->ep, NULL), "fi_endpoint");
    conf_check(!fi_cq_open(p->home.domain, &attr, &end->rx, NULL), "fi_cq_open");
    conf_check(!fi_av_open(p->home.domain, &av_attr, &end->av, NULL), "fi_av_open");
    conf_check(!fi_ep_bind(end->ep, &end->rx->fid, FI_RECV | FI_TRANSMIT), "fi_ep_bind");
    conf_check(!fi_ep_bind(end->ep, &end->av->fid, 0), "fi_ep_bind");
    conf_check(!fi_enable(end->ep), "fi_enable");
    conf_check(!fi_getname(&end->ep->fid, address, &len), "fi_getname");
    conf_check(fi_av_insert(p->a.av, address, 1, to, 0, NULL) == 1, "fi_av_insert");
    return end;
}

/* Three messages to an endpoint whose queue has that format, read at once. */
static void read_format(struct conf_pair *p, struct conf_ep *end, fi_addr_t to, int f)
{
    static const size_t entry_size[] = {sizeof(struct fi_cq_entry), sizeof(struct fi_cq_msg_entry),
                                        sizeof(struct fi_cq_data_entry),
                                        sizeof(struct fi_cq_tagged_entry)};
    char entries[4 * sizeof(struct fi_cq_tagged_entry) + 1], in[3], out = 'x';
    ssize_t n, got = 0;

    for (int i = 0; i < 3; i++) {
        conf_post(p, fi_trecv(end->ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, 9, 0, &in[i]));
        while (fi_tinject(p->a.ep, &out, 1, to, 9) == -FI_EAGAIN) {
            conf_drive_pair(p);
            fi_cq_read(end->rx, NULL, 0);
        }
    }
    memset(entries, 0x55, sizeof entries);
    for (long long end_ms = conf_now_ms() + CONF_TIMEOUT_MS; got < 3;) {
        n = fi_cq_read(end->rx, entries + (size_t)got * entry_size[f], (size_t)(4 - got));
        conf_check(n == -FI_EAGAIN || n > 0, "fi_cq_read: %zd", n);
        got += n > 0 ? n : 0;
        conf_drive_pair(p);
        conf_check(conf_now_ms() < end_ms, "not received");
    }
    for (int i = 0; i < 3; i++) {
        struct fi_cq_tagged_entry entry = {0};

        memcpy(&entry, entries + (size_t)i * entry_size[f], entry_size[f]);
        conf_check(entry.op_context == &in[i], "context %d of format %d", i, f);
        conf_check(f < 1 || (entry.len == 1 && (entry.flags & FI_RECV)), "length and flags");
        conf_check(f < 3 || entry.tag == 9, "tag");
    }
    conf_check(entries[3 * entry_size[f]] == 0x55, "wrote behind the entries");
}

/* fi_cq_read into each format, several at once. No endpoint has the address of one before it:
 * peers that come back are another case's affair. */
static void formats(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct conf_ep *ends[FORMATS];
    fi_addr_t to[FORMATS];

    for (int f = 0; f < FORMATS; f++) {
        ends[f] = open_reader(p, cq_formats[f], &to[f]);
        read_format(p, ends[f], to[f], f);
    }
    for (int f = 0; f < FORMATS; f++) {
        conf_check(!fi_close(&ends[f]->ep->fid), "close");
        conf_check(!fi_close(&ends[f]->rx->fid), "close");
        conf_check(!fi_close(&ends[f]->av->fid), "close");
        conf_check(!fi_av_remove(p->a.av, &to[f], 1, 0), "fi_av_remove");
        free(ends[f]);
    }
    conf_pair_close(p);
}

/* An error keeps its place between the completions. */
static void error_in_order(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    char in[3], address[16];
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t n;

    (void)address;
    for (uint64_t i = 0; i < 3; i++)
        conf_post(p, fi_trecv(p->b.ep, &in[i], 1, NULL, FI_ADDR_UNSPEC, i, 0, &in[i]));
    conf_post(p, fi_tinject(p->a.ep, "x", 1, p->a.peer, 0));
    while ((n = fi_cq_read(p->b.rx, &entry, 1)) == -FI_EAGAIN)
        conf_drive(&p->a);
    conf_check(n == 1 && entry.op_context == &in[0], "the first");
    conf_check(!fi_cancel(&p->b.ep->fid, &in[1]), "fi_cancel");
    conf_check(fi_cq_read(p->b.rx, &entry, 1) == -FI_EAVAIL, "an error is not shown");
    conf_check(fi_cq_read(p->b.rx, &entry, 1) == -FI_EAVAIL, "it stays until it is read");
    conf_check(fi_cq_readerr(p->b.rx, &error, 0) == 1 && error.op_context == &in[1] &&
                   error.err == FI_ECANCELED,
               "the error entry");
    conf_check(fi_cq_readerr(p->b.rx, &error, 0) == -FI_EAGAIN, "a second one");
    conf_check(fi_cq_strerror(p->b.rx, error.prov_errno, NULL, NULL, 0) != NULL, "its text");
    conf_pair_close(p);
}

const struct conf_case conf_cq_cases[] = {
    {"cq: selective completion, counters count all", selective},
    {"cq: counters", counters},
    {"cq: every format", formats},
    {"cq: errors keep their place", error_in_order},
    {0},
};
