/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages and writes whose bytes the device reads, and what becomes of them where it cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "tests/layers/srd/live/play.h"

/* ---- Memory that is read ---- */

enum {
    SOURCE = 50000
};

/* A message, or a write, whose bytes lie at the peer that is played, in two places. */
static struct fid_mr *lend(struct srd_header *header)
{
    struct fid_mr *mr = reg(&raw, large, SOURCE, FI_REMOTE_READ);
    uint64_t key = fi_mr_key(mr);

    header->total = SOURCE;
    header->read_count = 2;
    header->reads[0] = (struct fi_rma_iov){(uintptr_t)large, 30000, key};
    header->reads[1] = (struct fi_rma_iov){(uintptr_t)large + 30000, SOURCE - 30000, key};
    return mr;
}

static void the_device_is_announced(void **state)
{
    struct srd_header got;

    send_packet((struct srd_header){.type = SRD_EAGER_RTW}, "", 0);
    got = expect(SRD_HANDSHAKE);
    assert_true(got.features & SRD_CAN_READ);
    assert_false(got.features & SRD_CAN_WRITE); /* it reads only */
}

static void a_message_is_read_into_place(void **state)
{
    struct iovec iov[] = {{in, 100}, {in + 1000, LARGE - 1000}};
    struct fi_msg_tagged msg = {.msg_iov = iov, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .tag = 8};
    struct srd_header header = {.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42}, got;
    struct fid_mr *mr = lend(&header);

    memset(in, 0, sizeof(in));
    assert_int_equal(fi_trecvmsg(a.ep, &msg, FI_COMPLETION), 0);
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_EOR);
    assert_int_equal(got.send_id, 42);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, large, 100);
    assert_memory_equal(in + 1000, large + 100, SOURCE - 100);
    assert_int_equal(fi_close(&mr->fid), 0);
    next_msg++;
    assert_alive();
}

static void a_message_waits_to_be_read(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42};
    struct fid_mr *mr = lend(&header);

    send_packet(header, "", 0);
    assert_true(silent());
    receive(8);
    assert_int_equal(expect(0).type, SRD_EOR);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, large, SOURCE);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void a_short_receive_reads_what_it_has(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42};
    struct fid_mr *mr = lend(&header);

    memset(in, 0, sizeof(in));
    assert_int_equal(fi_trecv(a.ep, in, 35000, NULL, FI_ADDR_UNSPEC, 8, 0, in), 0);
    send_packet(header, "", 0);
    assert_int_equal(expect(0).type, SRD_EOR);
    assert_int_equal(ended(), FI_ETRUNC);
    assert_memory_equal(in, large, 35000);
    assert_int_equal(in[35000], 0);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void the_rest_of_a_runt_is_read(void **state)
{
    struct srd_header header = {
        .type = SRD_RUNTREAD_TAG, .tag = 8, .send_id = 42, .runt = 4000, .offset = 2000};
    struct fid_mr *mr = lend(&header);

    memset(in, 0, sizeof(in));
    receive(8);
    send_packet(header, large + 2000, 2000);
    assert_true(silent());
    header.offset = 0;
    send_packet(header, large, 2000);
    assert_int_equal(expect(0).type, SRD_EOR);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, large, SOURCE);
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* While it is being read its number is for no other packet: neither for one that has it read again,
 * nor for one that begins it anew, which the receiver has not asked for. */
static void refuse_while_read(const struct srd_header *second)
{
    struct srd_header headers[2] = {{.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42}};
    struct fid_mr *mr = lend(&headers[0]);

    headers[1] = second ? *second : headers[0];
    receive(8);
    send_together(headers, 2);
    assert_int_equal(ended(), FI_ECONNRESET);
    assert_dead();
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void a_message_is_read_once(void **state)
{
    refuse_while_read(NULL);
}

static void a_message_anew_while_it_is_read_kills(void **state)
{
    const struct srd_header anew = {
        .type = SRD_LONGCTS_TAG, .flags = SRD_AFTER_NACK, .total = SOURCE, .tag = 8, .send_id = 43};

    refuse_while_read(&anew);
}

/* Its beginning is not there yet, so that the receiver has not asked for the rest. */
static void a_runt_anew_before_its_end_kills(void **state)
{
    struct srd_header header = {.type = SRD_RUNTREAD_TAG, .tag = 8, .send_id = 42, .runt = 4000};
    struct fid_mr *mr = lend(&header);

    receive(8);
    send_packet(header, large, 2000);
    assert_true(silent());
    header = (struct srd_header){
        .type = SRD_LONGCTS_TAG, .flags = SRD_AFTER_NACK, .total = SOURCE, .tag = 8, .send_id = 43};
    send_packet(header, "", 0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* The same, but all bytes of its beginning are there: it is being read. */
static void a_piece_behind_a_runt_kills(void **state)
{
    struct srd_header headers[2] = {{.type = SRD_RUNTREAD_TAG, .tag = 8, .send_id = 42}};
    struct fid_mr *mr = lend(&headers[0]);

    headers[1] = headers[0];
    receive(8);
    send_together(headers, 2);
    assert_int_equal(ended(), FI_ECONNRESET);
    assert_dead();
    assert_int_equal(fi_close(&mr->fid), 0);
}

/* A peer without READ_NACK cannot be asked: the receive fails, and the peer is through with it. */
static void an_old_peer_is_not_asked_to_send(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42};
    struct fid_mr *mr = lend(&header);

    introduce_with(SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_READ);
    header.reads[0].key++;
    receive(8);
    send_packet(header, "", 0);
    assert_int_equal(expect(0).type, SRD_EOR);
    assert_int_equal(ended(), FI_EIO);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void peer_reads(const struct srd_header *got, char *to)
{
    struct fid_mr *mr = reg(&raw, to, LARGE, FI_READ);
    uint64_t at = 0;

    for (unsigned i = 0; i < got->read_count; i++) {
        assert_int_equal(fi_read(raw.ep, to + at, got->reads[i].len, fi_mr_desc(mr), raw.peer,
                                 got->reads[i].addr, got->reads[i].key, NULL),
                         0);
        at += got->reads[i].len;
    }
    for (int i = 0; i < 50; i++)
        drive();
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void a_large_message_is_lent(void **state)
{
    static char to[LARGE];
    struct srd_header got;

    introduce_with(FEATURES | SRD_CAN_READ);
    assert_int_equal(fi_tsend(a.ep, large, LARGE, NULL, a.peer, 3, NULL), 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_LONGREAD_TAG);
    assert_int_equal(got.total, LARGE);
    peer_reads(&got, to);
    assert_memory_equal(to, large, LARGE);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_EOR, .send_id = got.send_id + 1}, "", 0);
    assert_int_equal(fi_cq_read(a.cq, NULL, 0), -FI_EAGAIN);
    send_packet((struct srd_header){.type = SRD_EOR, .send_id = got.send_id}, "", 0);
    assert_int_equal(ended(), 0);
    send_packet((struct srd_header){.type = SRD_EOR, .send_id = got.send_id}, "", 0);
    assert_alive();
}

static void what_cannot_be_read_is_sent(void **state)
{
    struct srd_header got, cts = {.type = SRD_CTS, .recv_id = 77, .window = 1000};
    uint32_t msg_id;

    introduce_with(FEATURES | SRD_CAN_READ);
    assert_int_equal(fi_tsend(a.ep, large, LARGE, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGREAD_TAG);
    msg_id = got.msg_id;
    send_packet((struct srd_header){.type = SRD_READ_NACK, .send_id = got.send_id}, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_LONGCTS_TAG);
    assert_true(got.flags & SRD_AFTER_NACK);
    assert_int_equal(got.msg_id, msg_id);
    assert_int_equal(got.tag, 3);
    assert_int_equal(got.len, 0);
    cts.send_id = got.send_id;
    send_packet(cts, "", 0);
    got = expect(SRD_CTSDATA);
    assert_int_equal(got.offset, 0);
    assert_memory_equal(got.payload, large, 1000);
    /* A second one, and an end of what is not read any more. */
    send_packet((struct srd_header){.type = SRD_READ_NACK, .send_id = cts.send_id}, "", 0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

/* The application closes the region of a message while the peer reads it: the read fails, and the
 * bytes are sent without the region; or the peer ends it, and so does the message, once. */
static void a_region_closes_while_it_is_read(void **state)
{
    struct srd_header got, cts = {.type = SRD_CTS, .recv_id = 77, .window = 1000};
    struct fid_mr *mr, *to = reg(&raw, in, LARGE, FI_READ);
    struct fi_cq_err_entry error = {0};
    struct fi_cq_tagged_entry entry;
    ssize_t rc = -FI_EAGAIN;

    introduce_with(FEATURES | SRD_CAN_READ | SRD_CAN_ERROR);
    for (int round = 0; round < 2; round++) {
        mr = reg(&a, large, LARGE, FI_SEND);
        assert_int_equal(fi_tsend(a.ep, large, LARGE, fi_mr_desc(mr), a.peer, 3, NULL), 0);
        got = expect(SRD_LONGREAD_TAG);
        assert_int_equal(fi_close(&mr->fid), 0);
        if (!round) {
            assert_int_equal(fi_read(raw.ep, in, 1000, fi_mr_desc(to), raw.peer, got.reads[0].addr,
                                     got.reads[0].key, NULL),
                             0);
            for (int i = 0; i < TURNS && rc == -FI_EAGAIN; i++) {
                fi_cq_read(a.cq, NULL, 0);
                rc = fi_cq_read(raw.cq, &entry, 1);
            }
            assert_int_equal(rc, -FI_EAVAIL);
            assert_int_equal(fi_cq_readerr(raw.cq, &error, 0), 1);
        }
        send_packet((struct srd_header){.type = SRD_READ_NACK, .send_id = got.send_id}, "", 0);
        got = expect(SRD_LONGCTS_TAG);
        cts.send_id = got.send_id;
        send_packet(cts, "", 0);
        got = expect(SRD_CTSDATA);
        assert_memory_equal(got.payload, large, 1000);
        send_packet((struct srd_header){.type = SRD_PEER_ERROR,
                                        .send_id = cts.send_id,
                                        .ref_kind = SRD_REF_OP,
                                        .error = 4127},
                    "", 0);
        assert_int_equal(ended(), FI_ECONNABORTED);
        assert_true(silent());
        assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
    }
    assert_int_equal(fi_close(&to->fid), 0);
    assert_alive();
}

/* The same at the receiver, whose region is that of a message which is being read into it: by the
 * peer's end it ends with an error, once. */
static void a_lent_region_that_is_gone_is_an_error_once(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_TAG, .tag = 8, .send_id = 42};
    struct fid_mr *mr = lend(&header);
    struct fi_cq_tagged_entry entry;

    introduce_with(SRD_CAN_DC | SRD_WANTS_CONNID | SRD_CAN_READ);
    send_packet(header, "", 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    receive(8);
    assert_int_equal(ended(), FI_EIO);
    assert_int_equal(expect(SRD_EOR).send_id, 42);
    assert_true(silent());
    assert_int_equal(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
}

static void a_write_is_lent(void **state)
{
    const struct srd_header nack = {.type = SRD_READ_NACK};
    struct srd_header got, answer = {.type = SRD_EOR};

    introduce_with(FEATURES | SRD_CAN_READ);
    assert_int_equal(fi_write(a.ep, large, 70000, NULL, a.peer, 4096, 9, NULL), 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_LONGREAD_RTW);
    assert_int_equal(got.total, 70000);
    assert_int_equal(got.places[0].addr, 4096);
    answer.send_id = got.send_id;
    send_packet(answer, "", 0);
    assert_int_equal(ended(), 0);
    assert_int_equal(fi_write(a.ep, large, 70000, NULL, a.peer, 4096, 9, NULL), 0);
    got = expect(SRD_LONGREAD_RTW);
    answer = nack;
    answer.send_id = got.send_id;
    send_packet(answer, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_LONGCTS_RTW);
    assert_memory_equal(got.payload, large, got.len);
}

static void a_peers_write_is_read(void **state)
{
    struct srd_header header = {.type = SRD_LONGREAD_RTW, .send_id = 5, .place_count = 1}, got;
    struct fid_mr *mr = lend(&header), *target = reg(&a, in, LARGE, FI_REMOTE_WRITE);

    memset(in, 0, sizeof(in));
    introduce_with(FEATURES | SRD_CAN_READ | SRD_CAN_ERROR);
    header.places[0] = (struct fi_rma_iov){(uintptr_t)in, SOURCE, fi_mr_key(target)};
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_EOR);
    assert_int_equal(got.send_id, 5);
    assert_memory_equal(in, large, SOURCE);
    header.places[0].key++;
    send_packet(header, "", 0);
    assert_refused(5);
    header.places[0].key--;
    header.reads[1].key++;
    send_packet(header, "", 0);
    got = expect(0);
    assert_int_equal(got.type, SRD_READ_NACK);
    assert_int_equal(got.send_id, 5);
    assert_int_equal(fi_close(&target->fid), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void a_read_needs_no_packet(void **state)
{
    struct fid_mr *mr = reg(&raw, large, SOURCE, FI_REMOTE_READ);

    introduce_with(FEATURES | SRD_CAN_READ);
    memset(in, 0, sizeof(in));
    assert_int_equal(fi_read(a.ep, in, SOURCE, NULL, a.peer, (uintptr_t)large, fi_mr_key(mr), NULL),
                     0);
    assert_int_equal(ended(), 0);
    assert_memory_equal(in, large, SOURCE);
    assert_true(silent());
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void options_tell_of_the_device(void **state)
{
    const size_t retries = 3;
    bool is = false;
    size_t len = sizeof(is);
    struct fid_ep *ep;

    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_READ, &is, &len),
                     0);
    assert_false(is);
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_WRITE, &is, &len),
                     0);
    assert_true(is); /* the lower only reads */
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_ATOMICS, &is, &len),
                     0);
    assert_true(is);
    len = 0;
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_READ, &is, &len),
                     -FI_ETOOSMALL);
    is = false;
    assert_int_equal(
        fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_DEVICE_RDMA, &is, sizeof(is)),
        -FI_EINVAL); /* enabled */
    assert_int_equal(
        fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_RNR_RETRY, &retries, sizeof(retries)),
        -FI_ENOPROTOOPT); /* the lower has none */
    assert_int_equal(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
    assert_int_equal(
        fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_DEVICE_RDMA, &is, sizeof(is)), 0);
    len = sizeof(is);
    assert_int_equal(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_EMULATED_READ, &is, &len), 0);
    assert_true(is);
    assert_int_equal(
        fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_EFA_USE_DEVICE_RDMA, &is, sizeof(is)),
        -FI_EOPNOTSUPP);
    assert_int_equal(fi_close(&ep->fid), 0);
}

/* loop knows no such option: what is accepted is the lower's affair. */
static void shared_memory_may_be_forbidden(void **state)
{
    struct end end;
    bool is = true;

    open_end(&end, "srd(shm_transfer=no);loop(shape=srd)", FI_MSG, 0);
    assert_int_equal(
        fi_setopt(&end.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &is, sizeof(is)),
        -FI_EINVAL);
    is = false;
    assert_int_equal(
        fi_setopt(&end.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &is, sizeof(is)),
        -FI_ENOPROTOOPT);
    end_close(&end);
}

/* ---- Variables of libfabric's ---- */

/* Which packet begins a message, or a write, of these bytes while a variable has a value. */
static struct srd_header first_of(const char *name, const char *value, size_t len, bool is_write)
{
    struct srd_header got;

    setenv(name, value, 1);
    open_all(NULL);
    unsetenv(name);
    introduce_with(FEATURES | SRD_CAN_READ | SRD_CAN_RUNT);
    if (is_write)
        assert_int_equal(fi_write(a.ep, large, len, NULL, a.peer, 4096, 9, NULL), 0);
    else
        assert_int_equal(fi_tsend(a.ep, large, len, NULL, a.peer, 3, NULL), 0);
    got = expect(0);
    close_all(NULL);
    return got;
}

static void sizes_are_those_of_libfabrics_variables(void **state)
{
    static const struct {
        const char *name, *value;
        size_t len;
        bool is_write;
        uint8_t type;
    } cases[] = {
        {"FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", "20000", 20000, false, SRD_MEDIUM_TAG},
        {"FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", "20000", 20001, false, SRD_LONGCTS_TAG},
        {"FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "90000", 89999, false, SRD_LONGCTS_TAG},
        {"FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", "90000", 90000, false, SRD_LONGREAD_TAG},
        {"FI_EFA_INTER_MIN_READ_WRITE_SIZE", "30000", 29999, true, SRD_LONGCTS_RTW},
        {"FI_EFA_INTER_MIN_READ_WRITE_SIZE", "30000", 30000, true, SRD_LONGREAD_RTW},
        {"FI_EFA_RUNT_SIZE", "5000", LARGE, false, SRD_RUNTREAD_TAG},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(
            first_of(cases[i].name, cases[i].value, cases[i].len, cases[i].is_write).type,
            cases[i].type);
    assert_int_equal(first_of("FI_EFA_RUNT_SIZE", "5000", LARGE, false).runt, 5000);
}

/* And where none is set. */
static void sizes_are_libfabrics(void **state)
{
    static const struct {
        size_t len;
        bool is_write;
        uint8_t type;
    } cases[] = {
        {65536, false, SRD_MEDIUM_TAG},      {65537, false, SRD_LONGCTS_TAG},
        {LARGE - 1, false, SRD_LONGCTS_TAG}, {LARGE, false, SRD_LONGREAD_TAG},
        {65535, true, SRD_LONGCTS_RTW},      {65536, true, SRD_LONGREAD_RTW},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        assert_int_equal(first_of("FI_EFA_NONE", "", cases[i].len, cases[i].is_write).type,
                         cases[i].type);
}

/* Of a number for a message that is not lent. */
static void an_end_of_no_read_kills(void **state)
{
    struct srd_header got;

    assert_int_equal(fi_tsend(a.ep, large, 100000, NULL, a.peer, 3, NULL), 0);
    got = expect(SRD_LONGCTS_TAG);
    shake_hands();
    send_packet((struct srd_header){.type = SRD_EOR, .send_id = got.send_id}, "", 0);
    assert_int_equal(ended(), FI_EPROTO);
    assert_dead();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_device_is_announced),
        CASE(a_message_is_read_into_place),
        CASE(a_message_waits_to_be_read),
        CASE(a_short_receive_reads_what_it_has),
        CASE(the_rest_of_a_runt_is_read),
        CASE(a_message_is_read_once),
        CASE(a_message_anew_while_it_is_read_kills),
        CASE(a_runt_anew_before_its_end_kills),
        CASE(a_piece_behind_a_runt_kills),
        CASE(an_old_peer_is_not_asked_to_send),
        CASE(a_large_message_is_lent),
        CASE(what_cannot_be_read_is_sent),
        CASE(a_region_closes_while_it_is_read),
        CASE(a_lent_region_that_is_gone_is_an_error_once),
        CASE(a_write_is_lent),
        CASE(a_peers_write_is_read),
        CASE(a_read_needs_no_packet),
        CASE(options_tell_of_the_device),
        cmocka_unit_test(shared_memory_may_be_forbidden),
        CASE(an_end_of_no_read_kills),
        cmocka_unit_test(sizes_are_those_of_libfabrics_variables),
        cmocka_unit_test(sizes_are_libfabrics),
    };

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (char)(i * 7 + i / 251);
    return cmocka_run_group_tests_name("srd: read", tests, NULL, NULL);
}
