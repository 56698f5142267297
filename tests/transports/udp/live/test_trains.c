/* SPDX-License-Identifier: BSD-2-Clause */
/* Trains (OPT_TRAINS of core/base/seam.h): many datagrams of one length that leave by one call, and
 * that come to the upper as they lie. */
#include "../../../support/mmsg.h"
#include "ends.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../../core/base/seam.h"

enum {
    BUFFER = 96 << 10, /* holds more than a read brings */
    BUFFERS = 48,
    ROOM = 2000, /* of a plain receive */
    MANY = 64,   /* datagrams that wait at once: enough for the kernel to put them together */
    HEAT = 200,  /* datagrams in a row: more than make a peer hot */
    WARM_LEN = 10,
    SHORT_TRAINS = 60,
    DATAGRAMS = 20000,
    LEAST = 100,          /* of a buffer's rest */
    LEAST_BUFFER = 24000, /* two take any train */
};

static char out[BUFFER], in[64][ROOM], buffers[BUFFERS][BUFFER];

/* ---- Stand before the kernel's ---- */

static unsigned trains_left, unnamed; /* calls that say how long datagrams are; without a peer */
static int refuse, refuse_unnamed;    /* an errno, once */
static bool hold_batches;

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    int *error = !message->msg_name && refuse_unnamed ? &refuse_unnamed : &refuse;

    if (!message->msg_controllen)
        return syscall(SYS_sendmsg, fd, message, flags);
    trains_left++;
    unnamed += !message->msg_name;
    if (!*error)
        return syscall(SYS_sendmsg, fd, message, flags);
    errno = *error;
    *error = 0;
    return -1;
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, mmsg_flags flags)
{
    if (!hold_batches)
        return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
    errno = EAGAIN;
    return -1;
}

static int setup(void **state)
{
    trains_left = unnamed = 0;
    refuse = refuse_unnamed = 0;
    hold_batches = false;
    return 0;
}

/* ---- The option ---- */

static int ask_port(struct end *end, const struct fid_ep *of, struct train_port *port)
{
    size_t len = sizeof(*port);

    *port = (struct train_port){.of = of};
    return fi_getopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, &len);
}

static int set_port(struct end *end, const struct train_port *port, size_t len)
{
    return fi_setopt(&end->ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, port, len);
}

static struct train_port port_of(struct end *end)
{
    struct train_port port;

    assert_int_equal(ask_port(end, end->ep, &port), 0);
    assert_non_null(port.send);
    return port;
}

static void none_comes(void *arg, void *context, uint64_t flags, const struct train *train,
                       uint64_t notes)
{
    fail();
}

/* The endpoint forgets ports that it refuses. */
static void set_wrong_ones(struct end *end)
{
    struct train_port port = {.of = b.ep == end->ep ? a.ep : NULL, .came = none_comes};

    assert_int_equal(set_port(end, &port, sizeof(port)), -FI_ENOPROTOOPT);
    port.of = end->ep;
    assert_int_equal(set_port(end, &port, sizeof(port) - 1), -FI_EINVAL);
    assert_int_equal(set_port(end, &port, sizeof(port) + 1), -FI_EINVAL);
}

static void is_for_the_layer_right_above(void **state)
{
    struct train_port port;
    size_t len = sizeof(port) - 1;

    ends_open(&(struct options){.prepare = set_wrong_ones});
    assert_int_equal(ask_port(&a, b.ep, &port), -FI_ENOPROTOOPT);
    assert_int_equal(ask_port(&a, NULL, &port), -FI_ENOPROTOOPT);
    port.of = a.ep;
    assert_int_equal(fi_getopt(&a.ep->fid, FI_OPT_ENDPOINT, OPT_TRAINS, &port, &len), -FI_EINVAL);
    assert_int_equal(ask_port(&a, a.ep, &port), 0);
    assert_non_null(port.send);
    port.came = none_comes;
    assert_int_equal(set_port(&a, &port, sizeof(port)), -FI_EINVAL); /* it is enabled */
    ends_close();
    ends_open(&(struct options){.spec = "noop;udp"});
    assert_int_equal(ask_port(&a, a.ep, &port), -FI_ENOPROTOOPT);
    ends_close();
}

/* ---- Trains that leave ---- */

/* Of segments that begin and end where no datagram does. */
static ssize_t send_train(struct train_port *port, fi_addr_t peer, size_t len, size_t segment)
{
    const size_t half = (len - 7) / 2;
    const struct iovec iov[] = {
        {out, 7}, {out + 7, 0}, {out + 7, half}, {out + 7 + half, len - 7 - half}};
    const struct train train = {
        .peer = peer, .iov = iov, .count = 4, .len = len, .segment = segment};

    return port->send(port->lower, &train);
}

static void post_receives(struct end *end, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        receive(end, in[i], ROOM);
}

/* The datagrams of a train, from receive `first` on, at a peer that knows of none. */
static void check_datagrams(struct end *end, unsigned first, size_t len, size_t segment)
{
    for (size_t at = 0; at < len; at += segment) {
        size_t its = len - at < segment ? len - at : segment;

        assert_int_equal(expect(end->rx, in[first], NULL).len, its);
        assert_memory_equal(in[first++], out + at, its);
    }
}

static void exchange(struct train_port *port, size_t len, size_t segment)
{
    unsigned before = trains_left;

    fill(out, len, (unsigned)len);
    post_receives(&b, (unsigned)((len + segment - 1) / segment));
    assert_int_equal(send_train(port, a.peer, len, segment), 0);
    assert_int_equal(trains_left, before + 1);
    check_datagrams(&b, 0, len, segment);
    expect_nothing(b.rx);
}

static void arrive_as_datagrams(const struct options *options)
{
    struct train_port port;

    ends_open(options);
    port = port_of(&a);
    exchange(&port, 40000, 1000);
    exchange(&port, 39001, 1000); /* the last has a byte */
    exchange(&port, 39999, 1000);
    exchange(&port, 1001, 1000);
    exchange(&port, 30 * 8, 8);
    assert_int_equal(unnamed, 0);
    expect_nothing(a.tx); /* an upper knows the end by itself */
    ends_close();
}

static void a_train_arrives_as_datagrams(void **state)
{
    arrive_as_datagrams(&(struct options){0});
    arrive_as_datagrams(&(struct options){.format = FI_ADDR_STR});
    arrive_as_datagrams(&(struct options){.alone = true});
}

static void heat(void)
{
    for (int i = 0; i < HEAT; i++) {
        receive(&b, in[0], ROOM);
        send_to(&a, a.peer, out, 8);
        expect(a.tx, out, NULL);
        expect(b.rx, in[0], NULL);
    }
}

static void a_hot_peer_has_its_own_socket_for_them(void **state)
{
    struct train_port port;

    ends_open(&(struct options){0});
    port = port_of(&a);
    heat();
    exchange(&port, 39001, 1000);
    assert_int_equal(unnamed, 1);
    exchange(&port, 20000, 500);
    assert_int_equal(unnamed, 2);
    refuse = EAGAIN; /* it stays hot */
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EAGAIN);
    exchange(&port, 39001, 1000);
    assert_int_equal(unnamed, 4);
    /* A train that its socket refuses leaves by the main one, and so do later ones. */
    refuse_unnamed = ECONNREFUSED;
    fill(out, 5000, 1);
    post_receives(&b, 5);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), 0);
    check_datagrams(&b, 0, 5000, 1000);
    assert_int_equal(unnamed, 5);
    exchange(&port, 39001, 1000);
    assert_int_equal(unnamed, 5);
    ends_close();
}

/* That memory is for datagrams that wait, too: they leave before it is given. */
static void a_train_may_be_put_together_in_the_lowers_memory(void **state)
{
    enum {
        WAITING = 4
    };
    static char before[WAITING][100];
    struct train_port port;
    struct iovec iov = {.iov_len = 9001};
    struct train train = {.iov = &iov, .count = 1, .len = 9001, .segment = 1000};

    ends_open(&(struct options){0});
    port = port_of(&a);
    train.peer = a.peer;
    fill(out, 9001, 1);
    for (int held = 0; held < 2; held++) {
        post_receives(&b, WAITING + 10);
        for (int i = 0; i < WAITING; i++) {
            memset(before[i], 'a' + i, sizeof(before[i]));
            send_flags(&a, a.peer, before[i], sizeof(before[i]), FI_MORE);
        }
        hold_batches = held; /* the kernel takes none, and then all */
        refuse = held ? EAGAIN : 0;
        iov.iov_base = port.memory(port.lower);
        hold_batches = false;
        refuse = 0;
        if (held)
            assert_null(iov.iov_base);
        iov.iov_base = held ? out : iov.iov_base;
        if (!held)
            memcpy(iov.iov_base, out, 9001);
        assert_int_equal(port.send(port.lower, &train), 0);
        for (int i = 0; i < WAITING; i++) {
            assert_int_equal(expect(b.rx, in[i], NULL).len, sizeof(before[i]));
            assert_memory_equal(in[i], before[i], sizeof(before[i]));
        }
        check_datagrams(&b, WAITING, 9001, 1000);
        for (int i = 0; i < WAITING; i++)
            expect(a.tx, before[i], NULL);
    }
    ends_close();
}

static void datagrams_that_wait_leave_before_it(void **state)
{
    static char before[3][8];
    struct train_port port;

    ends_open(&(struct options){0});
    port = port_of(&a);
    post_receives(&b, 8);
    fill(out, 4500, 3);
    for (int i = 0; i < 3; i++) {
        fill(before[i], 8, (unsigned)i);
        send_flags(&a, a.peer, before[i], 8, FI_MORE | FI_COMPLETION);
    }
    hold_batches = true;
    assert_int_equal(send_train(&port, a.peer, 4500, 1000), -FI_EAGAIN);
    assert_int_equal(trains_left, 0);
    hold_batches = false;
    assert_int_equal(send_train(&port, a.peer, 4500, 1000), 0);
    for (unsigned i = 0; i < 3; i++) {
        expect(a.tx, before[i], NULL);
        assert_int_equal(expect(b.rx, in[i], NULL).len, 8);
        check_filled(in[i], 8, i);
    }
    check_datagrams(&b, 3, 4500, 1000);
    ends_close();
}

static void where_nothing_cuts_there_are_none(void **state)
{
    struct train_port port;

    ends_open(&(struct options){.spec = "udp(gso=no)"});
    assert_int_equal(ask_port(&a, a.ep, &port), 0);
    assert_null(port.send);
    ends_close();
    /* The kernel may say so only when it is asked to. */
    ends_open(&(struct options){0});
    port = port_of(&a);
    refuse = EIO;
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_ENOSYS);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_ENOSYS);
    assert_int_equal(trains_left, 1);
    assert_int_equal(ask_port(&a, a.ep, &port), 0);
    assert_null(port.send);
    ends_close();
}

static void one_that_does_not_leave_says_why(void **state)
{
    static const int full[] = {EAGAIN, EINTR, ENOBUFS};
    struct train_port port;

    ends_open(&(struct options){0});
    port = port_of(&a);
    assert_int_equal(send_train(&port, a.peer + 1, 5000, 1000), -FI_EINVAL);
    assert_int_equal(send_train(&port, FI_ADDR_UNSPEC, 5000, 1000), -FI_EINVAL);
    assert_int_equal(trains_left, 0);
    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
        refuse = full[i];
        assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EAGAIN);
    }
    refuse = EPERM;
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), -FI_EPERM);
    exchange(&port, 5000, 1000);
    ends_close();
}

/* The kernel tells of it with the next call, whose datagrams have not left then. */
static void the_end_of_an_earlier_datagram_is_no_end_of_it(void **state)
{
    struct train_port port;
    struct end dead;
    fi_addr_t gone;

    ends_open(&(struct options){0});
    port = port_of(&a);
    end_open(&dead, &(struct options){0});
    gone = introduce(&a, &dead);
    end_close(&dead);
    fill(out, 5000, 1);
    post_receives(&b, 5);
    send_to(&a, gone, out, 8);
    assert_int_equal(send_train(&port, a.peer, 5000, 1000), 0);
    check_datagrams(&b, 0, 5000, 1000);
    expect_event_error(a.eq, FI_ECONNREFUSED);
    ends_close();
}

/* ---- Trains that come ---- */

/* Each datagram begins with its number. */
static size_t lens[DATAGRAMS];
static unsigned char seen[DATAGRAMS];
static uint32_t sent;
static fi_addr_t sender; /* of trains */
static unsigned came, by_train, strangers, given_back;
static struct {
    unsigned count; /* so many came */
    void *context;
    const void *bytes;
    size_t len, segment;
    uint64_t flags, notes;
} last;

static void take_datagram(const char *bytes, size_t len)
{
    uint32_t number;

    assert_true(len >= sizeof(number));
    memcpy(&number, bytes, sizeof(number));
    assert_true(number < sent);
    assert_int_equal(seen[number]++, 0);
    assert_int_equal(len, lens[number]);
    check_filled(bytes + sizeof(number), len - sizeof(number), number);
    came++;
}

static void is_in_its_buffer(void *context, const char *bytes, size_t len)
{
    size_t i = (size_t)((char *)context - buffers[0]) / BUFFER;

    assert_true(i < BUFFERS);
    assert_ptr_equal(context, buffers[i]);
    assert_true(bytes >= buffers[i] && bytes + len <= buffers[i] + BUFFER);
}

static void train_came(void *arg, void *context, uint64_t flags, const struct train *train,
                       uint64_t notes)
{
    const char *bytes = train->bytes;

    assert_ptr_equal(arg, &b);
    assert_int_equal(train->peer, sender);
    assert_null(train->iov);
    assert_true(train->segment && train->len > train->segment);
    assert_int_equal(flags & ~(uint64_t)FI_MULTI_RECV, FI_MSG | FI_RECV);
    given_back += (flags & FI_MULTI_RECV) != 0;
    is_in_its_buffer(context, bytes, train->len);
    for (size_t at = 0; at < train->len; at += train->segment) {
        size_t left = train->len - at;

        take_datagram(bytes + at, left < train->segment ? left : train->segment);
    }
    by_train += (unsigned)((train->len + train->segment - 1) / train->segment);
    last.count++;
    last.context = context;
    last.bytes = bytes;
    last.len = train->len;
    last.segment = train->segment;
    last.flags = flags;
    last.notes = notes;
}

static void want_trains(struct end *end)
{
    const struct train_port port = {.of = end->ep, .came = train_came, .arg = &b};

    if (end == &b)
        assert_int_equal(set_port(end, &port, sizeof(port)), 0);
}

/* All completions that b has by now. */
static void read_completions(void)
{
    struct fi_cq_tagged_entry entry;
    fi_addr_t src;

    while (fi_cq_readfrom(b.rx, &entry, 1, &src) == 1) {
        given_back += (entry.flags & FI_MULTI_RECV) != 0;
        if (!(entry.flags & FI_RECV))
            continue;
        is_in_its_buffer(entry.op_context, entry.buf, entry.len);
        take_datagram(entry.buf, entry.len);
        assert_true(src == sender || src == FI_ADDR_NOTAVAIL);
        strangers += src == FI_ADDR_NOTAVAIL;
    }
}

/* Until all that was sent has come. */
static void take_all(void)
{
    for (long i = 0; came < sent; i++) {
        read_completions();
        if (i > 1000)
            usleep(1000);
        assert_true(i < 60000);
    }
    read_completions();
    assert_int_equal(came, sent);
}

/* Datagrams of these lengths, end to end from out on, the last perhaps shorter. */
static void number_datagrams(size_t len, size_t segment)
{
    for (size_t at = 0; at < len; at += segment, sent++) {
        assert_true(sent < DATAGRAMS);
        lens[sent] = len - at < segment ? len - at : segment;
        memcpy(out + at, &sent, sizeof(sent));
        fill(out + at + sizeof(sent), lens[sent] - sizeof(sent), sent);
    }
}

static void post_train(struct train_port *port, fi_addr_t peer, size_t len, size_t segment)
{
    number_datagrams(len, segment);
    assert_int_equal(send_train(port, peer, len, segment), 0);
}

static void post_lone(struct end *from, fi_addr_t peer, size_t len)
{
    number_datagrams(len, len);
    send_flags(from, peer, out, len, FI_INJECT);
}

static void open_cold(struct options options)
{
    options.caps = FI_MULTI_RECV | FI_SOURCE;
    options.min_multi_recv = LEAST;
    sent = came = by_train = strangers = given_back = 0;
    memset(seen, 0, sizeof(seen));
    memset(&last, 0, sizeof(last));
    ends_open(&options);
    sender = b.peer;
}

/* So many wait that the kernel is asked to put together what comes from now on. */
static void open_warm(struct options options)
{
    open_cold(options);
    for (int i = 0; i < MANY; i++)
        post_lone(&a, a.peer, WARM_LEN);
    receive_multi(&b, buffers[0], BUFFER);
    take_all();
}

static void drop_buffer(void)
{
    assert_int_equal(fi_cancel(&b.ep->fid, buffers[0]), 0);
    expect_failure(b.rx, buffers[0], FI_ECANCELED);
}

static void a_train_comes_as_it_left(void **state)
{
    const uint32_t ecn = 1, notes = OPT_NOTES_ECN;
    struct train_port port;

    open_warm((struct options){.prepare = want_trains});
    port = port_of(&a);
    assert_int_equal(fi_setopt(&a.ep->fid, FI_OPT_ENDPOINT, OPT_ECN, &ecn, sizeof(ecn)), 0);
    assert_int_equal(fi_setopt(&b.ep->fid, FI_OPT_ENDPOINT, OPT_NOTES, &notes, sizeof(notes)), 0);
    by_train = 0;
    for (size_t len = 20000; len > 19000; len -= 332) {
        last.count = 0;
        post_train(&port, a.peer, len, 1000);
        take_all();
        assert_int_equal(last.count, 1);
        assert_ptr_equal(last.context, buffers[0]);
        assert_int_equal(last.len, len);
        assert_int_equal(last.segment, 1000);
        assert_int_equal(last.flags, FI_MSG | FI_RECV);
        assert_int_equal(OPT_NOTE_ECN(last.notes), ecn);
    }
    assert_int_equal(by_train, 20 * 3 + 20);
    /* One alone is none. */
    post_lone(&a, a.peer, 1000);
    take_all();
    assert_int_equal(last.count, 1);
    ends_close();
}

static void the_train_that_ends_a_buffer_says_so(void **state)
{
    static const size_t left[] = {LEAST, LEAST - 1, 0};
    struct train_port port;

    open_warm((struct options){.prepare = want_trains});
    port = port_of(&a);
    drop_buffer();
    for (int i = 0; i < 3; i++) {
        receive_multi(&b, buffers[2 * i], 7500 + left[i]);
        receive_multi(&b, buffers[2 * i + 1], 500);
        last.count = given_back = 0;
        post_train(&port, a.peer, 7500, 1000);
        take_all();
        assert_int_equal(last.count, 1);
        assert_ptr_equal(last.bytes, buffers[2 * i]);
        assert_int_equal(last.flags, FI_MSG | FI_RECV | (left[i] < LEAST ? FI_MULTI_RECV : 0));
        assert_int_equal(given_back, left[i] < LEAST);
        /* The buffer takes no more of them, or what it has room for. */
        post_lone(&a, a.peer, LEAST);
        take_all();
        assert_int_equal(given_back, 1);
        post_lone(&a, a.peer, left[i] < LEAST ? 400 : 500);
        take_all();
        assert_int_equal(given_back, 2);
    }
    ends_close();
}

static void each_says_who_sent_it(void **state)
{
    struct train_port port;
    struct end third;
    fi_addr_t there;

    open_warm((struct options){.prepare = want_trains});
    end_open(&third, &(struct options){0});
    there = introduce(&third, &b);
    sender = introduce(&b, &third);
    port = port_of(&third);
    assert_true(sender != b.peer);
    post_train(&port, there, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 1);
    sender = b.peer;
    port = port_of(&a);
    post_train(&port, a.peer, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 2);
    end_close(&third);
    ends_close();
}

/* Trains, lone datagrams and those of a stranger, of any length, until all buffers are used up. */
static void any_datagrams(const char *spec, unsigned seed)
{
    struct train_port port, its;
    struct end stranger;
    fi_addr_t there;
    unsigned used = 0;

    print_message("seed %u\n", seed);
    srandom(seed);
    open_warm((struct options){.spec = spec, .prepare = want_trains});
    end_open(&stranger, &(struct options){0});
    there = introduce(&stranger, &b);
    port = port_of(&a);
    its = port_of(&stranger);
    for (given_back = 0; used < BUFFERS - 3;) {
        size_t segment = 8 + (size_t)(random() % 1400);
        size_t len = segment * (size_t)(1 + random() % 30) + 4 + (size_t)random() % (segment - 4);
        size_t room = random() % 2 ? BUFFER : LEAST_BUFFER + (size_t)(random() % 40000);

        for (; used < given_back + 3; used++)
            receive_multi(&b, buffers[used + 1], room);
        switch (random() % 4) {
        case 0: post_lone(&a, a.peer, segment); break;
        case 1: post_train(&its, there, len, segment); break;
        default: post_train(&port, a.peer, len, segment); break;
        }
        take_all();
    }
    end_close(&stranger);
    ends_close();
}

static void every_datagram_comes_once(void **state)
{
    unsigned seed = getenv("WEFT_SEED") ? (unsigned)atoi(getenv("WEFT_SEED")) : 1;

    any_datagrams("udp", seed);
    assert_true(by_train > 0 && by_train < came - strangers);
    assert_true(strangers > 0);
}

static void of_a_stranger_there_are_none(void **state)
{
    struct train_port port;
    struct end stranger;
    fi_addr_t there;

    open_warm((struct options){.prepare = want_trains});
    end_open(&stranger, &(struct options){0});
    there = introduce(&stranger, &b);
    port = port_of(&stranger);
    last.count = 0;
    post_train(&port, there, 7500, 1000);
    take_all();
    assert_int_equal(last.count, 0);
    assert_int_equal(strangers, 8);
    end_close(&stranger);
    ends_close();
}

/* One after the other, each of which is too short for a look to bring many. */
static void short_ones_are_found(void **state)
{
    struct train_port port;

    open_cold((struct options){.prepare = want_trains});
    receive_multi(&b, buffers[0], BUFFER);
    port = port_of(&a);
    for (int i = 0; i < SHORT_TRAINS && !by_train; i++) {
        post_train(&port, a.peer, 2000, 600);
        take_all();
        if (i % 2 == 0)
            continue;
        post_lone(&a, a.peer, 600);
        take_all();
    }
    assert_int_equal(by_train, 4);
    ends_close();
}

/* Datagrams of one length that each is waited for, and short ones that come together. */
static void others_are_none(void **state)
{
    struct train_port port;

    open_cold((struct options){.prepare = want_trains});
    receive_multi(&b, buffers[0], BUFFER);
    port = port_of(&a);
    for (int i = 0; i < SHORT_TRAINS; i++) {
        post_lone(&a, a.peer, 600);
        take_all();
        post_train(&port, a.peer, 200, 60);
        take_all();
    }
    post_train(&port, a.peer, 2000, 600);
    take_all();
    assert_int_equal(by_train, 0);
    ends_close();
}

static void without_gro_there_are_none(void **state)
{
    unsigned seed = getenv("WEFT_SEED") ? (unsigned)atoi(getenv("WEFT_SEED")) : 1;

    any_datagrams("udp(gro=no)", seed);
    assert_int_equal(by_train, 0);
}

/* Each has its completion. */
static void an_upper_that_takes_none_gets_datagrams(void **state)
{
    struct train_port port;

    open_warm((struct options){0});
    port = port_of(&a);
    post_train(&port, a.peer, 7500, 1000);
    take_all();
    assert_int_equal(by_train, 0);
    ends_close();
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_for_the_layer_right_above),
        TEST(a_train_arrives_as_datagrams),
        TEST(a_hot_peer_has_its_own_socket_for_them),
        TEST(a_train_may_be_put_together_in_the_lowers_memory),
        TEST(datagrams_that_wait_leave_before_it),
        TEST(where_nothing_cuts_there_are_none),
        TEST(one_that_does_not_leave_says_why),
        TEST(the_end_of_an_earlier_datagram_is_no_end_of_it),
        TEST(a_train_comes_as_it_left),
        TEST(the_train_that_ends_a_buffer_says_so),
        TEST(each_says_who_sent_it),
        TEST(every_datagram_comes_once),
        TEST(of_a_stranger_there_are_none),
        TEST(short_ones_are_found),
        TEST(others_are_none),
        TEST(without_gro_there_are_none),
        TEST(an_upper_that_takes_none_gets_datagrams),
    };

    return cmocka_run_group_tests_name("udp: trains", tests, NULL, NULL);
}
