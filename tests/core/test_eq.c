/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#include "core/info/info.h"
#include "core/queue/eq.h"
#include "tests/core/objects.h"

static struct bare bare;
static struct progress *progress;

static struct eq *open_eq(uint64_t flags, enum fi_wait_obj obj)
{
    struct fi_eq_attr attr = {.flags = flags, .wait_obj = obj};
    struct fid_eq *eq;

    bare_init(&bare, false);
    assert_int_equal(progress_create_control("test", &progress), 0);
    assert_int_equal(eq_open(&bare.fabric, progress, &attr, &eq, NULL), 0);
    return object_of(eq, struct eq, fid);
}

static void close_eq(struct eq *eq)
{
    assert_int_equal(fi_close(&eq->fid.fid), 0);
    progress_release(progress);
    assert_false(children_any(&bare.fabric.children));
}

static struct fid about, other;

static void put_event(struct eq *eq, uint64_t data)
{
    struct fi_eq_entry entry = {.fid = &about, .data = data};

    assert_int_equal(eq_write(eq, FI_AV_COMPLETE, &entry, sizeof(entry)), 0);
}

static void put_error(struct eq *eq, int err)
{
    struct fi_eq_err_entry entry = {
        .fid = &about, .err = err, .err_data = (void *)"why", .err_data_size = 4};

    assert_int_equal(eq_write_error(eq, &entry), 0);
}

/* A connection request with four bytes of private data. */
static void put_request(struct eq *eq, struct fid *fid)
{
    struct {
        struct fid *fid;
        struct fi_info *info;
        char data[4];
    } entry = {.fid = fid, .info = info_alloc(), .data = "abc"};

    assert_non_null(entry.info);
    assert_int_equal(eq_write(eq, FI_CONNREQ, &entry, sizeof(struct fi_eq_cm_entry) + 4), 0);
}

static void events_and_errors_come_in_order(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    struct fi_eq_err_entry error = {0};
    struct fi_eq_entry entry;
    uint32_t event;

    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
    put_event(eq, 1);
    put_error(eq, FI_EIO);
    put_event(eq, 2);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(event, FI_AV_COMPLETE);
    assert_int_equal(entry.data, 1);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, FI_PEEK), sizeof(error));
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, 0), sizeof(error));
    assert_int_equal(error.err, FI_EIO);
    assert_ptr_equal(error.fid, &about);
    assert_string_equal(error.err_data, "why");
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(entry.data, 2);
    put_error(eq, FI_EIO);
    close_eq(eq);
}

static void err_data_is_copied_to_the_readers_buffer(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    char room[] = "......";
    struct fi_eq_err_entry error = {.err_data = room, .err_data_size = 2};

    put_error(eq, FI_EIO);
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, 0), sizeof(error));
    assert_string_equal(room, "wh....");
    assert_int_equal(error.err_data_size, 2);
    bare.fabric.api_version = FI_VERSION(1, 4);
    put_error(eq, FI_EIO);
    assert_int_equal(fi_eq_readerr(&eq->fid, &error, 0), sizeof(error));
    assert_string_equal(error.err_data, "why");
    close_eq(eq);
}

static void peek_and_a_short_buffer_keep_the_event(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    struct fi_eq_entry entry;
    uint32_t event;

    put_event(eq, 7);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), FI_PEEK), sizeof(entry));
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry) - 1, 0), -FI_ETOOSMALL);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(entry.data, 7);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), FI_SEND), -FI_EINVAL);
    close_eq(eq);
}

static void private_data_is_cut_to_the_room_there_is(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    const ssize_t head = sizeof(struct fi_eq_cm_entry);
    struct {
        struct fid *fid;
        struct fi_info *info;
        char data[8];
    } entry;
    uint32_t event;

    put_request(eq, &about);
    put_request(eq, &about);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, head - 1, 0), -FI_ETOOSMALL);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, head + 2, 0), head + 2);
    assert_memory_equal(entry.data, "ab", 2);
    info_free(entry.info);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, head + 8, 0), head + 4);
    assert_string_equal(entry.data, "abc");
    info_free(entry.info);
    close_eq(eq);
}

/* The sanitizer sees an info that is freed twice or never. */
static void forgotten_requests_free_their_info(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    struct fi_eq_cm_entry entry;
    uint32_t event;

    put_request(eq, &about);
    put_request(eq, &other);
    put_error(eq, FI_EIO);
    eq_forget(eq, &about);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_ptr_equal(entry.fid, &other);
    info_free(entry.info);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
    put_request(eq, &other);
    close_eq(eq);
}

static void writing_needs_the_flag(void **state)
{
    struct fi_eq_entry entry = {.data = 3}, got;
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    uint32_t event;

    assert_int_equal(fi_eq_write(&eq->fid, FI_NOTIFY, &entry, sizeof(entry), 0), -FI_EINVAL);
    close_eq(eq);
    eq = open_eq(FI_WRITE, FI_WAIT_NONE);
    assert_int_equal(fi_eq_write(&eq->fid, 0x1234, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(fi_eq_read(&eq->fid, &event, &got, sizeof(got), 0), sizeof(got));
    assert_int_equal(event, 0x1234);
    assert_int_equal(got.data, 3);
    close_eq(eq);
}

static void *write_later(void *arg)
{
    usleep(10000);
    put_event(arg, 5);
    return NULL;
}

static void sread_sleeps_until_an_event(void **state)
{
    static const enum fi_wait_obj objs[] = {FI_WAIT_NONE,   FI_WAIT_YIELD,  FI_WAIT_FD,
                                            FI_WAIT_UNSPEC, FI_WAIT_POLLFD, FI_WAIT_MUTEX_COND};

    for (size_t i = 0; i < sizeof(objs) / sizeof(objs[0]); i++) {
        struct eq *eq = open_eq(0, objs[i]);
        struct fi_eq_entry entry;
        pthread_t thread;
        uint32_t event;

        assert_int_equal(fi_eq_sread(&eq->fid, &event, &entry, sizeof(entry), 5, 0), -FI_EAGAIN);
        pthread_create(&thread, NULL, write_later, eq);
        assert_int_equal(fi_eq_sread(&eq->fid, &event, &entry, sizeof(entry), -1, 0),
                         sizeof(entry));
        pthread_join(thread, NULL);
        close_eq(eq);
    }
}

static void trywait_and_fd(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_FD);
    struct fid *fids[] = {&eq->fid.fid}, *foreign[] = {&(struct fid){.fclass = FI_CLASS_AV}};
    struct pollfd poll_fd = {.events = POLLIN};
    enum fi_wait_obj obj;
    struct fi_eq_entry entry;
    uint32_t event;

    assert_int_equal(fi_control(&eq->fid.fid, FI_GETWAIT, &poll_fd.fd), 0);
    assert_int_equal(fi_control(&eq->fid.fid, FI_GETWAITOBJ, &obj), 0);
    assert_int_equal(obj, FI_WAIT_FD);
    assert_int_equal(fids_trywait(fids, 1), 0);
    put_event(eq, 1);
    assert_int_equal(poll(&poll_fd, 1, 0), 1);
    assert_int_equal(fids_trywait(fids, 1), -FI_EAGAIN);
    assert_int_equal(fi_eq_read(&eq->fid, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(fids_trywait(fids, 1), 0);
    assert_int_equal(poll(&poll_fd, 1, 0), 0);
    assert_int_equal(fids_trywait(foreign, 1), -FI_EINVAL);
    close_eq(eq);
}

static void bad_attributes_and_bound_queues(void **state)
{
    struct eq *eq = open_eq(0, FI_WAIT_NONE);
    struct fi_eq_attr attr = {.flags = FI_PEER};
    struct fid_eq *fid;

    assert_int_equal(eq_open(&bare.fabric, progress, &attr, &fid, NULL), -FI_EINVAL);
    attr = (struct fi_eq_attr){.wait_obj = FI_WAIT_SET};
    assert_int_equal(eq_open(&bare.fabric, progress, &attr, &fid, NULL), -FI_EINVAL);
    children_hold(&eq->children);
    assert_int_equal(fi_close(&eq->fid.fid), -FI_EBUSY);
    children_release(&eq->children);
    close_eq(eq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_and_errors_come_in_order),
        cmocka_unit_test(err_data_is_copied_to_the_readers_buffer),
        cmocka_unit_test(peek_and_a_short_buffer_keep_the_event),
        cmocka_unit_test(private_data_is_cut_to_the_room_there_is),
        cmocka_unit_test(forgotten_requests_free_their_info),
        cmocka_unit_test(writing_needs_the_flag),
        cmocka_unit_test(sread_sleeps_until_an_event),
        cmocka_unit_test(trywait_and_fd),
        cmocka_unit_test(bad_attributes_and_bound_queues),
    };

    return cmocka_run_group_tests_name("eq", tests, NULL, NULL);
}
