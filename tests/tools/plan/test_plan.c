/* SPDX-License-Identifier: BSD-2-Clause */
/* Plans of jobs with many processes, out of files that are made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include "tools/replay_plan.h"

enum {
    PROCESSES = 100,
    CAPACITY = 256,
    EP = 1,
    AV,
    MC,
    TSEND = WEFT_TRACE_CALL,
    TRECV,
    BIND,
    ADDRESS,
    JOIN,
    BARRIER
};

struct file {
    struct weft_trace_header header;
    union {
        struct weft_trace_ring ring;
        char pad[WEFT_TRACE_RING_HEAD];
    };
    struct weft_trace_record records[CAPACITY];
};

static struct file file;
static struct trace_model model;
static struct replay_plan plan;
static char why[256];

static void begin_file(int rank)
{
    static const char *const names[] = {"fi_tsend", "fi_trecv", "fi_bind",
                                        "address",  "fi_join",  "fi_barrier"};
    struct weft_trace_header *header = &file.header;

    memset(&file, 0, sizeof(file));
    memcpy(header->magic, WEFT_TRACE_MAGIC, sizeof(header->magic));
    header->version = WEFT_TRACE_VERSION;
    header->record_size = sizeof(struct weft_trace_record);
    header->header_size = sizeof(*header);
    header->ring_size = sizeof(file) - sizeof(*header);
    header->rings = 1;
    header->pid = (uint32_t)rank;
    header->layer_count = 1;
    strcpy(header->layers[0], "tcp");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        strcpy(header->names[i], names[i]);
    file.ring.capacity = CAPACITY;
}

static struct weft_trace_record *put(unsigned kind, uint32_t object, unsigned fclass)
{
    struct weft_trace_record *record = &file.records[file.ring.head++];

    assert_true(file.ring.head <= CAPACITY);
    record->kind = (uint16_t)kind;
    record->object = object;
    record->fclass = (uint8_t)fclass;
    record->time = file.ring.head * 100;
    return record;
}

static void end_file(void)
{
    if (!trace_add(&model, "file", &file, sizeof(file), why, sizeof(why)))
        fail_msg("%s", why);
}

/* Every process has its own numbers for the others. */
static uint64_t number_of(int rank, int other)
{
    return (uint64_t)((other * 7 + rank) % PROCESSES);
}

static void put_addresses(int rank)
{
    put(BIND, EP, FI_CLASS_EP)->buf = WEFT_TRACE_NAMED(AV, FI_CLASS_AV);
    put(ADDRESS, EP, FI_CLASS_EP)->tag = 1000 + (uint64_t)rank;
    for (int i = 0; i < PROCESSES; i++) {
        struct weft_trace_record *record = put(ADDRESS, AV, FI_CLASS_AV);

        record->peer = number_of(rank, i);
        record->tag = 1000 + (uint64_t)i;
    }
}

/* All messages of the ring are alike: only addresses tell who is who. */
static void put_ring(int rank)
{
    put(TRECV, EP, FI_CLASS_EP)->peer = FI_ADDR_UNSPEC;
    put(TSEND, EP, FI_CLASS_EP)->peer = number_of(rank, (rank + 1) % PROCESSES);
}

static void put_four(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    struct weft_trace_record *record = put(WEFT_TRACE_MORE, EP, FI_CLASS_EP);

    record->buf = a;
    record->len = b;
    record->peer = c;
    record->tag = d;
}

/* A group of all, and a barrier of it. */
static void put_group(int rank)
{
    const uint64_t group = WEFT_TRACE_NAMED(MC, FI_CLASS_MC);
    struct weft_trace_record *record = put(JOIN, EP, FI_CLASS_EP);

    record->buf = group;
    record = put(WEFT_TRACE_EVENT, EP, FI_CLASS_EQ);
    record->inside = FI_JOIN_COMPLETE;
    record->len = PROCESSES;
    record->peer = 77;
    record->tag = group;
    put_four((uint64_t)rank, 5, 0, 0);
    for (int i = 0; i < PROCESSES; i += 4)
        put_four(number_of(rank, i), number_of(rank, i + 1), number_of(rank, i + 2),
                 number_of(rank, i + 3));
    put(BARRIER, EP, FI_CLASS_EP)->peer = 77;
    put_four(0, 0, 0, WEFT_TRACE_ELEMENTS(0, 0) | (uint64_t)FI_BARRIER << 32);
}

static void make(void)
{
    assert_true(trace_link(&model));
    if (!replay_plan_make(&model, &plan, why, sizeof(why)))
        fail_msg("%s", why);
}

static int teardown(void **state)
{
    replay_plan_free(&plan);
    trace_free(&model);
    return 0;
}

static void peers_are_found_by_their_addresses(void **state)
{
    for (int rank = 0; rank < PROCESSES; rank++) {
        begin_file(rank);
        put_addresses(rank);
        put_ring(rank);
        end_file();
    }
    make();
    assert_int_equal(plan.process_count, PROCESSES);
    assert_int_equal(plan.endpoint_count, PROCESSES);
    for (int rank = 0; rank < PROCESSES; rank++) {
        const struct replay_op *send = &plan.processes[rank].ops[1];

        assert_int_equal(plan.processes[rank].op_count, 2);
        assert_int_equal(send->class, REPLAY_SEND);
        assert_int_equal(plan.endpoints[send->peer].process, (rank + 1) % PROCESSES);
    }
}

static void a_group_has_as_many_members_as_there_are_files(void **state)
{
    for (int rank = 0; rank < PROCESSES; rank++) {
        begin_file(rank);
        put_group(rank);
        end_file();
    }
    make();
    assert_true(plan.collectives);
    for (int rank = 0; rank < PROCESSES; rank++) {
        const struct replay_process *process = &plan.processes[rank];

        assert_int_equal(process->group_count, 1);
        assert_int_equal(process->groups[0].size, PROCESSES);
        assert_int_equal(process->groups[0].rank, rank);
        assert_int_equal(process->op_count, 1);
        assert_int_equal(process->ops[0].class, REPLAY_BARRIER);
        for (int i = 0; i < PROCESSES; i++)
            assert_int_equal(plan.endpoints[process->groups[0].members[i]].process, i);
    }
}

/* Connected endpoints name no peer, and of several any could be the other end. */
static void connections_of_several_processes_are_refused(void **state)
{
    for (int rank = 0; rank < 3; rank++) {
        begin_file(rank);
        put(TSEND, EP, FI_CLASS_EP)->peer = FI_ADDR_UNSPEC;
        end_file();
    }
    assert_true(trace_link(&model));
    assert_false(replay_plan_make(&model, &plan, why, sizeof(why)));
    assert_string_equal(why, "file: whom endpoint 1 is connected to cannot be told; record where "
                             "programs give addresses, as above rxm");
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(peers_are_found_by_their_addresses),
        TEST(connections_of_several_processes_are_refused),
        TEST(a_group_has_as_many_members_as_there_are_files),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
