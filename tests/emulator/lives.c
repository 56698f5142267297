/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers that end, return under the number of another, or stop, by the public interface; and a
 * thousand endpoints. The peer is this program again: it says its address on its standard output,
 * reads ours from its standard input, and answers each message with another one.
 *   lives [memory]    the stack is FI_PROVIDER's; memory: registrations fail from a certain one on
 *   lives permitted, not-permitted    shared memory inside of the node, of an lnx
 *   lives forbidden    the same, by FI_EFA_ENABLE_SHM_TRANSFER
 *   lives endpoints   of both fabrics
 *   lives counters    of a device that counts
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_efa.h>

#include "tests/support/end.h"

enum {
    NAME = 32,
    LARGE = 1 << 20,
    MESSAGES = 40,
    CROWD = 64,
    WAIT_MS = 60000,
    ENDPOINTS = 1000,
};

struct peer {
    pid_t pid;
    int in; /* its standard input */
    uint8_t name[NAME];
    fi_addr_t addr;
};

static struct end own;
static char large[LARGE], word[8] = "ask", answer[8];

static uint64_t caps = FI_MSG;

static struct fi_info *ask(const char *fabric)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    hints->caps = caps;
    hints->mode = ~0ull;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    if (fabric)
        hints->fabric_attr->name = strdup(fabric);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    return info;
}

static void pause_1ms(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- Both ---- */

static bool is_full(ssize_t rc)
{
    return rc == -FI_EAGAIN || rc == -FI_ENOMEM;
}

/* A refusal for want of room or of memory is tried again, while what is under way goes on. */
static ssize_t post(const void *buf, size_t len, fi_addr_t addr)
{
    struct fi_cq_data_entry entry;
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < WAIT_MS && is_full(rc); i++) {
        rc = fi_send(own.ep, buf, len, NULL, addr, (void *)buf);
        if (is_full(rc)) {
            fi_cq_read(own.cq, &entry, 0);
            pause_1ms();
        }
    }
    return rc;
}

/* ---- The child ---- */

static void exchange(void)
{
    uint8_t name[NAME];

    assert_int_equal(write(STDOUT_FILENO, own.name, NAME), NAME);
    assert_int_equal(read(STDIN_FILENO, name, NAME), NAME);
    assert_int_equal(fi_av_insert(own.av, name, 1, &own.peer, 0, NULL), 1);
}

/* Until it is killed, or its parent is gone. */
static void be_child(void)
{
    struct fi_cq_data_entry entry;
    ssize_t rc;

    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    assert_int_equal(fi_recv(own.ep, large, LARGE, NULL, FI_ADDR_UNSPEC, large), 0);
    exchange();
    while (getppid() != 1) {
        rc = fi_cq_read(own.cq, &entry, 1);
        if (rc == 1 && entry.op_context == large) {
            fi_recv(own.ep, large, LARGE, NULL, FI_ADDR_UNSPEC, large);
            post(answer, sizeof(answer), own.peer);
        } else if (rc == -FI_EAVAIL) {
            fi_cq_readerr(own.cq, &(struct fi_cq_err_entry){.err_data_size = 0}, 0);
        } else if (rc == -FI_EAGAIN) {
            pause_1ms();
        }
    }
}

static struct peer start_peer(void)
{
    struct peer peer = {.addr = FI_ADDR_NOTAVAIL};
    int to[2], from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    peer.pid = fork();
    assert_true(peer.pid >= 0);
    if (!peer.pid) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        execl("/proc/self/exe", "lives", "child", (char *)NULL);
        _exit(1);
    }
    close(to[0]);
    close(from[1]);
    peer.in = to[1];
    assert_int_equal(read(from[0], peer.name, NAME), NAME);
    close(from[0]);
    assert_int_equal(write(peer.in, own.name, NAME), NAME);
    assert_int_equal(fi_av_insert(own.av, peer.name, 1, &peer.addr, 0, NULL), 1);
    return peer;
}

static void kill_peer(struct peer *peer)
{
    assert_int_equal(kill(peer->pid, SIGKILL), 0);
    assert_int_equal(waitpid(peer->pid, NULL, 0), peer->pid);
    close(peer->in);
}

/* ---- The parent ---- */

static struct fi_cq_err_entry error;

/* The next completion, or -FI_EAVAIL with its error taken. */
static ssize_t next(struct fi_cq_data_entry *entry)
{
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < WAIT_MS && rc == -FI_EAGAIN; i++) {
        rc = fi_cq_read(own.cq, entry, 1);
        if (rc == -FI_EAGAIN)
            pause_1ms();
    }
    if (rc == -FI_EAVAIL)
        assert_int_equal(fi_cq_readerr(own.cq, &error, 0), 1);
    return rc;
}

/* A message goes there, and one comes back. */
static void talk(const struct peer *peer)
{
    struct fi_cq_data_entry entry;

    assert_int_equal(fi_recv(own.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, answer), 0);
    assert_int_equal(post(word, sizeof(word), peer->addr), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(next(&entry), 1);
}

/* The device's report comes through the layer on libfabric's wire: the peer does not answer, since
 * its handshake (4124), or from the first (4126). */
static void assert_told(int code)
{
    const char *stack = getenv("FI_PROVIDER");
    char text[128];

    if (!stack || strncmp(stack, "srd", 3) != 0)
        return;
    assert_int_equal(error.err, FI_ECONNABORTED);
    assert_int_equal(error.prov_errno, code);
    fi_cq_strerror(own.cq, error.prov_errno, error.err_data, text, sizeof(text));
    assert_non_null(strstr(text, "the peer "));
}

/* Messages under way to a killed process end, with an error or, where they had left, without; later
 * ones fail. */
static void expect_gone(fi_addr_t addr, int code)
{
    struct fi_cq_data_entry entry;
    ssize_t rc;

    for (int i = 0; i < MESSAGES; i++) {
        rc = post(large, LARGE, addr);
        if (rc)
            return;
        rc = next(&entry);
        if (rc == -FI_EAVAIL) {
            assert_told(code);
            return;
        }
        assert_int_equal(rc, 1);
    }
    fail_msg("messages to a process that is gone arrive");
}

/* A message that the peer has to be heard for first is refused, or ends, with an error. */
static void expect_no_answer(fi_addr_t addr)
{
    struct iovec iov = {word, sizeof(word)};
    struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = addr, .context = word};
    struct fi_cq_data_entry entry;
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < WAIT_MS && rc == -FI_EAGAIN; i++) {
        rc = fi_sendmsg(own.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
        if (rc != -FI_EAGAIN)
            break;
        assert_int_equal(fi_cq_read(own.cq, &entry, 1), -FI_EAGAIN);
        pause_1ms();
    }
    assert_int_not_equal(rc, -FI_EAGAIN);
    if (!rc)
        assert_int_equal(next(&entry), -FI_EAVAIL);
}

static void peers_die_and_return(void **state)
{
    struct peer first, second;

    (void)state;
    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    first = start_peer();
    talk(&first);
    assert_int_equal(fi_av_remove(own.av, &first.addr, 1, 0), 0);
    assert_int_equal(fi_av_insert(own.av, first.name, 1, &first.addr, 0, NULL), 1);
    talk(&first);
    kill_peer(&first);
    expect_gone(first.addr, 4124);
    expect_no_answer(first.addr);
    second = start_peer(); /* with the number of the first */
    assert_memory_equal(first.name, second.name, 18);
    assert_memory_not_equal(first.name, second.name, NAME);
    talk(&second);
    expect_gone(first.addr, 4126);
    talk(&second);
    assert_int_equal(fi_av_remove(own.av, &first.addr, 1, 0), 0);
    talk(&second);
    kill_peer(&second);
    end_close(&own);
}

/* fi_close ends while a peer that has stopped owes everything. */
static void stopped_peers_hold_nothing_up(void **state)
{
    struct peer peer;

    (void)state;
    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    peer = start_peer();
    talk(&peer);
    assert_int_equal(kill(peer.pid, SIGSTOP), 0);
    for (int i = 0; i < MESSAGES; i++)
        if (fi_send(own.ep, large, LARGE, NULL, peer.addr, NULL))
            break;
    end_close(&own);
    kill_peer(&peer);
}

/* Many large ones at once take more packets than were registered at first: each that is accepted
 * arrives, by what was registered before. */
static void registrations_fail_on_the_way(void **state)
{
    struct fi_cq_data_entry entry;
    struct peer peer;
    int accepted = 0;

    (void)state;
    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    peer = start_peer();
    talk(&peer);
    while (accepted < CROWD && !post(large, LARGE, peer.addr))
        accepted++;
    assert_true(accepted > 0);
    for (int i = 0; i < accepted; i++)
        assert_int_equal(next(&entry), 1);
    assert_int_equal(fi_cq_read(own.cq, &entry, 1), -FI_EAGAIN);
    kill_peer(&peer);
    end_close(&own);
}

/* ---- Fabric efa-direct ---- */

static fi_addr_t source_of_next(struct end *end)
{
    struct fi_cq_data_entry entry;
    fi_addr_t source = 0;
    ssize_t rc = -FI_EAGAIN;

    for (int i = 0; i < WAIT_MS && rc == -FI_EAGAIN; i++) {
        rc = fi_cq_readfrom(end->cq, &entry, 1, &source);
        if (rc == -FI_EAGAIN)
            pause_1ms();
    }
    assert_int_equal(rc, 1);
    return source;
}

/* The device names the sender of a packet by its GID where it knew no handle as the packet came. */
static void sources_are_known_late(void **state)
{
    struct end to;
    struct fi_cq_data_entry entry;

    (void)state;
    end_open(&own, ask("efa-direct"), FI_CQ_FORMAT_DATA);
    end_open(&to, ask("efa-direct"), FI_CQ_FORMAT_DATA);
    assert_int_equal(fi_av_insert(own.av, to.name, 1, &own.peer, 0, NULL), 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fi_recv(to.ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_send(own.ep, NULL, 0, NULL, own.peer, NULL), 0);
        assert_int_equal(next(&entry), 1);
        if (i == 1) /* it has come, and was not looked at */
            assert_int_equal(fi_av_insert(to.av, own.name, 1, &to.peer, 0, NULL), 1);
        assert_int_equal(source_of_next(&to), i ? to.peer : FI_ADDR_NOTAVAIL);
    }
    end_close(&own);
    end_close(&to);
}

/* Sends to one that never has a receive go on without end, until fi_close gives them up. */
static void receivers_that_are_never_ready_hold_no_close_up(void **state)
{
    struct end to;

    (void)state;
    end_open(&own, ask("efa-direct"), FI_CQ_FORMAT_DATA);
    end_open(&to, ask("efa-direct"), FI_CQ_FORMAT_DATA);
    assert_int_equal(fi_av_insert(own.av, to.name, 1, &own.peer, 0, NULL), 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fi_send(own.ep, NULL, 0, NULL, own.peer, NULL), 0);
    end_close(&own);
    end_close(&to);
}

/* ---- A thousand endpoints ---- */

static struct fid_ep *eps[ENDPOINTS];
static fi_addr_t addrs[ENDPOINTS];
static uint32_t words[ENDPOINTS][2]; /* of each: what it sends, and what comes */

static void open_endpoints(const char *fabric)
{
    uint8_t name[NAME];
    size_t len = NAME;

    end_open(&own, ask(fabric), FI_CQ_FORMAT_DATA);
    for (uint32_t i = 0; i < ENDPOINTS; i++) {
        assert_int_equal(fi_endpoint(own.domain, own.info, &eps[i], NULL), 0);
        assert_int_equal(fi_ep_bind(eps[i], &own.cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(eps[i], &own.av->fid, 0), 0);
        assert_int_equal(fi_enable(eps[i]), 0);
        assert_int_equal(fi_getname(&eps[i]->fid, name, &len), 0);
        assert_int_equal(fi_av_insert(own.av, name, 1, &addrs[i], 0, NULL), 1);
        words[i][0] = i + 1;
        words[i][1] = 0;
    }
}

/* Each sends to one of the others, and has what another one sent. */
static void speak_in_a_ring(struct fid_mr *mr)
{
    struct fi_cq_data_entry entry;
    void *desc = fi_mr_desc(mr);

    for (int i = 0; i < ENDPOINTS; i++)
        assert_int_equal(
            fi_recv(eps[i], &words[i][1], sizeof(uint32_t), desc, FI_ADDR_UNSPEC, &eps[i]), 0);
    for (int i = 0; i < ENDPOINTS; i++)
        assert_int_equal(fi_send(eps[i], &words[i][0], sizeof(uint32_t), desc,
                                 addrs[(i + 1) % ENDPOINTS], &eps[i]),
                         0);
    for (int i = 0; i < 2 * ENDPOINTS; i++)
        assert_int_equal(next(&entry), 1);
    for (int i = 0; i < ENDPOINTS; i++)
        assert_int_equal(words[(i + 1) % ENDPOINTS][1], words[i][0]);
}

static void thousand_endpoints(const char *fabric)
{
    struct fid_mr *mr;

    open_endpoints(fabric);
    assert_int_equal(
        fi_mr_reg(own.domain, words, sizeof(words), FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL), 0);
    speak_in_a_ring(mr);
    for (int i = 0; i < ENDPOINTS; i++)
        assert_int_equal(fi_close(&eps[i]->fid), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    end_close(&own);
}

static void thousand_endpoints_of_packets(void **state)
{
    (void)state;
    thousand_endpoints("efa-direct");
}

static void thousand_endpoints_of_messages(void **state)
{
    (void)state;
    thousand_endpoints("efa");
}

/* ---- Packets of a life before ---- */

/* Of one message, as libfabric's efa sends it: with an address of 32 bytes, or a connid of 4. */
static void send_as(struct end *raw, struct fid_mr *mr, uint8_t msg_id, const uint8_t *id,
                    char byte)
{
    static uint8_t packet[64];
    bool address = id == raw->name;
    const uint8_t head[] = {64, 4, address ? 5 : 4, address ? 0 : 0x80, msg_id, 0, 0, 0, 36, 0,
                            0,  0};
    size_t len = address ? sizeof(head) : 8;
    struct fi_cq_data_entry entry;
    ssize_t rc = -FI_EAGAIN;

    memset(packet, 0, sizeof(packet));
    memcpy(packet, head, len);
    memcpy(packet + len, id, address ? NAME : 4);
    len += address ? 36 : 4;
    packet[len] = (uint8_t)byte;
    memcpy(large, packet, len + 1);
    assert_int_equal(fi_send(raw->ep, large, len + 1, fi_mr_desc(mr), raw->peer, large), 0);
    for (int i = 0; i < WAIT_MS && (rc != 1 || entry.op_context != large); i++) {
        rc = fi_cq_read(raw->cq, &entry, 1);
        fi_cq_read(own.cq, NULL, 0);
        pause_1ms();
    }
    assert_int_equal(rc, 1);
}

/* Its number is that of the peer's queue pair, and its connid is not: the process before had it. */
static void packets_of_a_life_before_are_dropped(void **state)
{
    struct fi_cq_data_entry entry;
    struct fid_mr *mr;
    struct end raw;
    uint8_t connid[4], before[4];

    (void)state;
    end_open(&own, end_info("srd;efa", FI_MSG, 0), FI_CQ_FORMAT_DATA);
    end_open(&raw, end_info("efa(fabric=efa-direct)", FI_MSG, 0), FI_CQ_FORMAT_DATA);
    assert_int_equal(fi_av_insert(raw.av, own.name, 1, &raw.peer, 0, NULL), 1);
    assert_int_equal(fi_mr_reg(raw.domain, large, LARGE, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            fi_recv(raw.ep, large + LARGE / 2, LARGE / 2, fi_mr_desc(mr), FI_ADDR_UNSPEC, NULL), 0);
    memcpy(connid, raw.name + 20, 4);
    memcpy(before, connid, 4);
    before[0] ^= 1;
    for (uint8_t i = 0; i < 2; i++) {
        assert_int_equal(fi_recv(own.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, answer), 0);
        if (i)
            send_as(&raw, mr, i, before, 'x');
        send_as(&raw, mr, i, i ? connid : raw.name, (char)('a' + i));
        assert_int_equal(next(&entry), 1);
        assert_int_equal(answer[0], 'a' + i);
    }
    assert_int_equal(fi_close(&mr->fid), 0);
    end_close(&raw);
    end_close(&own);
}

/* ---- Counters of the device ---- */

static uint64_t counted[2]; /* in our memory: what succeeded, what failed */

static struct fid_cntr *open_counted(void)
{
    struct fi_efa_comp_cntr_init_attr init = {
        .flags = FI_EFA_COMP_CNTR_INIT_WITH_COMP_EXTERNAL_MEM |
                 FI_EFA_COMP_CNTR_INIT_WITH_ERR_EXTERNAL_MEM,
        .comp_cntr_ext_mem = {.ptr = (uint8_t *)&counted[0]},
        .err_cntr_ext_mem = {.ptr = (uint8_t *)&counted[1]},
    };
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct fi_efa_ops_gda *gda;
    struct fid_cntr *cntr;

    assert_int_equal(fi_open_ops(&own.domain->fid, FI_EFA_GDA_OPS, 0, (void **)&gda, NULL), 0);
    assert_int_equal(gda->cntr_open_ext(own.domain, &attr, &cntr, NULL, &init), 0);
    return cntr;
}

static void expect_count(struct fid_cntr *cntr, uint64_t count, uint64_t errors)
{
    assert_int_equal(fi_cntr_read(cntr), count);
    assert_int_equal(fi_cntr_readerr(cntr), errors);
    assert_int_equal(counted[0], count);
    assert_int_equal(counted[1], errors);
}

/* Of an endpoint to itself; a message that is longer than its receive fails. */
static void devices_count(void **state)
{
    struct fid_cntr *cntr;
    struct fid_ep *ep;
    uint8_t name[NAME];
    size_t len = NAME;

    (void)state;
    end_open(&own, ask("efa-direct"), FI_CQ_FORMAT_DATA);
    cntr = open_counted();
    assert_int_equal(fi_endpoint(own.domain, own.info, &ep, NULL), 0);
    assert_int_equal(fi_ep_bind(ep, &own.cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(ep, &own.av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(own.ep, &cntr->fid, FI_SEND), -FI_EOPBADSTATE);
    assert_int_equal(fi_ep_bind(ep, &cntr->fid, FI_SEND), 0);
    assert_int_equal(fi_enable(ep), 0);
    assert_int_equal(fi_close(&cntr->fid), -FI_EBUSY);
    assert_int_equal(fi_getname(&ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(own.av, name, 1, &own.peer, 0, NULL), 1);
    assert_int_equal(fi_recv(ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(ep, NULL, 0, NULL, own.peer, NULL), 0);
    assert_int_equal(fi_cntr_wait(cntr, 1, WAIT_MS), 0);
    expect_count(cntr, 1, 0);
    assert_int_equal(fi_recv(ep, NULL, 0, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(ep, word, sizeof(word), NULL, own.peer, NULL), 0);
    assert_int_equal(fi_cntr_wait(cntr, 2, WAIT_MS), -FI_EAVAIL);
    expect_count(cntr, 1, 1);
    assert_int_equal(fi_cntr_add(cntr, 5), 0);
    expect_count(cntr, 6, 1);
    assert_int_equal(fi_cntr_set(cntr, 2), 0);
    assert_int_equal(fi_cntr_seterr(cntr, 0), 0);
    expect_count(cntr, 2, 0);
    assert_int_equal(fi_close(&ep->fid), 0);
    assert_int_equal(fi_close(&cntr->fid), 0);
    end_close(&own);
}

/* ---- Inside of a node ---- */

static bool permitted, asked;

/* Where shared memory is not permitted, or there is none, the device has the packets: that is the
 * caller's to see. */
static void messages_stay_in_the_node(void **state)
{
    struct fi_cq_data_entry entry;
    struct end to;
    bool sent = false, came = false;

    (void)state;
    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    end_open(&to, ask(NULL), FI_CQ_FORMAT_DATA);
    if (asked)
        assert_int_equal(fi_setopt(&own.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED,
                                   &permitted, sizeof(permitted)),
                         0);
    assert_int_equal(fi_av_insert(own.av, to.name, 1, &own.peer, 0, NULL), 1);
    assert_int_equal(fi_recv(to.ep, answer, sizeof(answer), NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(own.ep, word, sizeof(word), NULL, own.peer, NULL), 0);
    for (int i = 0; i < WAIT_MS && !(sent && came); i++) {
        sent = sent || fi_cq_read(own.cq, &entry, 1) == 1;
        came = came || fi_cq_read(to.cq, &entry, 1) == 1;
        pause_1ms();
    }
    assert_true(sent && came);
    assert_string_equal(answer, word);
    end_close(&own);
    end_close(&to);
}

/* fi_efa(7): the variable forbids what the option would permit. */
static void the_variable_forbids(void **state)
{
    bool is = true;

    (void)state;
    end_open(&own, ask(NULL), FI_CQ_FORMAT_DATA);
    assert_int_equal(
        fi_setopt(&own.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &is, sizeof(is)),
        -FI_EINVAL);
    is = false;
    assert_int_equal(
        fi_setopt(&own.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &is, sizeof(is)),
        0);
    end_close(&own);
}

/* Hints that name peers of other nodes alone. */
static void no_word_of_peers_here(void **state)
{
    struct fi_info *hints = fi_allocinfo(), *info;

    (void)state;
    hints->caps = FI_TAGGED | FI_REMOTE_COMM;
    hints->fabric_attr->name = strdup("efa");
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    assert_true(info->caps & FI_REMOTE_COMM);
    assert_false(info->caps & FI_LOCAL_COMM);
    fi_freeinfo(info);
    hints->caps |= FI_LOCAL_COMM;
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    assert_true(info->caps & FI_LOCAL_COMM);
    fi_freeinfo(info);
    fi_freeinfo(hints);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest inside[] = {cmocka_unit_test(messages_stay_in_the_node)};
    const struct CMUnitTest forbidden[] = {
        cmocka_unit_test(the_variable_forbids),
        cmocka_unit_test(no_word_of_peers_here),
    };
    const struct CMUnitTest counting[] = {cmocka_unit_test(devices_count)};
    const struct CMUnitTest lives[] = {
        cmocka_unit_test(peers_die_and_return),
        cmocka_unit_test(stopped_peers_hold_nothing_up),
    };
    const struct CMUnitTest late[] = {cmocka_unit_test(packets_of_a_life_before_are_dropped)};
    const struct CMUnitTest failing[] = {cmocka_unit_test(registrations_fail_on_the_way)};
    const struct CMUnitTest many[] = {
        cmocka_unit_test(sources_are_known_late),
        cmocka_unit_test(receivers_that_are_never_ready_hold_no_close_up),
        cmocka_unit_test(thousand_endpoints_of_packets),
        cmocka_unit_test(thousand_endpoints_of_messages),
    };
    struct rlimit files;

    if (argc > 1 && !strcmp(argv[1], "child")) {
        be_child();
        return 0;
    }
    permitted = argc > 1 && !strcmp(argv[1], "permitted");
    asked = permitted || (argc > 1 && !strcmp(argv[1], "not-permitted"));
    if (argc > 1 && strstr("permitted not-permitted unasked leaving forbidden", argv[1]))
        caps = FI_MSG | FI_TAGGED; /* not of fabric efa-direct */
    if (argc > 1 && !strcmp(argv[1], "leaving"))
        caps |= FI_REMOTE_COMM;
    if (asked || (argc > 1 && strstr("unasked leaving", argv[1])))
        return cmocka_run_group_tests(inside, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "forbidden"))
        return cmocka_run_group_tests(forbidden, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "memory"))
        return cmocka_run_group_tests(failing, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "late"))
        return cmocka_run_group_tests(late, NULL, NULL);
    if (argc > 1 && !strcmp(argv[1], "counters"))
        return cmocka_run_group_tests(counting, NULL, NULL);
    if (argc > 1) {
        if (!getrlimit(RLIMIT_NOFILE, &files)) {
            files.rlim_cur = files.rlim_max;
            setrlimit(RLIMIT_NOFILE, &files);
        }
        return cmocka_run_group_tests(many, NULL, NULL);
    }
    return cmocka_run_group_tests(lives, NULL, NULL);
}
