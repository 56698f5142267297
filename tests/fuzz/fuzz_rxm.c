/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Any packets from a peer into an endpoint of rxm(tags=emulate) with operations outstanding:
 * nothing is touched that should not be, every operation ends at most once, and all that were
 * accepted once the connection is gone. Byte 0: 1 receives posted to each connection, 2 receives
 * posted late, 4 own large messages are written. Then packets: two bytes of length, and so many
 * bytes of header and payload, whose index of the connection is put right unless the length is odd.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "layers/rxm/conn/rxm_proto.h"
#include "layers/rxm/msgproto/rxm_packet.h"
#include "tests/fuzz/must.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    EAGER = 512,
    OPS = 16,
    ROOM = 2048,
    GUARD_SIZE = 64,
    REGION = 256,
    GUARD = 0x5a,
    KINDS = 4, /* of endpoints: bits 1 and 4 of byte 0 */
    TURNS = 400,
};

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_mr *mr;
};

/* The endpoint, and who talks to it. */
struct pair {
    struct fid_ep *ep, *from;
    struct fid_pep *listener;
    struct fid_cq *cq, *from_cq;
    struct fid_av *av;
    struct fid_eq *eq;
    fi_addr_t peer;
    unsigned ended[OPS], posted[OPS];
    bool connected, gone;
};

static struct side victims[KINDS], attacker;
static uint8_t region[REGION + 2 * GUARD_SIZE];
static uint8_t rooms[OPS][ROOM + 2 * GUARD_SIZE];

static void open_side(struct side *side, const char *spec, enum fi_ep_type type)
{
    struct fi_info *hints = info_complete(NULL);

    must(hints && !info_set_string(&hints->fabric_attr->prov_name, spec));
    hints->ep_attr->type = type;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = 0;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    must(!getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &side->info));
    must(!fabric_open(side->info->fabric_attr, NULL, ABI_1_9, &side->fabric, NULL));
    must(!fi_domain(side->fabric, side->info, &side->domain, NULL));
    must(!fi_mr_reg(side->domain, region + GUARD_SIZE, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                    1, 0, &side->mr, NULL));
    info_free(hints);
}

static void set_up(void)
{
    static const char *const specs[KINDS] = {
        "rxm(tags=emulate,buffer_size=512,sar_limit=1k,saved_size=64k);loop",
        "rxm(tags=emulate,buffer_size=512,sar_limit=1k,saved_size=64k,use_srx=no,msg_rx_size=8);"
        "loop",
        "rxm(tags=emulate,buffer_size=512,sar_limit=1k,saved_size=64k,use_rndv_write=yes);loop",
        "rxm(tags=emulate,buffer_size=512,sar_limit=1k,saved_size=64k,use_srx=no,msg_rx_size=8,"
        "use_rndv_write=yes);loop",
    };

    setenv("FI_LOG_LEVEL", "none", 0);
    for (int i = 0; i < KINDS; i++)
        open_side(&victims[i], specs[i], FI_EP_RDM);
    open_side(&attacker, "loop", FI_EP_MSG);
}

/* ---- The endpoint ---- */

static void drain(struct pair *p)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;
    ssize_t rc;

    while ((rc = fi_cq_read(p->cq, &done, 1)) != -FI_EAGAIN) {
        uintptr_t context = (uintptr_t)done.op_context;

        if (rc != 1) {
            memset(&error, 0, sizeof(error));
            must(fi_cq_readerr(p->cq, &error, 0) == 1);
            context = (uintptr_t)error.op_context;
        }
#ifdef FUZZ_PLANTED
        /* As if a segmented message could not be truncated. */
        must(rc == 1 || error.err != FI_ETRUNC);
#endif
        must(context < OPS);
        if (context)
            must(++p->ended[context] == 1 && p->posted[context]);
    }
}

static void open_victim(struct pair *p, struct side *side)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};

    must(!fi_endpoint(side->domain, side->info, &p->ep, NULL));
    must(!fi_cq_open(side->domain, &cq_attr, &p->cq, NULL));
    must(!fi_av_open(side->domain, &av_attr, &p->av, NULL));
    must(!fi_ep_bind(p->ep, &p->cq->fid, FI_TRANSMIT | FI_RECV));
    must(!fi_ep_bind(p->ep, &p->av->fid, 0));
    must(!fi_enable(p->ep));
}

static void post_receives(struct pair *p)
{
    for (uintptr_t i = 8; i < OPS; i++) {
        uint8_t *room = rooms[i] + GUARD_SIZE;
        size_t len = i % 4 == 3 ? ROOM : 300;

        p->posted[i] = !(i % 2 ? fi_trecv(p->ep, room, len, NULL, FI_ADDR_UNSPEC, i,
                                          i == 9 ? UINT64_MAX : 0, (void *)i)
                               : fi_recv(p->ep, room, len, NULL, FI_ADDR_UNSPEC, (void *)i));
    }
}

/* Contexts 1 to 5. */
static void post_sends(struct pair *p)
{
    p->posted[1] = !fi_send(p->ep, rooms[1], 40, NULL, p->peer, (void *)1);
    p->posted[2] = !fi_tsend(p->ep, rooms[2], 900, NULL, p->peer, 2, (void *)2);
    p->posted[3] = !fi_tsend(p->ep, rooms[3], ROOM, NULL, p->peer, 3, (void *)3);
    p->posted[4] = !fi_fetch_atomic(p->ep, rooms[4], 2, NULL, rooms[5] + GUARD_SIZE, NULL, p->peer,
                                    0, 1, FI_UINT64, FI_SUM, (void *)4);
    p->posted[5] = !fi_read(p->ep, rooms[6] + GUARD_SIZE, 32, NULL, p->peer, 0, 1, (void *)5);
}

/* ---- The other side ---- */

static void answer_read_events(struct pair *p)
{
    uint8_t room[sizeof(struct fi_eq_cm_entry) + 64];
    struct fi_eq_err_entry error = {.err_data_size = 0};
    uint32_t event;
    ssize_t len;

    while ((len = fi_eq_read(p->eq, &event, room, sizeof(room), 0)) != -FI_EAGAIN) {
        if (len < 0) {
            if (fi_eq_readerr(p->eq, &error, 0) < 0)
                break;
            p->gone = true;
        }
        p->connected |= len > 0 && event == FI_CONNECTED;
        p->gone |= len > 0 && event == FI_SHUTDOWN;
    }
}

static void drive(struct pair *p)
{
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error = {.err_data_size = 0};
    ssize_t rc;

    drain(p);
    answer_read_events(p);
    while ((rc = fi_cq_read(p->from_cq, &done, 1)) != -FI_EAGAIN) {
        if (rc != 1)
            fi_cq_readerr(p->from_cq, &error, 0);
    }
}

/* A listener, only for its address, which the endpoint knows. */
static void open_attacker(struct pair *p)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE};
    struct sockaddr_in to, self;
    size_t len = sizeof(to);
    struct rxm_self says = {.pid = 1, .eager_limit = EAGER, .rx_size = 8, .flow = RXM_FLOW_ON};
    uint8_t data[RXM_PROTO_MAX];

    must(!fi_eq_open(attacker.fabric, &eq_attr, &p->eq, NULL));
    must(!fi_passive_ep(attacker.fabric, attacker.info, &p->listener, NULL));
    must(!fi_pep_bind(p->listener, &p->eq->fid, 0));
    must(!fi_listen(p->listener));
    must(!fi_getname(&p->listener->fid, &self, &len));
    must(fi_av_insert(p->av, &self, 1, &p->peer, 0, NULL) == 1);
    must(!fi_endpoint(attacker.domain, attacker.info, &p->from, NULL));
    must(!fi_cq_open(attacker.domain, &cq_attr, &p->from_cq, NULL));
    must(!fi_ep_bind(p->from, &p->eq->fid, 0));
    must(!fi_ep_bind(p->from, &p->from_cq->fid, FI_TRANSMIT | FI_RECV));
    must(!fi_enable(p->from));
    for (int i = 0; i < 8; i++)
        fi_recv(p->from, rooms[0], EAGER + RXM_PACKET_SIZE, NULL, FI_ADDR_UNSPEC, NULL);
    len = sizeof(to);
    must(!fi_getname(&p->ep->fid, &to, &len));
    says.port = ntohs(self.sin_port);
    must(!fi_connect(p->from, &to, data, rxm_proto_rxm.request(&says, data)));
    for (int i = 0; i < TURNS && !p->connected; i++)
        drive(p);
    must(p->connected);
    for (int i = 0; i < 4; i++)
        drive(p); /* the endpoint learns of it */
}

static void feed(struct pair *p, const uint8_t *data, size_t size)
{
    static uint8_t packet[2 * (EAGER + RXM_PACKET_SIZE)];
    static const uint64_t index = 0;

    while (size > 2 && !p->gone) {
        size_t len = (size_t)(data[0] | data[1] << 8), odd = len & 1;

        len = len / 2 % sizeof(packet);
        data += 2;
        size -= 2;
        memset(packet, 0, len);
        memcpy(packet, data, len < size ? len : size);
        if (!odd && len >= 16)
            memcpy(packet + 8, &index, sizeof(index));
        data += len < size ? len : size;
        size -= len < size ? len : size;
        fi_send(p->from, packet, len, NULL, FI_ADDR_UNSPEC, NULL);
        for (int i = 0; i < 3; i++)
            drive(p);
    }
}

/* ---- One input ---- */

/* A whole stack has so many features that weighing inputs by them takes ten times as long as they
 * do. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char plain[] = "-entropic=0";
    char **mine = calloc((size_t)*argc + 2, sizeof(*mine));

    must(mine != NULL);
    memcpy(mine, *argv, (size_t)*argc * sizeof(*mine));
    mine[(*argc)++] = plain;
    *argv = mine;
    return 0;
}

static void check_guards(void)
{
    for (size_t i = 0; i < GUARD_SIZE; i++) {
        must(region[i] == GUARD && region[GUARD_SIZE + REGION + i] == GUARD);
        for (size_t op = 1; op < OPS; op++)
            must(rooms[op][i] == GUARD && rooms[op][GUARD_SIZE + ROOM + i] == GUARD);
    }
}

static bool all_ended(const struct pair *p)
{
    for (int i = 1; i < 8; i++) {
        if (p->ended[i] != p->posted[i])
            return false;
    }
    return true;
}

static void close_all(struct pair *p)
{
    must(!fi_close(&p->from->fid));
    must(!fi_close(&p->from_cq->fid));
    must(!fi_close(&p->listener->fid));
    for (int i = 0; i < TURNS && !all_ended(p); i++)
        drain(p);
    must(all_ended(p)); /* the connection is gone, and its peer does not listen */
    must(!fi_close(&p->ep->fid));
    drain(p);
    must(!fi_close(&p->av->fid));
    must(!fi_close(&p->cq->fid));
    must(!fi_close(&p->eq->fid));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pair p = {.connected = false};

    if (size < 3)
        return 0;
    if (!attacker.fabric)
        set_up();
    memset(region, GUARD, sizeof(region));
    memset(rooms, GUARD, sizeof(rooms));
    open_victim(&p, &victims[(data[0] & 1) | (data[0] >> 1 & 2)]);
    open_attacker(&p);
    if (!(data[0] & 2))
        post_receives(&p);
    post_sends(&p);
    feed(&p, data + 1, size - 1);
    if (data[0] & 2) {
        post_receives(&p);
        for (int i = 0; i < 4; i++)
            drive(&p);
    }
    close_all(&p);
    check_guards();
    return 0;
}
