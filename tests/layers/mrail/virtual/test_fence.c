/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes, and writes behind a fence, of whole endpoints: rxd on mrail over two to four rails in
 * virtual time, which die at any step, in one direction or both, alone, two together, or all for
 * longer than `patience`, and return; what they kept comes late. After each step of time all memory
 * is looked at:
 *
 *   no byte of a write behind a fence is there before all writes in front of it have ended, and no
 *   byte of any before all bytes of those in front of it are there;
 *   when a write has ended its bytes are right; its target's owner writes over them, and none
 *   changes from then on; its source is written over, and nothing of that gets to the target;
 *   each write ends once.
 *
 * WEFT_SEED sets the first of the drawn runs, and WEFT_MRAIL_RUNS their number. Bugs are planted,
 * and found: fences that are left out, and bytes that land though the reader was closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "compose/build.h"
#include "compose/getinfo.h"
#include "core/info/abi.h"
#include "core/info/info.h"
#include "tests/support/number.h"
#include "wires.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)
#define START (1000 * S)

enum {
    WRITES = 24,
    SIZE = 400000, /* bytes of the longest */
    STRIDE = 997,  /* of those that are looked at each time */
    OWNED = 0xee,  /* the target's, in what has been written */
    POISON = 0x5a, /* the source's */
};

enum plant {
    PLANT_NONE,
    PLANT_NO_FENCE,
    PLANT_LATE,
};

/* A write: its source, and its place at the target. */
struct write {
    size_t len;
    bool fence, posted, ended;
    int err;
    uint8_t from[SIZE], to[SIZE];
};

struct side {
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
    struct fid_mr *mr; /* of what the other one writes to */
    fi_addr_t peer;
    unsigned posted, ended, window;
};

static struct write writes[2][WRITES]; /* by the side that posts them */
static struct side sides[2];
static unsigned rails;
static bool virtual_addresses;
static enum plant plant;
static uint64_t seed;
static char wrong[200]; /* what was found first; or empty */
static unsigned failed_writes, late_closes, lost, kept, fails, fenced, reads; /* of all runs */

static uint64_t draw(uint64_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below ? (seed >> 33) % below : 0;
}

static void find(const char *what, unsigned side, unsigned index)
{
    if (!wrong[0])
        snprintf(wrong, sizeof(wrong), "write %u of side %u: %s (%.3f ms)", index, side, what,
                 (double)wires_now / 1e6);
}

/* ---- What is right ---- */

/* Never one of the others. */
static uint8_t byte_of(unsigned side, unsigned index, size_t at)
{
    return (uint8_t)(1 + (side * 31 + index * 7 + at * 3 + (at >> 9)) % 80);
}

/* Has any, has every byte of those that are looked at come? The last one is among them. */
static void look(const struct write *write, bool *any, bool *all)
{
    size_t at = 0, last = write->len - 1;

    *any = write->to[last] != 0;
    *all = *any;
    for (; at < last; at += STRIDE) {
        *any |= write->to[at] != 0;
        *all &= write->to[at] != 0;
    }
}

static void look_at_owned(unsigned side, unsigned index, size_t stride)
{
    const struct write *write = &writes[side][index];

    for (size_t at = 0; at < write->len; at += stride) {
        if (!write->err && write->to[at] != OWNED)
            find("a byte has come after its end", side, index);
        if (write->to[at] == POISON)
            find("a byte is of a source that was no longer its", side, index);
    }
}

static void look_at_side(unsigned side)
{
    bool before = true; /* all bytes of those in front are there */
    bool ended = true;  /* and they have ended */

    for (unsigned i = 0; i < sides[side].posted; i++) {
        const struct write *write = &writes[side][i];
        bool any, all;

        if (write->ended) {
            look_at_owned(side, i, STRIDE);
            continue;
        }
        look(write, &any, &all);
        if (any && !before)
            find("it is there before bytes in front of it", side, i);
        if (any && write->fence && !ended)
            find("it is there before a write in front of its fence has ended", side, i);
        before &= all;
        ended = false;
    }
}

/* Of a write that has ended. */
static void take_over(unsigned side, unsigned index)
{
    struct write *write = &writes[side][index];

    for (size_t at = 0; !write->err && at < write->len; at++) {
        if (write->to[at] != byte_of(side, index, at)) {
            find("it has ended, and its bytes are not there", side, index);
            break;
        }
    }
    if (!write->err)
        memset(write->to, OWNED, write->len);
    memset(write->from, POISON, write->len);
}

/* ---- Endpoints ---- */

static void end(unsigned side, const void *context, int err)
{
    struct write *write = &writes[side][(uintptr_t)context - 1];

    if (write->ended || !write->posted)
        find("it has ended twice", side, (unsigned)(uintptr_t)context - 1);
    write->ended = true;
    write->err = err;
    sides[side].ended++;
    failed_writes += err != 0;
    take_over(side, (unsigned)(uintptr_t)context - 1);
}

static void read_queue(unsigned index)
{
    struct fi_cq_err_entry error = {.err = 0};
    struct fi_cq_entry entry;
    ssize_t rc;

    while ((rc = fi_cq_read(sides[index].cq, &entry, 1)) != -FI_EAGAIN) {
        if (rc == 1) {
            end(index, entry.op_context, 0);
            continue;
        }
        assert_int_equal(rc, -FI_EAVAIL);
        assert_int_equal(fi_cq_readerr(sides[index].cq, &error, 0), 1);
        end(index, error.op_context, error.err);
    }
}

static void post(unsigned index)
{
    struct side *side = &sides[index];

    while (side->posted < WRITES && side->posted - side->ended < side->window) {
        struct write *write = &writes[index][side->posted];
        uintptr_t base = virtual_addresses ? 0 : (uintptr_t)writes[index];
        uint64_t fence = write->fence && plant != PLANT_NO_FENCE ? FI_FENCE : 0;
        struct iovec iov = {write->from, write->len};
        struct fi_rma_iov rma = {.addr = (uintptr_t)write->to - base,
                                 .len = write->len,
                                 .key = fi_mr_key(sides[!index].mr)};
        struct fi_msg_rma msg = {.msg_iov = &iov,
                                 .iov_count = 1,
                                 .addr = side->peer,
                                 .rma_iov = &rma,
                                 .rma_iov_count = 1,
                                 .context = (void *)(uintptr_t)(side->posted + 1)};
        ssize_t rc;

        write->posted = true;
        rc = fi_writemsg(side->ep, &msg, fence | FI_COMPLETION);
        if (rc == -FI_EAGAIN)
            return;
        assert_int_equal(rc, 0);
        side->posted++;
    }
}

static struct fi_info *describe(void)
{
    char spec[200] = "mrail(same=yes,rail_timeout=100ms,patience=500ms,packet_size=8k);[loop";
    struct fi_info *hints = info_alloc(), *info = NULL;

    for (unsigned i = 1; i < rails; i++)
        strcat(spec, "+loop");
    strcat(spec, "]");
    hints->caps = FI_RMA | FI_FENCE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_CONTROL_UNIFIED;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    assert_int_equal(info_set_string(&hints->fabric_attr->prov_name, spec), 0);
    assert_int_equal(getinfo_run(FI_VERSION(2, 6), NULL, NULL, 0, hints, ABI_1_9, &info), 0);
    info_free(hints);
    virtual_addresses = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    return info;
}

static void open_side(unsigned index, struct fid_fabric *fabric, struct fi_info *info)
{
    struct side *side = &sides[index];
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_av_attr av = {.type = FI_AV_TABLE};

    wires_side = index;
    assert_int_equal(fi_domain(fabric, info, &side->domain, NULL), 0);
    assert_int_equal(fi_cq_open(side->domain, &cq, &side->cq, NULL), 0);
    assert_int_equal(fi_av_open(side->domain, &av, &side->av, NULL), 0);
    assert_int_equal(fi_endpoint(side->domain, info, &side->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    assert_int_equal(fi_enable(side->ep), 0);
    assert_int_equal(fi_mr_reg(side->domain, writes[!index], sizeof(writes[0]), FI_REMOTE_WRITE, 0,
                               0, 0, &side->mr, NULL),
                     0);
}

static void introduce(unsigned index)
{
    char name[256];
    size_t len = sizeof(name);

    assert_int_equal(fi_getname(&sides[!index].ep->fid, name, &len), 0);
    assert_int_equal(fi_av_insert(sides[index].av, name, 1, &sides[index].peer, 0, NULL), 1);
}

static void close_side(unsigned index)
{
    struct side *side = &sides[index];

    assert_int_equal(fi_close(&side->mr->fid), 0);
    assert_int_equal(fi_close(&side->ep->fid), 0);
    assert_int_equal(fi_close(&side->av->fid), 0);
    assert_int_equal(fi_close(&side->cq->fid), 0);
    assert_int_equal(fi_close(&side->domain->fid), 0);
    memset(side, 0, sizeof(*side));
}

/* ---- A run ---- */

static bool is_over(void)
{
    return sides[0].ended == WRITES && sides[1].ended == WRITES;
}

static void step(uint64_t most)
{
    uint64_t next;

    for (unsigned i = 0; i < 2; i++) {
        read_queue(i);
        post(i);
    }
    for (unsigned i = 0; i < 2; i++)
        look_at_side(i);
    next = wires_next();
    if (next > wires_now + most)
        next = wires_now + most;
    if (next > wires_now)
        wires_now = next;
    wires_move();
}

static void run_until(uint64_t until)
{
    while (wires_now < until && !is_over() && !wrong[0])
        step(until - wires_now < 100 * US ? until - wires_now : 100 * US);
}

static void change_a_rail(void)
{
    static const enum wire_state states[] = {WIRE_ALIVE, WIRE_ALIVE, WIRE_KEEPS,
                                             WIRE_KEEPS, WIRE_LOSES, WIRE_FAILS};
    enum wire_state state = states[draw(sizeof(states) / sizeof(states[0]))];
    unsigned rail = (unsigned)draw(rails), from = (unsigned)draw(3);
    bool together = !draw(3);

    for (unsigned i = 0; i < 2; i++) {
        if (from != 2 && from != i)
            continue;
        wires_set_state(rail, i, state);
        if (together)
            wires_set_state((rail + 1) % rails, i, state);
    }
}

/* For longer than `patience`, with some writes on their way. */
static void kill_all(void)
{
    enum wire_state state = draw(2) ? WIRE_KEEPS : WIRE_LOSES;

    for (unsigned i = 0; i < 2 * rails; i++)
        wires_set_state(i / 2, i % 2, state);
    run_until(wires_now + S);
}

static void draw_writes(unsigned side)
{
    sides[side].window = 1 + (unsigned)draw(WRITES);
    for (unsigned i = 0; i < WRITES; i++) {
        struct write *write = &writes[side][i];

        memset(write, 0, sizeof(*write));
        write->len = 1 + draw(draw(2) ? SIZE : 10000);
        write->fence = !draw(3);
        fenced += write->fence;
        for (size_t at = 0; at < write->len; at++)
            write->from[at] = byte_of(side, i, at);
    }
}

static void end_run(void)
{
    for (unsigned i = 0; i < rails; i++) {
        wires_set_state(i, 0, WIRE_ALIVE);
        wires_set_state(i, 1, WIRE_ALIVE);
    }
    run_until(wires_now + 60 * S);
    if (!is_over())
        find("it has not ended", sides[0].ended == WRITES, sides[sides[0].ended == WRITES].ended);
    for (uint64_t until = wires_now + S / 2; wires_now < until;) /* what comes late */
        step(MS);
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < WRITES; i++)
            look_at_owned(side, i, 1);
    }
    late_closes += wires_dropped;
    lost += wires_lost;
    kept += wires_kept;
    fails += wires_failed;
    reads += wires_reads;
}

/* An empty text, or the first thing that the checks found. */
static const char *one_run(uint64_t number)
{
    struct fid_fabric *fabric;
    struct fi_info *info;

    seed = number;
    wires_now = (wires_now / START + 1) * START; /* as if it were the first */
    wrong[0] = '\0';
    rails = 2 + (unsigned)(number % 3);
    wires_reset();
    wires_late = plant == PLANT_LATE;
    for (unsigned i = 0; i < 2 * rails; i++)
        wires_set_rate(i / 2, i % 2, 1 + draw(300) * US, 0.001 * (1 + (double)draw(50)));
    for (unsigned i = 0; i < 2; i++)
        draw_writes(i);
    info = describe();
    assert_int_equal(fabric_open(info->fabric_attr, NULL, ABI_1_9, &fabric, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        open_side(i, fabric, info);
    for (unsigned i = 0; i < 2; i++)
        introduce(i);
    for (int i = 0; i < 30; i++) {
        run_until(wires_now + (draw(200 * MS) >> draw(8)));
        change_a_rail();
        if (number % 4 == 3 && i == 3)
            kill_all();
    }
    end_run();
    for (unsigned i = 0; i < 2; i++)
        close_side(i);
    assert_int_equal(fi_close(&fabric->fid), 0);
    info_free(info);
    return wrong;
}

static void drawn_deaths_keep_the_order_of_fences(void **state)
{
    uint64_t first = number_of("WEFT_SEED", 1), runs = number_of("WEFT_MRAIL_RUNS", 16);

    plant = PLANT_NONE;
    for (uint64_t i = 0; i < runs; i++) {
        print_message("seed %llu\n", (unsigned long long)(first + i));
        assert_string_equal(one_run(first + i), "");
    }
    print_message("%u fenced, %u failed; rails lost %u, failed %u, kept %u times; %u of %u reads "
                  "dropped with their reader\n",
                  fenced, failed_writes, lost, fails, kept, late_closes, reads);
    assert_true(runs < 12 || (fenced && failed_writes && lost && fails && kept && late_closes));
}

static void find_a_planted_bug(enum plant what)
{
    uint64_t runs = 0;

    plant = what;
    while (runs < 100 && !*one_run(1 + runs))
        runs++;
    print_message("seed %llu: %s\n", (unsigned long long)(1 + runs), wrong);
    assert_true(*wrong);
}

static void a_fence_that_is_left_out_is_found(void **state)
{
    find_a_planted_bug(PLANT_NO_FENCE);
}

static void bytes_of_a_reader_that_was_closed_are_found(void **state)
{
    find_a_planted_bug(PLANT_LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_deaths_keep_the_order_of_fences),
        cmocka_unit_test(a_fence_that_is_left_out_is_found),
        cmocka_unit_test(bytes_of_a_reader_that_was_closed_are_found),
    };

    return cmocka_run_group_tests_name("fence", tests, NULL, NULL);
}
