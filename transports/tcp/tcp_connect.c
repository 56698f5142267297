/* SPDX-License-Identifier: BSD-2-Clause */
/* The active side: connect, send the request, wait for the answer. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/base/log.h"
#include "transports/tcp/tcp_ep.h"

enum {
    /* The peer's program answers, when it has made what it answers with: registered memory, other
     * connections. Keepalive tells of a host that is gone, so this is patience, not detection. */
    ANSWER_MS = 10 * 60 * 1000,
};

/* A peer that dies silently while it owes an answer is noticed long before the deadline. */
static void set_keepalive(int fd, bool on)
{
    const int value = on, idle = 5, interval = 2, count = 2;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, sizeof(value));
    if (!on)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/* Ends the attempt with an error in the EQ. `data` is what a reject carried. */
static void fail(struct tcp_handshake *handshake, int err, const char *why, const void *data,
                 size_t data_len)
{
    struct tcp_ep *ep = handshake->ep;
    struct tcp_cm *cm = handshake->cm;
    struct fi_eq_err_entry error = {
        .fid = &ep->fid.fid,
        .context = ep->fid.fid.context,
        .err = err,
        .prov_errno = err,
        .err_data = data_len ? (void *)data : NULL,
        .err_data_size = data_len,
    };
    char text[ADDR_TEXT_MAX];

    LOG_INFO(ep->base.domain->fabric->part, FI_LOG_EP_CTRL, "cannot connect to %s: %s",
             addr_text(&handshake->peer.sa, text, sizeof(text)), why);
    progress_lock(ep->base.binding.progress);
    ep->state = TCP_DOWN;
    endpoint_fail_receives(&ep->base, err);
    progress_unlock(ep->base.binding.progress);
    ep->handshake = NULL;
    eq_write_error(ep->base.eq, &error);
    tcp_handshake_destroy(handshake);
    tcp_cm_arm(cm);
}

static void fail_errno(struct tcp_handshake *handshake, int err)
{
    fail(handshake, err, fi_strerror(err), NULL, 0);
}

/* The answer may come until then. */
static void wait_until(struct tcp_handshake *handshake, long long limit_ms)
{
    handshake->silence.limit_ms = limit_ms;
    handshake->deadline = silence_next(&handshake->silence);
    tcp_cm_wait(handshake->cm, handshake);
}

void tcp_connect_expired(struct tcp_handshake *handshake)
{
    char text[ADDR_TEXT_MAX];

    if (!silence_over(&handshake->silence, clock_ms(), handshake->ep->base.domain->fabric->part,
                      addr_text(&handshake->peer.sa, text, sizeof(text)))) {
        wait_until(handshake, handshake->silence.limit_ms);
        return;
    }
    fail(handshake, FI_ETIMEDOUT,
         handshake->phase == TCP_PHASE_CONNECT ? "no answer within connect_timeout"
                                               : "request not answered within connect_timeout",
         NULL, 0);
}

static void succeed(struct tcp_handshake *handshake)
{
    struct tcp_ep *ep = handshake->ep;
    struct tcp_cm *cm = handshake->cm;
    size_t data_len = handshake->message.data_len;
    _Alignas(struct fi_eq_cm_entry) uint8_t event[sizeof(struct fi_eq_cm_entry) + TCP_CM_DATA_MAX];
    struct fi_eq_cm_entry *entry = (struct fi_eq_cm_entry *)event;

    entry->fid = &ep->fid.fid;
    entry->info = NULL;
    memcpy(entry->data, handshake->bytes + TCP_CM_HEADER, data_len);
    set_keepalive(handshake->fd, false);
    tcp_cm_unwatch(cm, handshake->fd);
    int rc = tcp_ep_connected(ep, handshake->fd, handshake->message.network);
    if (rc) {
        fail_errno(handshake, -rc);
        return;
    }
    handshake->fd = -1;
    ep->handshake = NULL;
    tcp_handshake_destroy(handshake);
    tcp_cm_arm(cm);
    eq_write(ep->base.eq, FI_CONNECTED, event, sizeof(*entry) + data_len);
}

static void answered(struct tcp_handshake *handshake)
{
    const char *why = NULL;
    int rc = tcp_handshake_read(handshake, &why);

    if (!rc)
        return;
    if (rc < 0)
        fail(handshake, rc == -FI_ECONNRESET ? FI_ECONNREFUSED : -rc, why, NULL, 0);
    else if (handshake->message.type == TCP_CM_ACCEPT)
        succeed(handshake);
    else if (handshake->message.type == TCP_CM_REJECT)
        fail(handshake, FI_ECONNREFUSED, "rejected", handshake->bytes + TCP_CM_HEADER,
             handshake->message.data_len);
    else
        fail(handshake, FI_EPROTO, "the answer to a request is another request", NULL, 0);
}

/* The request has left. The user's own limit remains. */
static void wait_answer(struct tcp_handshake *handshake)
{
    const struct tcp_ep *ep = handshake->ep;

    handshake->phase = TCP_PHASE_ANSWER;
    if (ep->conn.settings->connect_given)
        return;
    wait_until(handshake, clock_ms() + (ep->answer_ms ? ep->answer_ms : ANSWER_MS));
    tcp_cm_arm(handshake->cm);
}

static void connected(struct tcp_handshake *handshake)
{
    int err = 0;
    socklen_t size = sizeof(err);

    if (getsockopt(handshake->fd, SOL_SOCKET, SO_ERROR, &err, &size))
        err = errno;
    if (!err) {
        handshake->flow = pcap_flow_open(handshake->cm->fabric->pcap, handshake->fd, true);
        ssize_t sent =
            send(handshake->fd, handshake->bytes, handshake->to_send, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (pcap_on(handshake->flow) && sent > 0)
            pcap_sent_buffer(handshake->flow, handshake->bytes, (size_t)sent);
        if (sent != (ssize_t)handshake->to_send)
            err = sent < 0 ? errno : FI_EIO;
    }
    wait_answer(handshake);
    if (!err)
        err = -tcp_cm_rewatch(handshake->cm, handshake->fd, EPOLLIN, &handshake->item);
    if (err)
        fail_errno(handshake, err);
}

static void ready(struct tcp_cm_item *item, uint32_t events)
{
    struct tcp_handshake *handshake = object_of(item, struct tcp_handshake, item);

    if (handshake->phase == TCP_PHASE_CONNECT)
        connected(handshake);
    else
        answered(handshake);
}

static int open_socket(struct tcp_ep *ep, const union addr *dest)
{
    const int on = 1;
    int fd = tcp_socket(ep->conn.settings, dest->sa.sa_family);

    if (fd < 0)
        return fd;
    set_keepalive(fd, true);
    if (ep->src.sa.sa_family == dest->sa.sa_family && !addr_is_any(&ep->src.sa)) {
        /* The kernel picks a port when it knows the peer: it has many more to choose from then. */
        if (!addr_port(&ep->src.sa))
            setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
        if (bind(fd, &ep->src.sa, addr_size(&ep->src.sa))) {
            int rc = -errno;

            close(fd);
            return rc;
        }
    }
    return fd;
}

int tcp_connect_start(struct tcp_ep *ep, const union addr *dest, const void *data, size_t data_len)
{
    struct tcp_cm *cm = ep->conn.guard.cm;
    struct tcp_handshake *handshake = calloc(1, sizeof(*handshake));

    if (!handshake)
        return -FI_ENOMEM;
    list_init(&handshake->link);
    handshake->cm = cm;
    handshake->ep = ep;
    handshake->peer = *dest;
    handshake->item.ready = ready;
    handshake->to_send = tcp_cm_encode(TCP_CM_REQUEST, data, data_len, handshake->bytes);
    handshake->fd = open_socket(ep, dest);
    if (handshake->fd < 0) {
        int rc = handshake->fd;

        free(handshake);
        return rc;
    }
    int err = connect(handshake->fd, &dest->sa, addr_size(&dest->sa)) ? errno : 0;
    if (err == EINPROGRESS)
        err = 0;
    if (!err)
        err = -tcp_cm_watch(cm, handshake->fd, EPOLLOUT, &handshake->item);
    handshake->silence.start_ms = clock_ms();
    wait_until(handshake, handshake->silence.start_ms + ep->conn.settings->connect_ms);
    ep->handshake = handshake;
    if (err)
        fail_errno(handshake, err);
    else
        tcp_cm_arm(cm);
    return 0;
}
