/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of receives and messages when the peer hangs up. */
#include <sys/socket.h>

#include "pair.h"

enum {
    FEW = 3,
    PAGE = 4096,
    PAGES = 40, /* more than one look reads */
};

static uint8_t out[100], in[100];

/* As receives without tags do: with the connection, when cancelled, and when posted too late. */
static void tagged_receives_of_an_endpoint_end(void **state)
{
    struct pair pair;
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;

    pair_open(&pair, &(struct options){.caps = FI_TAGGED});
    assert_int_equal(fi_trecv(pair.b.ep, in, 8, NULL, 0, 1, 0, in), 0);
    assert_int_equal(fi_cancel(&pair.b.ep->fid, in), 0);
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, in);
    assert_int_equal(fi_trecv(pair.b.ep, in, 8, NULL, 0, 2, 0, out), 0);
    assert_int_equal(fi_tsend(pair.a.ep, out, 8, NULL, 0, 3, NULL), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = NULL;
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, out);
    assert_int_equal(error.tag, 2);
    assert_int_equal(fi_trecv(pair.b.ep, in, 8, NULL, 0, 3, 0, NULL), 0);
    expect_completion(&pair, pair.b.rx, &done);
    assert_int_equal(done.tag, 3);
    assert_int_equal(fi_trecv(pair.b.ep, in, 8, NULL, 0, 4, 0, NULL), 0);
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
    expect_nothing(pair.b.rx);
    pair_close(&pair);
}

/* A message that makes the endpoint of b hot. */
static void warm(struct pair *pair)
{
    struct fi_cq_tagged_entry done;

    assert_int_equal(fi_recv(pair->b.ep, in, 100, NULL, 0, NULL), 0);
    assert_int_equal(fi_send(pair->a.ep, out, 5, NULL, 0, NULL), 0);
    expect_completion(pair, pair->a.tx, &done);
    expect_completion(pair, pair->b.rx, &done);
}

/* A peer sends to each of some endpoints and closes them all: an endpoint with more receives than
 * messages is told so after the messages. */
static void hang_up_on(bool hot)
{
    struct pair pair;
    struct fid_ep *a[FEW], *b[FEW];
    struct fi_cq_tagged_entry done;
    struct fi_cq_err_entry error;

    pair_open(&pair, &(struct options){0});
    for (int i = 0; i < FEW; i++)
        connect_another(&pair, &a[i], &b[i]);
    if (hot)
        warm(&pair);
    assert_int_equal(fi_recv(pair.b.ep, in, 100, NULL, 0, in), 0);
    assert_int_equal(fi_recv(pair.b.ep, in, 100, NULL, 0, out), 0);
    assert_int_equal(fi_send(pair.a.ep, out, 100, NULL, 0, NULL), 0);
    for (int i = 0; i < FEW; i++) {
        assert_int_equal(fi_recv(b[i], in, 100, NULL, 0, in), 0);
        assert_int_equal(fi_send(a[i], out, 100, NULL, 0, NULL), 0);
    }
    for (int i = 0; i <= FEW;)
        i += fi_cq_read(pair.a.tx, &done, 1) == 1;
    assert_int_equal(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = NULL;
    for (int i = 0; i < FEW; i++)
        assert_int_equal(fi_close(&a[i]->fid), 0);
    for (int i = 0; i <= FEW; i++) {
        expect_completion(&pair, pair.b.rx, &done);
        assert_ptr_equal(done.op_context, in);
    }
    assert_int_equal(expect_failure(&pair, pair.b.rx, &error), FI_ECANCELED);
    assert_ptr_equal(error.op_context, out);
    for (int i = 0; i < FEW; i++)
        assert_int_equal(fi_close(&b[i]->fid), 0);
    pair_close(&pair);
}

static void what_came_is_told_before_the_end_of_another(void **state)
{
    hang_up_on(false);
    hang_up_on(true);
}

/* The CQ of the endpoint is not read: the EQ tells, however long it takes to read what came. */
static void the_eq_tells_the_end_after_all_that_came(void **state)
{
    static uint8_t from[PAGE * PAGES], to[PAGE * PAGES];
    const int room = PAGE * PAGES * 8;
    struct pair pair;
    struct fi_eq_cm_entry event;
    struct fi_cq_tagged_entry done;
    int fd;

    pair_open(&pair, &(struct options){0});
    assert_int_equal(fi_control(&pair.b.ep->fid, FI_GET_FD, &fd), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    fill(from, sizeof(from), 1);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(fi_recv(pair.b.ep, to + i * PAGE, PAGE, NULL, 0, NULL), 0);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(fi_send(pair.a.ep, from + i * PAGE, PAGE, NULL, 0, NULL), 0);
    for (int i = 0; i < PAGES;)
        i += fi_cq_read(pair.a.tx, &done, 1) == 1;
    assert_int_equal(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = NULL;
    expect_event(&pair, FI_SHUTDOWN, &event);
    assert_ptr_equal(event.fid, &pair.b.ep->fid);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(fi_cq_read(pair.b.rx, &done, 1), 1);
    assert_memory_equal(from, to, sizeof(to));
    pair_close(&pair);
}

/* A message that may not be saved keeps the end back; the EQ tells it when that is received. */
static void the_eq_tells_the_end_after_a_message_that_waited(void **state)
{
    struct pair pair;
    struct fi_eq_cm_entry event;
    struct fi_cq_tagged_entry done;
    uint32_t which;

    pair_open(&pair, &(struct options){.spec = "tcp(max_saved_size=0)"});
    assert_int_equal(fi_send(pair.a.ep, out, 100, NULL, 0, NULL), 0);
    expect_completion(&pair, pair.a.tx, &done);
    assert_int_equal(fi_close(&pair.a.ep->fid), 0);
    pair.a.ep = NULL;
    assert_int_equal(fi_eq_sread(pair.eq, &which, &event, sizeof(event), 20, 0), -FI_EAGAIN);
    assert_int_equal(fi_recv(pair.b.ep, in, 100, NULL, 0, NULL), 0);
    expect_event(&pair, FI_SHUTDOWN, &event);
    assert_int_equal(fi_cq_read(pair.b.rx, &done, 1), 1);
    assert_int_equal(done.len, 100);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tagged_receives_of_an_endpoint_end),
        cmocka_unit_test(what_came_is_told_before_the_end_of_another),
        cmocka_unit_test(the_eq_tells_the_end_after_all_that_came),
        cmocka_unit_test(the_eq_tells_the_end_after_a_message_that_waited),
    };
    return cmocka_run_group_tests_name("tcp end", tests, NULL, NULL);
}
