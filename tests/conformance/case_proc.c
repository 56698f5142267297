/* SPDX-License-Identifier: BSD-2-Clause */
/* Between two processes: data, and peers that come, go, crash and return. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf.h"
#include "peer.h"

enum {
    LARGEST = 4 << 20
};

static const size_t sizes[] = {0,    1,     127,   128,   129,   4095,   4096,   4097,    9000,
                               9001, 16383, 16384, 65535, 65536, 131072, 262145, 1048576, LARGEST};
#define SIZES (sizeof sizes / sizeof *sizes)

static struct conf_pair *open_with(struct peer *peer)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});

    *peer = peer_start(NULL);
    peer_meet(peer, &p->a);
    return p;
}

/* There and back, tagged and not, with the receive posted before and after. */
static void all_sizes(void)
{
    struct peer peer;
    struct conf_pair *p = open_with(&peer);
    char *out = malloc(LARGEST), *in = malloc(LARGEST + 1);

    for (unsigned i = 0; i < 4 * SIZES; i++) {
        size_t size = sizes[i / 4];
        int tagged = (int)(i & 1);
        bool first = i & 2;
        struct peer_order recv = {.op = PEER_RECV, .size = size, .tag = i, .tagged = tagged};
        struct peer_order arrived = {.op = PEER_ARRIVED, .seed = i};
        struct peer_order send = {
            .op = PEER_SEND, .size = size, .seed = i + 1, .tag = i, .tagged = tagged, .data = i};
        struct peer_answer answer;
        struct conf_seen seen;

        conf_fill(out, size, i);
        if (!first)
            peer_ask(p, &peer, recv);
        conf_post(p, tagged ? fi_tsend(p->a.ep, out, size, NULL, p->a.peer, i, out)
                            : fi_send(p->a.ep, out, size, NULL, p->a.peer, out));
        if (first)
            peer_ask(p, &peer, recv);
        answer = peer_ask(p, &peer, arrived);
        conf_check(!answer.err && answer.right && answer.len == size, "%zu: %s, %zu bytes", size,
                   fi_strerror(answer.err), answer.len);
        conf_check(!conf_wait(p, &p->a, out).err, "the send of %zu", size);
        in[size] = 0x55;
        if (first)
            peer_tell(&peer, &send);
        conf_post(p, tagged ? fi_trecv(p->a.ep, in, size, NULL, FI_ADDR_UNSPEC, i, 0, in)
                            : fi_recv(p->a.ep, in, size, NULL, FI_ADDR_UNSPEC, in));
        if (!first)
            peer_tell(&peer, &send);
        seen = conf_wait(p, &p->a, in);
        conf_check(!seen.err && seen.len == size && seen.data == i, "back %zu: %s", size,
                   fi_strerror(seen.err));
        conf_check(conf_holds(in, size, i + 1) && in[size] == 0x55, "data of %zu", size);
        conf_check(!peer_answered(p, &peer).err, "its send of %zu", size);
    }
    peer_end(p, &peer);
    conf_quiet(p, 5);
    conf_pair_close(p);
    free(out);
    free(in);
}

static void remote_memory(void)
{
    struct peer peer;
    struct conf_pair *p = open_with(&peer);
    char *local = malloc(LARGEST);
    struct peer_answer region =
        peer_ask(p, &peer, (struct peer_order){.op = PEER_REGION, .size = LARGEST + 64, .seed = 9});

    conf_check(!region.err, "the other process: fi_mr_reg: %s", fi_strerror(region.err));
    conf_post(p, fi_read(p->a.ep, local, LARGEST, NULL, p->a.peer, region.base, region.key, local));
    conf_check(!conf_wait(p, &p->a, local).err && conf_holds(local, LARGEST, 9), "the first read");
    for (unsigned i = 0; i < SIZES; i++) {
        struct iovec iov = {local, sizes[i]};
        struct fi_rma_iov remote = {region.base + i, sizes[i], region.key};
        struct fi_msg_rma msg = {.msg_iov = &iov,
                                 .iov_count = 1,
                                 .addr = p->a.peer,
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = local,
                                 .data = 1000 + i};
        struct peer_answer answer;

        conf_fill(local, sizes[i], i);
        conf_post(p, fi_writemsg(p->a.ep, &msg,
                                 FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA | FI_COMPLETION));
        conf_check(!conf_wait(p, &p->a, local).err, "write of %zu", sizes[i]);
        answer = peer_ask(
            p, &peer,
            (struct peer_order){.op = PEER_COMPARE, .size = sizes[i], .offset = i, .seed = i});
        conf_check(answer.right, "what was written, %zu", sizes[i]);
        answer = peer_ask(p, &peer, (struct peer_order){.op = PEER_DATA});
        conf_check(answer.right && answer.data == 1000 + i, "CQ data %lu",
                   (unsigned long)answer.data);
        memset(local, 0, sizes[i]);
        conf_post(p, fi_read(p->a.ep, local, sizes[i], NULL, p->a.peer, region.base + i, region.key,
                             local));
        conf_check(!conf_wait(p, &p->a, local).err && conf_holds(local, sizes[i], i), "read of %zu",
                   sizes[i]);
    }
    conf_post(p, fi_read(p->a.ep, local, 8, NULL, p->a.peer, region.base, region.key + 1, local));
    conf_check(conf_wait(p, &p->a, local).err != 0, "a key that is none");
    peer_kill(&peer);
    conf_pair_close(p);
    free(local);
}

static void cut_short(void)
{
    struct peer peer;
    struct conf_pair *p = open_with(&peer);
    char *out = malloc(LARGEST);

    for (unsigned i = 5; i < SIZES; i++) {
        struct peer_answer answer;

        conf_fill(out, sizes[i], i);
        peer_ask(p, &peer,
                 (struct peer_order){.op = PEER_RECV, .size = sizes[i] / 2, .tag = i, .tagged = 1});
        conf_post(p, fi_tsend(p->a.ep, out, sizes[i], NULL, p->a.peer, i, out));
        answer = peer_ask(p, &peer, (struct peer_order){.op = PEER_ARRIVED, .seed = i});
        conf_check(answer.err == FI_ETRUNC && answer.right, "%zu: %s", sizes[i],
                   fi_strerror(answer.err));
        conf_check(!conf_wait(p, &p->a, out).err, "the send of %zu", sizes[i]);
    }
    peer_end(p, &peer);
    conf_pair_close(p);
    free(out);
}

/* Both flood each other; each side's words arrive in order. */
static void floods(void)
{
    enum {
        WORDS = 5000
    };
    struct peer peer;
    struct conf_pair *p = open_with(&peer);
    struct peer_order order = {.op = PEER_FLOOD, .count = WORDS};
    uint32_t sent = 0, got = 0, in = 0;
    bool posted = false;

    peer_tell(&peer, &order);
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; sent < WORDS || got < WORDS;) {
        if (sent < WORDS && !fi_tinject(p->a.ep, &sent, 4, p->a.peer, 8))
            sent++;
        if (!posted && got < WORDS)
            posted = !fi_trecv(p->a.ep, &in, 4, NULL, FI_ADDR_UNSPEC, 7, 0, &in);
        conf_drive_pair(p);
        if (posted && conf_has(&p->a, &in)) {
            conf_check(!conf_wait(p, &p->a, &in).err && in == got, "%u instead of %u", in, got);
            got++;
            posted = false;
        }
        conf_check(conf_now_ms() < end, "%u sent, %u got", sent, got);
    }
    conf_check(peer_answered(p, &peer).right, "the order at the other process");
    peer_end(p, &peer);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* One message there, as sign of life; 0, or the error of the send. */
static int greet(struct conf_pair *p, struct peer *peer, uint64_t tag)
{
    char *out = malloc(3000);
    struct peer_answer answer;
    int err;

    conf_fill(out, 3000, (unsigned)tag);
    conf_post(p, fi_tsend(p->a.ep, out, 3000, NULL, p->a.peer, tag, out));
    err = conf_wait(p, &p->a, out).err;
    if (!err) {
        peer_ask(p, peer,
                 (struct peer_order){.op = PEER_RECV, .size = 3000, .tag = tag, .tagged = 1});
        answer = peer_ask(p, peer, (struct peer_order){.op = PEER_ARRIVED, .seed = (unsigned)tag});
        conf_check(!answer.err && answer.right, "a message to a peer that came: %s",
                   fi_strerror(answer.err));
    }
    free(out);
    return err;
}

enum {
    DOOMED_BIG = 300000,
    DOOMED_OPS = 24
};

/* A peer that is killed, and what was under way to it. */
struct doomed {
    struct peer peer;
    fi_addr_t addr;
    char contexts[DOOMED_OPS];
    int posted;
    char *memory; /* NULL: it is out of the vector */
};

/* Posts sends, writes and reads to the peer, and kills it. */
static void kill_in_the_middle(struct conf_pair *p, struct doomed *doomed, unsigned round)
{
    char *memory = doomed->memory = malloc(DOOMED_BIG);
    struct peer_answer region = peer_ask(
        p, &doomed->peer, (struct peer_order){.op = PEER_REGION, .size = DOOMED_BIG, .seed = 1});
    int posted = 0;

    conf_fill(memory, DOOMED_BIG, round);
    for (long long end = conf_now_ms() + 200; posted < DOOMED_OPS && conf_now_ms() < end;) {
        void *context = &doomed->contexts[posted];
        ssize_t rc;

        switch ((unsigned)posted % 3) {
        case 0: rc = fi_tsend(p->a.ep, memory, DOOMED_BIG, NULL, doomed->addr, 5, context); break;
        case 1:
            rc = fi_write(p->a.ep, memory, DOOMED_BIG, NULL, doomed->addr, region.base, region.key,
                          context);
            break;
        default:
            rc = fi_read(p->a.ep, memory, DOOMED_BIG, NULL, doomed->addr, region.base, region.key,
                         context);
        }
        conf_check(!rc || rc == -FI_EAGAIN, "post: %s", fi_strerror((int)-rc));
        posted += !rc;
        conf_drive_pair(p);
        if (posted == (int)(round * 5 % DOOMED_OPS))
            break;
    }
    doomed->posted = posted;
    peer_kill(&doomed->peer);
}

/* Each of its operations ends, once; an operation that the kernel had taken may have gone well. */
static void all_end(struct conf_pair *p, struct doomed *doomed)
{
    for (int i = 0; i < doomed->posted; i++)
        conf_wait(p, &p->a, &doomed->contexts[i]);
    free(doomed->memory);
    doomed->memory = NULL;
}

static void bury(struct conf_pair *p, struct doomed *doomed)
{
    if (!doomed->memory)
        return;
    all_end(p, doomed);
    conf_check(!fi_av_remove(p->a.av, &doomed->addr, 1, 0), "fi_av_remove");
}

static bool has_address_of(const struct peer *peer, const struct doomed *doomed)
{
    return peer->address_len == doomed->peer.address_len &&
           !memcmp(peer->address, doomed->peer.address, peer->address_len);
}

/* Four at a time are dead and not yet known to be, but those whose address the next one has. */
static void come_crash_and_come(void)
{
    enum {
        DEAD = 4
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct doomed *doomed = calloc(DEAD, sizeof *doomed);

    for (unsigned round = 0; round < 8; round += DEAD) {
        for (unsigned i = 0; i < DEAD; i++) {
            doomed[i].peer = peer_start(NULL);
            for (unsigned j = 0; j < i; j++) {
                if (has_address_of(&doomed[i].peer, &doomed[j]))
                    bury(p, &doomed[j]);
            }
            peer_meet(&doomed[i].peer, &p->a);
            doomed[i].addr = p->a.peer;
            conf_check(!greet(p, &doomed[i].peer, 3), "a new peer");
            kill_in_the_middle(p, &doomed[i], round + i);
        }
        for (unsigned i = 0; i < DEAD; i++)
            bury(p, &doomed[i]);
        conf_quiet(p, 20);
    }
    conf_pair_close(p);
    free(doomed);
}

/* It crashes and returns under the address that it had: a peer that knows the address talks to it
 * again, after an error or not. */
static void returns(void)
{
    conf_may_lack("same_address");

    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct doomed doomed = {0};
    struct peer place = {0}, peer;

    peer_place(&place);
    peer = peer_start(&place);
    peer_meet(&peer, &p->a);
    for (unsigned round = 0; round < 5; round++) {
        struct peer_order insert = {.op = PEER_INSERT, .address_len = 256};
        struct peer next;
        int err = -1;

        conf_check(!greet(p, &peer, 3), "before the crash");
        doomed.peer = peer;
        doomed.addr = p->a.peer;
        kill_in_the_middle(p, &doomed, round);
        all_end(p, &doomed);
        conf_quiet(p, 20);
        next = peer_start(&peer);
        conf_check(next.address_len == peer.address_len &&
                       !memcmp(next.address, peer.address, peer.address_len),
                   "it did not get its address again: %.60s, was %.60s", next.address,
                   peer.address);
        conf_check(!fi_getname(&p->a.ep->fid, insert.address, &insert.address_len), "fi_getname");
        conf_check(!peer_ask(p, &next, insert).err, "insert");
        for (int tries = 0; tries < 20 && err; tries++)
            err = greet(p, &next, 4 + (uint64_t)tries);
        conf_check(!err, "after it returned: %s", fi_strerror(err));
        peer = next;
    }
    peer_end(p, &peer);
    conf_quiet(p, 5);
    conf_pair_close(p);
}

/* It closes while ours are under way: each of them ends. */
static void leaves(void)
{
    enum {
        OPS = 16
    };
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    static char contexts[OPS];
    char *out = malloc(200000);

    conf_fill(out, 200000, 1);
    for (int round = 0; round < 4; round++) {
        struct peer peer = peer_start(NULL);
        int posted = 0;

        peer_meet(&peer, &p->a);
        conf_check(!greet(p, &peer, 3), "a new peer");
        for (long long end = conf_now_ms() + 50; posted < OPS && conf_now_ms() < end;) {
            posted += !fi_tsend(p->a.ep, out, 200000, NULL, p->a.peer, 5, &contexts[posted]);
            conf_drive_pair(p);
        }
        peer_end(p, &peer);
        for (int i = 0; i < posted; i++)
            conf_wait(p, &p->a, &contexts[i]);
        conf_quiet(p, 10);
    }
    conf_pair_close(p);
    free(out);
}

/* It stops reading: posts are refused with -FI_EAGAIN some day; it goes on, and all arrives. */
static void slow_reader(void)
{
    enum {
        SIZE = 20000,
        MOST = 300
    };
    struct peer peer;
    struct conf_pair *p = open_with(&peer);
    char *out = malloc(SIZE);
    unsigned posted = 0, done = 0;
    ssize_t rc = 0;

    conf_check(!greet(p, &peer, 3), "a new peer");
    conf_fill(out, SIZE, 2);
    kill(peer.pid, SIGSTOP);
    for (long long end = conf_now_ms() + 300; posted < MOST && conf_now_ms() < end;) {
        rc = fi_tsend(p->a.ep, out, SIZE, NULL, p->a.peer, 5, NULL);
        conf_check(!rc || rc == -FI_EAGAIN, "fi_tsend: %s", fi_strerror((int)-rc));
        posted += !rc;
        conf_drive_pair(p);
        done += (unsigned)p->a.seen_count;
        p->a.seen_count = 0;
    }
    kill(peer.pid, SIGCONT);
    for (unsigned i = 0; i < posted; i++) {
        struct peer_answer answer;

        peer_ask(p, &peer,
                 (struct peer_order){.op = PEER_RECV, .size = SIZE, .tag = 5, .tagged = 1});
        answer = peer_ask(p, &peer, (struct peer_order){.op = PEER_ARRIVED, .seed = 2});
        conf_check(!answer.err && answer.right, "message %u of %u: %s", i, posted,
                   fi_strerror(answer.err));
        done += (unsigned)p->a.seen_count;
        p->a.seen_count = 0;
    }
    for (long long end = conf_now_ms() + CONF_TIMEOUT_MS; done < posted;) {
        conf_drive_pair(p);
        done += (unsigned)p->a.seen_count;
        p->a.seen_count = 0;
        conf_check(conf_now_ms() < end, "%u of %u sends ended", done, posted);
    }
    conf_check(done == posted, "%u completions of %u sends", done, posted);
    peer_end(p, &peer);
    conf_pair_close(p);
    free(out);
}

/* Four at once, one of which dies: the others notice nothing. */
static void one_of_four(void)
{
    struct conf_pair *p = conf_pair_open((struct conf_want){0});
    struct peer peers[4];
    fi_addr_t at[4];

    for (int i = 0; i < 4; i++) {
        peers[i] = peer_start(NULL);
        peer_meet(&peers[i], &p->a);
        at[i] = p->a.peer;
        conf_check(!greet(p, &peers[i], 3), "peer %d", i);
    }
    peer_kill(&peers[2]);
    for (uint64_t round = 0; round < 10; round++)
        for (int i = 0; i < 4; i++) {
            p->a.peer = at[i];
            if (i != 2)
                conf_check(!greet(p, &peers[i], 10 + round), "peer %d after the death", i);
        }
    for (int i = 0; i < 4; i++)
        if (i != 2)
            peer_end(p, &peers[i]);
    conf_pair_close(p);
}

const struct conf_case conf_proc_cases[] = {
    {"processes: all sizes, there and back", all_sizes},
    {"processes: remote memory", remote_memory},
    {"processes: truncation", cut_short},
    {"processes: both flood each other", floods},
    {"processes: peers come, crash, and others come", come_crash_and_come},
    {"processes: a peer returns under its address", returns},
    {"processes: a peer leaves in the middle", leaves},
    {"processes: a slow reader", slow_reader},
    {"processes: one of four dies", one_of_four},
    {0},
};
