/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are read where they lie (OPT_READER): by the layer right above, before the endpoint
 * is enabled. A layer in between, which would not see them, has the option refused, and what is
 * refused leaves packets to receives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "../../../core/base/seam.h"

enum {
    LEN = 100
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_av *av;
static struct fid_ep *ep[2];
static fi_addr_t to;
static unsigned char got[LEN];
static size_t came; /* packets, to the reader */

static bool take(void *arg, const uint8_t *bytes, size_t len, uint64_t src)
{
    assert_ptr_equal(arg, got);
    assert_int_equal(len, LEN);
    memcpy(got, bytes, len);
    came++;
    return true;
}

static void open_ends(const char *spec)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT, .size = 64};
    struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
    struct fi_info *hints = fi_allocinfo();

    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    setenv("FI_PROVIDER", spec, 1);
    assert_int_equal(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info), 0);
    fi_freeinfo(hints);
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), 0);
    assert_int_equal(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
    assert_int_equal(fi_av_open(domain, &av_attr, &av, NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fi_endpoint(domain, info, &ep[i], NULL), 0);
        assert_int_equal(fi_ep_bind(ep[i], &cq->fid, FI_TRANSMIT | FI_RECV), 0);
        assert_int_equal(fi_ep_bind(ep[i], &av->fid, 0), 0);
    }
    came = 0;
    memset(got, 0, sizeof(got));
}

static void enable_ends(void)
{
    char name[256];
    size_t len = sizeof(name);

    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_enable(ep[i]), 0);
    assert_int_equal(fi_getname(&ep[1]->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(av, name, 1, &to, 0, NULL), 1);
}

static void close_ends(void)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(fi_close(&ep[i]->fid), 0);
    assert_int_equal(fi_close(&av->fid), 0);
    assert_int_equal(fi_close(&cq->fid), 0);
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

static struct packet_reader reader_of(const struct fid_ep *of)
{
    return (struct packet_reader){.of = of, .room = 16, .read = take, .arg = got};
}

static int set(const struct packet_reader *reader, size_t len)
{
    return fi_setopt(&ep[1]->fid, FI_OPT_ENDPOINT, OPT_READER, reader, len);
}

/* receives: it goes to one, else to the reader. */
static void a_message_comes(bool receives)
{
    unsigned char out[LEN], in[LEN] = {0};
    unsigned left = receives ? 2 : 1;
    struct fi_cq_entry entry;

    memset(out, 7, sizeof(out));
    if (receives)
        assert_int_equal(fi_recv(ep[1], in, LEN, NULL, FI_ADDR_UNSPEC, in), 0);
    assert_int_equal(fi_send(ep[0], out, LEN, NULL, to, out), 0);
    while (left || came != !receives) {
        ssize_t rc = fi_cq_read(cq, &entry, 1);

        assert_true(rc == 1 || rc == -FI_EAGAIN);
        left -= rc == 1;
    }
    assert_memory_equal(receives ? in : got, out, LEN);
}

static void a_reader_gets_packets(void **state)
{
    struct packet_reader reader;

    open_ends("arq;udp(iface=lo)");
    reader = reader_of(ep[1]);
    assert_int_equal(set(&reader, sizeof(reader)), 0);
    enable_ends();
    a_message_comes(false);
    close_ends();
}

static void what_is_refused_leaves_them_to_receives(void **state)
{
    struct packet_reader reader;

    open_ends("arq;udp(iface=lo)");
    reader = reader_of(ep[0]); /* another endpoint's */
    assert_int_equal(set(&reader, sizeof(reader)), -FI_ENOPROTOOPT);
    reader = reader_of(ep[1]);
    assert_int_equal(set(&reader, sizeof(reader) - 1), -FI_EINVAL);
    enable_ends();
    assert_int_equal(set(&reader, sizeof(reader)), -FI_EINVAL); /* receives may be posted */
    a_message_comes(true);
    assert_int_equal(came, 0);
    close_ends();
}

static void a_layer_in_between_has_it_refused(void **state)
{
    static const char *const specs[] = {"noop;arq;udp(iface=lo)", "trace;arq;udp(iface=lo)"};

    for (unsigned i = 0; i < 2; i++) {
        struct packet_reader reader;

        open_ends(specs[i]);
        reader = reader_of(ep[1]);
        assert_true(set(&reader, sizeof(reader)) < 0);
        enable_ends();
        a_message_comes(true);
        assert_int_equal(came, 0);
        close_ends();
    }
}

/* An application sends messages of one packet; those of several are for a reader's peers. */
static void without_a_reader_a_message_has_one_packet(void **state)
{
    struct fi_cq_entry entry;
    unsigned char *out;
    size_t most;

    open_ends("arq;udp(iface=lo)");
    enable_ends();
    most = info->ep_attr->max_msg_size;
    out = calloc(1, most + 1);
    assert_non_null(out);
    a_message_comes(true); /* there is a session */
    assert_int_equal(fi_send(ep[0], out, most + 1, NULL, to, out), -FI_EMSGSIZE);
    assert_int_equal(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
    close_ends();
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_packets),
        cmocka_unit_test(what_is_refused_leaves_them_to_receives),
        cmocka_unit_test(a_layer_in_between_has_it_refused),
        cmocka_unit_test(without_a_reader_a_message_has_one_packet),
    };

    return cmocka_run_group_tests_name("arq: readers", tests, NULL, NULL);
}
