/* SPDX-License-Identifier: BSD-2-Clause */
/* Scalable endpoints between two processes: a child that has contexts, and a plain endpoint. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

enum {
    CONTEXTS = 2,
    BITS = 3,
    LARGE = 200000,
    KEY = 7,
    END = 99, /* tag */
};

static const char *spec = "shm";

struct scalable {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_ep *sep;
    struct fid_ep *tx, *rx[CONTEXTS];
    struct fid_cq *tx_cq, *rx_cq[CONTEXTS];
};

static struct fi_info *ask(const char *name)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->ep_attr->tx_ctx_cnt = 1;
    hints->ep_attr->rx_ctx_cnt = CONTEXTS;
    hints->fabric_attr->prov_name = strdup(spec);
    if (name) {
        hints->src_addr = strdup(name);
        hints->src_addrlen = strlen(name) + 1;
        hints->addr_format = FI_ADDR_STR;
    }
    assert_int_equal(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static struct fid_cq *enable(struct scalable *s, struct fid_ep *context, uint64_t flags)
{
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(s->domain, &attr, &cq, NULL), 0);
    assert_int_equal(fi_ep_bind(context, &cq->fid, flags), 0);
    assert_int_equal(fi_enable(context), 0);
    return cq;
}

static void open_scalable(struct scalable *s, const char *name)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};

    s->info = ask(name);
    assert_int_equal(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), 0);
    assert_int_equal(fi_domain(s->fabric, s->info, &s->domain, NULL), 0);
    assert_int_equal(fi_av_open(s->domain, &av, &s->av, NULL), 0);
    assert_int_equal(fi_scalable_ep(s->domain, s->info, &s->sep, NULL), 0);
    assert_int_equal(fi_scalable_ep_bind(s->sep, &s->av->fid, 0), 0);
    assert_int_equal(fi_tx_context(s->sep, 0, NULL, &s->tx, NULL), 0);
    s->tx_cq = enable(s, s->tx, FI_TRANSMIT);
    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL), 0);
        s->rx_cq[i] = enable(s, s->rx[i], FI_RECV);
    }
}

static void close_scalable(struct scalable *s)
{
    assert_int_equal(fi_close(&s->tx->fid), 0);
    assert_int_equal(fi_close(&s->tx_cq->fid), 0);
    for (int i = 0; i < CONTEXTS; i++) {
        assert_int_equal(fi_close(&s->rx[i]->fid), 0);
        assert_int_equal(fi_close(&s->rx_cq[i]->fid), 0);
    }
    assert_int_equal(fi_close(&s->sep->fid), 0);
    assert_int_equal(fi_close(&s->av->fid), 0);
    assert_int_equal(fi_close(&s->domain->fid), 0);
    assert_int_equal(fi_close(&s->fabric->fid), 0);
    fi_freeinfo(s->info);
}

/* ---- The child ---- */

static void drive(struct scalable *s)
{
    fi_cq_read(s->tx_cq, NULL, 0);
    for (int i = 0; i < CONTEXTS; i++)
        fi_cq_read(s->rx_cq[i], NULL, 0);
}

static void take(struct scalable *s, int context, uint64_t tag, char *in, size_t len)
{
    struct fi_cq_tagged_entry entry;

    assert_int_equal(fi_trecv(s->rx[context], in, len, NULL, FI_ADDR_UNSPEC, tag, 0, NULL), 0);
    while (fi_cq_read(s->rx_cq[context], &entry, 1) != 1)
        drive(s);
    assert_int_equal(entry.tag, tag);
    assert_int_equal(entry.len, len);
    assert_int_equal(in[len - 1], (char)('a' + context));
}

/* A word from a transmit context, so that there is a link that must not be sent on. */
static void answer(struct scalable *s, fi_addr_t peer)
{
    ssize_t rc;

    while ((rc = fi_tinject(s->tx, "answer", 7, peer, 1)) == -FI_EAGAIN)
        drive(s);
    assert_int_equal(rc, 0);
}

static void run_child(int from, int to)
{
    char name[END_NAME], peer_name[END_NAME], *in = malloc(LARGE);
    const char *known = peer_name;
    struct scalable s;
    struct fid_mr *mr;
    fi_addr_t peer;
    size_t len = sizeof(name);

    alarm(END_ALARM);
    open_scalable(&s, NULL);
    assert_int_equal(fi_getname(&s.sep->fid, name, &len), 0);
    assert_int_equal(write(to, name, sizeof(name)), sizeof(name));
    assert_int_equal(read(from, peer_name, sizeof(peer_name)), sizeof(peer_name));
    assert_int_equal(fi_av_insert(s.av, &known, 1, &peer, 0, NULL), 1);
    assert_int_equal(fi_mr_reg(s.domain, in, LARGE, FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    answer(&s, peer);
    for (uint64_t tag = 0; tag < 2; tag++)
        for (int i = CONTEXTS; i-- > 0;) {
            take(&s, i, tag, in, 8);
            take(&s, i, tag, in, LARGE);
        }
    take(&s, 0, END, in, 8);
    assert_int_equal(in[LARGE - 1], 'w');
    assert_int_equal(fi_close(&mr->fid), 0);
    close_scalable(&s);
    _exit(0);
}

/* ---- The parent ---- */

static void send_to(struct end *end, fi_addr_t addr, int context, uint64_t tag, size_t len)
{
    struct fi_cq_tagged_entry entry;
    char *out = malloc(len);

    memset(out, 'a' + context, len);
    end_post(end, NULL,
             fi_tsend(end->ep, out, len, NULL, fi_rx_addr(addr, context, BITS), tag, NULL));
    assert_int_equal(end_wait(end, NULL, &entry), 0);
    free(out);
}

static void write_to(struct end *end, fi_addr_t addr, int context)
{
    struct fi_cq_tagged_entry entry;

    end_post(
        end, NULL,
        fi_write(end->ep, "w", 1, NULL, fi_rx_addr(addr, context, BITS), LARGE - 1, KEY, NULL));
    assert_int_equal(end_wait(end, NULL, &entry), 0);
}

static void open_plain(struct end *end)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};

    end_open_as(end, spec, &(struct end_want){.caps = FI_MSG | FI_TAGGED | FI_RMA, .av = &av});
}

static void contexts_of_another_process(void **state)
{
    struct fi_cq_tagged_entry entry;
    char name[END_NAME] = "", peer_name[END_NAME], in[8];
    int to[2], from[2], status;
    struct end end;
    fi_addr_t addr;
    pid_t child;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    child = fork();
    if (!child)
        run_child(to[0], from[1]);
    open_plain(&end);
    end_name(&end, name);
    assert_int_equal(fi_trecv(end.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(read(from[0], peer_name, sizeof(peer_name)), sizeof(peer_name));
    assert_int_equal(write(to[1], name, sizeof(name)), sizeof(name));
    addr = end_know(&end, peer_name);
    assert_int_equal(end_wait(&end, NULL, &entry), 0);
    for (uint64_t tag = 0; tag < 2; tag++)
        for (int i = CONTEXTS; i-- > 0;) {
            send_to(&end, addr, i, tag, 8);
            send_to(&end, addr, i, tag, LARGE);
        }
    write_to(&end, addr, 1);
    send_to(&end, addr, 0, END, 8);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    end_close(&end);
    for (int i = 0; i < 2; i++) {
        close(to[i]);
        close(from[i]);
    }
}

static void a_context_that_nobody_has_opened(void **state)
{
    struct fi_cq_tagged_entry entry;
    char name[END_NAME];
    size_t len = sizeof(name);
    struct scalable s;
    struct end end;
    fi_addr_t addr;

    spec = "shm(connect_timeout=300ms)";
    open_scalable(&s, NULL);
    open_plain(&end);
    spec = "shm";
    assert_int_equal(fi_getname(&s.sep->fid, name, &len), 0);
    addr = end_know(&end, name);
    end_post(&end, NULL, fi_send(end.ep, "x", 1, NULL, fi_rx_addr(addr, CONTEXTS, BITS), NULL));
    assert_int_equal(end_wait(&end, NULL, &entry), FI_ECONNREFUSED);
    end_close(&end);
    close_scalable(&s);
}

/* Also when the context that listened under it is closed. */
static void the_endpoint_keeps_its_name(void **state)
{
    char name[END_NAME];
    struct scalable s;
    struct fid_ep *thief;
    struct fi_info *info;

    snprintf(name, sizeof(name), "fi_ns://contexts-%d", (int)getpid());
    open_scalable(&s, name);
    info = ask(name);
    assert_int_equal(fi_endpoint(s.domain, info, &thief, NULL), -FI_EADDRINUSE);
    assert_int_equal(fi_close(&s.rx[0]->fid), 0);
    assert_int_equal(fi_endpoint(s.domain, info, &thief, NULL), -FI_EADDRINUSE);
    assert_int_equal(fi_rx_context(s.sep, 0, NULL, &s.rx[0], NULL), 0);
    assert_int_equal(fi_endpoint(s.domain, info, &thief, NULL), -FI_EADDRINUSE);
    fi_freeinfo(info);
    close_scalable(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_of_another_process),
        cmocka_unit_test(a_context_that_nobody_has_opened),
        cmocka_unit_test(the_endpoint_keeps_its_name),
    };

    alarm(END_ALARM);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
