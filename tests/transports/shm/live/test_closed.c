/* SPDX-License-Identifier: BSD-2-Clause */
/* An application that has closed an endpoint has its memory back: no peer writes into it, and none
 * takes bytes that it finds there for bytes that were sent. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"

enum {
    LEN = 16 << 20,
    STEP = 400 << 10, /* less than what is attached to at once */
    KEY = 7,
    ROUNDS = 20000,
    FEW = 10,      /* rounds; more would do all of it */
    TRANSFERS = 8, /* of which some go each way, where that is not said */
};

static const char *const specs[] = {"shm(cma=on)", "shm(cma=off)", "shm"};

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};

static char *memory(int value)
{
    char *bytes = malloc(LEN);

    assert_non_null(bytes);
    memset(bytes, value, LEN);
    return bytes;
}

static size_t others(const char *bytes, char value)
{
    size_t count = 0;

    for (size_t i = 0; i < LEN; i++)
        count += bytes[i] != value;
    return count;
}

static struct fid_mr *offer(struct end *end, char *bytes)
{
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(end->domain, bytes, LEN, FI_REMOTE_READ, 0, KEY, 0, &mr, NULL), 0);
    return mr;
}

static void read_and_close(const char *spec)
{
    char *source = memory('s'), *target = memory('t');
    struct fi_cq_tagged_entry entry;
    struct end reader, owner;
    struct fid_mr *mr;
    fi_addr_t peer;
    uint64_t addr;

    end_open_as(&reader, spec, &want);
    end_open_as(&owner, spec, &want);
    peer = end_introduce(&reader, &owner);
    mr = offer(&owner, source);
    addr = owner.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)source : 0;
    for (int i = 0; i < TRANSFERS; i++) {
        memset(target, 't', LEN);
        end_post(&reader, &owner, fi_read(reader.ep, target, LEN, NULL, peer, addr, KEY, target));
        if (i == TRANSFERS - 1)
            break;
        assert_int_equal(end_wait(&reader, &owner, &entry), 0);
        assert_int_equal(others(target, 's'), 0);
    }
    end_close(&reader);
    memset(target, 'c', LEN);
    for (int i = 0; i < ROUNDS; i++)
        end_drive(&owner, NULL);
    assert_int_equal(others(target, 'c'), 0);
    assert_int_equal(fi_close(&mr->fid), 0);
    end_close(&owner);
    free(source);
    free(target);
}

static void test_a_read_ends_with_its_endpoint(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        read_and_close(specs[i]);
}

static void send_and_close(const char *spec, size_t len)
{
    char *source = memory('s'), *target = memory('t');
    struct fi_cq_tagged_entry entry;
    struct end sender, receiver;
    fi_addr_t peer;
    int err = 0;

    end_open(&sender, spec);
    end_open(&receiver, spec);
    peer = end_introduce(&sender, &receiver);
    for (int i = 0; i < TRANSFERS && !err; i++) {
        memset(target, 't', LEN);
        assert_int_equal(fi_trecv(receiver.ep, target, len, NULL, FI_ADDR_UNSPEC, 1, 0, target), 0);
        end_post(&sender, &receiver, fi_tsend(sender.ep, source, len, NULL, peer, 1, source));
        if (i == TRANSFERS - 1) {
            end_close(&sender);
            memset(source, 'c', LEN);
            err = end_wait(&receiver, NULL, &entry);
            break;
        }
        assert_int_equal(end_wait(&receiver, &sender, &entry), 0);
        assert_int_equal(end_wait(&sender, &receiver, &entry), 0);
    }
    if (err)
        assert_int_equal(err, FI_ECONNRESET);
    else
        assert_int_equal(others(target, 's'), LEN - len);
    end_close(&receiver);
    free(source);
    free(target);
}

static void test_what_comes_was_sent(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        send_and_close(specs[i], LEN);
    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
        send_and_close(specs[i], STEP);
}

/* ---- A region ---- */

/* From or into memory that is a region no more, and gone. */
static void unregister(const char *spec, bool write)
{
    char *there = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *here = memory('h'), in = 0;
    const uint64_t access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    struct fi_cq_tagged_entry entry;
    struct end from, to;
    struct fid_mr *mr;
    fi_addr_t peer;
    uint64_t addr;

    assert_true(there != MAP_FAILED);
    end_open_as(&from, spec, &want);
    end_open_as(&to, spec, &want);
    peer = end_introduce(&from, &to);
    assert_int_equal(fi_mr_reg(to.domain, there, LEN, access, 0, KEY, 0, &mr, NULL), 0);
    addr = to.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)there : 0;
    if (write)
        end_post(&from, &to, fi_write(from.ep, here, LEN, NULL, peer, addr, KEY, here));
    else
        end_post(&from, &to, fi_read(from.ep, here, LEN, NULL, peer, addr, KEY, here));
    for (int i = 0; i < FEW; i++)
        end_drive(&to, &from);
    assert_int_equal(fi_close(&mr->fid), 0);
    assert_int_equal(munmap(there, LEN), 0);
    assert_int_equal(end_wait(&from, &to, &entry), FI_ENOKEY);
    assert_ptr_equal(entry.op_context, here);
    /* Nothing else has ended. */
    assert_int_equal(fi_trecv(to.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in), 0);
    end_post(&from, &to, fi_tinject(from.ep, "y", 1, peer, 1));
    assert_int_equal(end_wait(&to, &from, &entry), 0);
    end_close(&from);
    end_close(&to);
    free(here);
}

static void test_a_region_is_closed(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        unregister(specs[i], true);
        unregister(specs[i], false);
    }
}

/* One byte, behind many large messages: it does not wait for them. */
static void test_the_small_pass_the_large(void **state)
{
    enum {
        MANY = 16
    };
    char *source = memory('s'), *targets[MANY], in = 0;
    struct fi_cq_tagged_entry entry;
    struct end sender, receiver;
    unsigned large = 0;
    fi_addr_t peer;

    (void)state;
    end_open(&sender, "shm(cma=on)");
    end_open(&receiver, "shm(cma=on)");
    peer = end_introduce(&sender, &receiver);
    for (int i = 0; i < MANY; i++) {
        targets[i] = memory('t');
        assert_int_equal(
            fi_trecv(receiver.ep, targets[i], LEN, NULL, FI_ADDR_UNSPEC, 1, 0, targets[i]), 0);
        end_post(&sender, &receiver, fi_tsend(sender.ep, source, LEN, NULL, peer, 1, source));
    }
    assert_int_equal(fi_trecv(receiver.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 2, 0, &in), 0);
    end_post(&sender, NULL, fi_tinject(sender.ep, "y", 1, peer, 2));
    while (!in) {
        assert_int_equal(end_wait(&receiver, &sender, &entry), 0);
        large += entry.op_context != &in;
    }
    assert_true(large < 2);
    end_close(&sender);
    end_close(&receiver);
    for (int i = 0; i < MANY; i++)
        free(targets[i]);
    free(source);
}

static unsigned asked; /* whether a peer is there */

/* Instead of the C library's. */
int poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    const volatile struct pollfd *looked = fds; /* its declaration says that it is only written */

    for (nfds_t i = 0; i < count; i++)
        asked += looked[i].events == POLLRDHUP;
    return (int)syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &timeout, NULL, 0);
}

/* The stamp that comes with the bytes says that they are a living peer's, without a system call. */
static void test_what_is_attached_to_says_that_the_peer_is_there(void **state)
{
    char *source = memory('s'), *target = memory('t');
    struct fi_cq_tagged_entry entry;
    struct end sender, receiver;
    fi_addr_t peer;

    (void)state;
    end_open(&sender, "shm(cma=on)");
    end_open(&receiver, "shm(cma=on)");
    peer = end_introduce(&sender, &receiver);
    for (int i = 0; i < TRANSFERS; i++) {
        if (i == 1)
            asked = 0; /* from here on the peers know each other */
        memset(target, 't', LEN);
        assert_int_equal(fi_trecv(receiver.ep, target, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, target), 0);
        end_post(&sender, &receiver, fi_tsend(sender.ep, source, LEN, NULL, peer, 1, source));
        assert_int_equal(end_wait(&receiver, &sender, &entry), 0);
        assert_int_equal(others(target, 's'), 0);
        assert_int_equal(end_wait(&sender, &receiver, &entry), 0);
    }
    assert_int_equal(asked, 0);
    end_close(&sender);
    end_close(&receiver);
    free(source);
    free(target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_read_ends_with_its_endpoint),
        cmocka_unit_test(test_what_comes_was_sent),
        cmocka_unit_test(test_a_region_is_closed),
        cmocka_unit_test(test_the_small_pass_the_large),
        cmocka_unit_test(test_what_is_attached_to_says_that_the_peer_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
