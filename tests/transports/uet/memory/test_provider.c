/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider by the public interface, on the NIC in memory: paths that lose, repeat and reorder
 * packets, kernels without room, in virtual time. Every operation is checked by its bytes, and
 * comes once. WEFT_SEED gives the seed, which a failure prints
 */
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "../../../support/end.h"
#include "memory.h"
#include "transports/uet/wire/pds_header.h"
#include "transports/uet/wire/ses_header.h"

enum {
    FEW = 6,
    SOME = 48,
    MANY = 160,
    MOST_PACKETS = 10, /* for a message */
    BUFFERS = 8,       /* receives of an endpoint */
    LONGEST = 20000,
    WRITTEN = 5000, /* bytes of a remote access */
    NUMBERS = 64,   /* messages from one to another, at most */
    UNDER_WAY = 10000,
    PATIENCE = 200000000,
};

#define TAGGED (UINT64_C(1) << 63)

struct buffer {
    struct peer *owner;
    bool tagged;
    uint8_t bytes[LONGEST];
};

struct peer {
    struct end end;
    unsigned index;
    fi_addr_t *to;
    struct buffer *buffers;
    uint64_t *seen; /* messages that came, by sender */
    uint64_t late;  /* those that came behind one that left later */
    bool wild;      /* what it hears is not looked at */
    /* Remote memory: counter, then a place for each writer. */
    struct fid_mr *mr;
    uint8_t *memory;
};

enum kind {
    MESSAGE,
    WRITE,
    READ,
    ADD
};

/* An operation that is under way. */
struct task {
    enum kind kind;
    struct peer *from, *to;
    unsigned number;
    uint64_t value, result;
    size_t len;
    uint8_t bytes[];
};

static struct peer *peers;
static unsigned count;
static bool in_order, crowd; /* crowd: all_to_all has all send to the same one first */
static uint64_t seed, failed;
static uint64_t ended, received; /* operations, messages, of all */
static uint64_t under_way;       /* that all_to_all posts before it looks */

/* ---- Bytes ---- */

static void fill(uint8_t *bytes, size_t len, unsigned from, unsigned to, unsigned number)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 + (i >> 8) + from * 7 + to * 13 + number * 101);
}

static void check_bytes(const uint8_t *bytes, size_t len, unsigned from, unsigned to,
                        unsigned number)
{
    static uint8_t expected[LONGEST];

    fill(expected, len, from, to, number);
    assert_memory_equal(bytes, expected, len);
}

/* Where there are many, each is of one packet. */
static size_t length_of(unsigned from, unsigned to, unsigned number)
{
    static const size_t lengths[] = {1, 8, 200, 1024, 1025, 3000, LONGEST};
    const size_t kinds = count > SOME ? 3 : sizeof(lengths) / sizeof(lengths[0]);

    return lengths[(from + to * 3 + number) % kinds];
}

static uint64_t tag_of(unsigned from, unsigned number, size_t len)
{
    return (uint64_t)from << 40 | (uint64_t)number << 32 | len;
}

/* ---- Endpoints ---- */

static void post_receive(struct buffer *buffer)
{
    struct fid_ep *ep = buffer->owner->end.ep;

    if (buffer->tagged)
        assert_int_equal(
            fi_trecv(ep, buffer->bytes, LONGEST, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, buffer), 0);
    else
        assert_int_equal(fi_recv(ep, buffer->bytes, LONGEST, NULL, FI_ADDR_UNSPEC, buffer), 0);
}

static size_t remote_size(void)
{
    return 8 + (size_t)(count < SOME ? count : SOME) * WRITTEN;
}

static void open_peer(struct peer *peer, unsigned index, const char *spec, uint64_t order)
{
    peer->index = index;
    peer->to = calloc(count, sizeof(*peer->to));
    peer->seen = calloc(count, sizeof(*peer->seen));
    peer->buffers = calloc(BUFFERS, sizeof(*peer->buffers));
    peer->memory = calloc(1, remote_size());
    assert_true(peer->to && peer->seen && peer->buffers && peer->memory);
    end_open(&peer->end, end_info(spec, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, order),
             FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_mr_reg(peer->end.domain, peer->memory, remote_size(),
                               FI_REMOTE_READ | FI_REMOTE_WRITE, 0, index + 1, 0, &peer->mr, NULL),
                     0);
    for (unsigned i = 0; i < BUFFERS; i++) {
        peer->buffers[i].owner = peer;
        peer->buffers[i].tagged = i % 2;
        post_receive(&peer->buffers[i]);
    }
}

static void begin(unsigned endpoints, const char *spec, uint64_t order)
{
    const char *text = getenv("WEFT_SEED");

    seed = text ? strtoull(text, NULL, 0) : seed + 1;
    printf("seed %llu\n", (unsigned long long)seed);
    memory_begin(seed, endpoints);
    count = endpoints;
    in_order = order;
    failed = ended = received = 0;
    under_way = UNDER_WAY;
    crowd = false;
    peers = calloc(count, sizeof(*peers));
    assert_non_null(peers);
    for (unsigned i = 0; i < count; i++)
        open_peer(&peers[i], i, spec, order);
    for (unsigned i = 0; i < count; i++)
        for (unsigned k = 0; k < count; k++)
            assert_int_equal(
                fi_av_insert(peers[i].end.av, peers[k].end.name, 1, &peers[i].to[k], 0, NULL), 1);
}

static void bad_path(void)
{
    memory.sw.loss = 100;
    memory.sw.dup = 50;
    memory.sw.reorder = 100;
    memory.sw.jitter = 20000;
    memory.sw.late = 300000;
    memory.full = 200;
}

static void close_peer(struct peer *peer)
{
    if (!peer->end.ep)
        return;
    assert_int_equal(fi_close(&peer->mr->fid), 0);
    end_close(&peer->end);
    peer->end.ep = NULL;
    free(peer->to);
    free(peer->seen);
    free(peer->buffers);
    free(peer->memory);
}

static void end(void)
{
    memory.step = 100000; /* who closes waits for peers that do not look */
    for (unsigned i = 0; i < count; i++)
        close_peer(&peers[i]);
    free(peers);
    memory_end();
}

/* ---- What comes ---- */

static void came(struct peer *at, struct buffer *buffer, const struct fi_cq_tagged_entry *entry)
{
    uint64_t head;
    unsigned from, number;
    size_t len = entry->len;

    if (buffer->tagged) {
        head = entry->tag;
    } else {
        assert_true(len >= sizeof(head));
        memcpy(&head, buffer->bytes, sizeof(head));
        len -= sizeof(head);
    }
    from = (unsigned)(head >> 40);
    number = (unsigned)(head >> 32) & 0xff;
    assert_true(from < count && number < NUMBERS);
    assert_int_equal(len, (uint32_t)head);
    check_bytes(buffer->bytes + (buffer->tagged ? 0 : sizeof(head)), len, from, at->index, number);
    assert_false(at->seen[from] >> number & 1);
    at->late += at->seen[from] >> number != 0;
    at->seen[from] |= UINT64_C(1) << number;
    received++;
    post_receive(buffer);
}

static void finish_task(struct task *task)
{
    if (task->kind == READ)
        check_bytes(task->bytes, task->len, task->from->index, task->to->index, task->number);
    ended++;
    free(task);
}

static void look(struct peer *peer)
{
    struct fi_cq_tagged_entry entries[8];
    struct fi_cq_err_entry error = {0};
    ssize_t got = fi_cq_read(peer->end.cq, entries, 8);

    if (got == -FI_EAVAIL) {
        assert_int_equal(fi_cq_readerr(peer->end.cq, &error, 0), 1);
        if (peer->wild)
            return;
        assert_false(error.flags & FI_RECV);
        failed++;
        ended++;
        free(error.op_context);
        return;
    }
    assert_true(got >= 0 || got == -FI_EAGAIN);
    for (ssize_t i = 0; i < got && !peer->wild; i++) {
        if (entries[i].flags & FI_RECV)
            came(peer, entries[i].op_context, &entries[i]);
        else
            finish_task(entries[i].op_context);
    }
}

static void look_all(void)
{
    for (unsigned i = 0; i < count; i++)
        if (peers[i].end.ep)
            look(&peers[i]);
}

/* Until so many operations have ended. */
static void run_until(uint64_t ends)
{
    for (unsigned looks = 0; ended < ends; looks++) {
        assert_true(looks < PATIENCE);
        look_all();
    }
}

/* ---- Operations ---- */

static struct task *new_task(enum kind kind, struct peer *from, struct peer *to, unsigned number,
                             size_t len)
{
    struct task *task = calloc(1, sizeof(*task) + sizeof(uint64_t) + len);

    assert_non_null(task);
    *task = (struct task){kind, from, to, number, .len = len};
    return task;
}

static ssize_t post_message(struct task *task, bool tagged)
{
    struct fid_ep *ep = task->from->end.ep;
    fi_addr_t to = task->from->to[task->to->index];

    return tagged ? fi_tsend(ep, task->bytes, task->len, NULL, to, task->value, task)
                  : fi_send(ep, task->bytes, task->len, NULL, to, task);
}

static ssize_t post_access(struct task *task)
{
    struct fid_ep *ep = task->from->end.ep;
    fi_addr_t to = task->from->to[task->to->index];
    uint64_t base = task->to->end.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR
                        ? (uint64_t)(uintptr_t)task->to->memory
                        : 0;
    uint64_t place = base + 8 + (uint64_t)task->from->index * WRITTEN;
    uint64_t key = fi_mr_key(task->to->mr);

    if (task->kind == WRITE)
        return fi_write(ep, task->bytes, task->len, NULL, to, place, key, task);
    if (task->kind == READ)
        return fi_read(ep, task->bytes, task->len, NULL, to, place, key, task);
    return fi_fetch_atomic(ep, &task->value, 1, NULL, &task->result, NULL, to, base, key, FI_UINT64,
                           FI_SUM, task);
}

static ssize_t post(struct task *task, bool tagged)
{
    return task->kind == MESSAGE ? post_message(task, tagged) : post_access(task);
}

static void post_soon(struct task *task, bool tagged)
{
    ssize_t rc;

    while ((rc = post(task, tagged)) == -FI_EAGAIN)
        look_all();
    assert_int_equal(rc, 0);
}

static void send_message(unsigned from, unsigned to, unsigned number, bool tagged)
{
    size_t len = length_of(from, to, number), head = tagged ? 0 : sizeof(uint64_t);
    struct task *task;

    len = len > LONGEST - head ? LONGEST - head : len;
    task = new_task(MESSAGE, &peers[from], &peers[to], number, len + head);
    task->value = tag_of(from, number, len);
    if (!tagged)
        memcpy(task->bytes, &task->value, head);
    fill(task->bytes + head, len, from, to, number);
    post_soon(task, tagged);
}

static void start(enum kind kind, unsigned from, unsigned to, unsigned number)
{
    size_t len = kind == ADD ? 0 : WRITTEN - number;
    struct task *task = new_task(kind, &peers[from], &peers[to], number, len);

    task->value = number + 1;
    if (kind == WRITE)
        fill(task->bytes, len, from, to, number);
    post_soon(task, false);
}

/* From each to each: tagged ones and others in turns; ordered ones are all tagged. */
static void all_to_all(unsigned messages)
{
    uint64_t before = ended, heard = received, sent = 0;

    for (unsigned number = 0; number < messages; number++)
        for (unsigned i = 0; i < count; i++)
            for (unsigned from = 0; from < count; from++, sent++) {
                send_message(from, crowd ? i : (from + i) % count, number, in_order || number % 2);
                while (before + sent - ended > under_way)
                    look_all();
            }
    run_until(before + sent);
    for (unsigned looks = 0; received < heard + sent; looks++) {
        assert_true(looks < PATIENCE);
        look_all();
    }
    assert_int_equal(received, heard + sent);
    assert_int_equal(failed, 0);
}

static void access_all(unsigned number)
{
    static const enum kind kinds[] = {WRITE, READ, ADD};

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        uint64_t before = ended;

        for (unsigned from = 0; from < count; from++)
            for (unsigned to = 0; to < count; to++)
                start(kinds[k], from, to, number);
        run_until(before + (uint64_t)count * count);
    }
    assert_int_equal(failed, 0);
}

static void check_memory(unsigned number, uint64_t sum)
{
    for (unsigned to = 0; to < count; to++) {
        uint64_t value;

        memcpy(&value, peers[to].memory, sizeof(value));
        assert_int_equal(value, sum * count);
        for (unsigned from = 0; from < count; from++)
            check_bytes(peers[to].memory + 8 + (size_t)from * WRITTEN, WRITTEN - number, from, to,
                        number);
    }
}

/* ---- Tests ---- */

static uint64_t late_ones(void)
{
    uint64_t late = 0;

    for (unsigned i = 0; i < count; i++)
        late += peers[i].late;
    return late;
}

static void all_operations_on(const char *spec, uint64_t order)
{
    begin(FEW, spec, order);
    bad_path();
    all_to_all(NUMBERS);
    if (order)
        assert_int_equal(late_ones(), 0);
    access_all(0);
    access_all(3);
    check_memory(3, 1 + 4);
    assert_true(memory.sw.lost > 0);
    end();
}

static void operations_are_done_once_over_a_bad_path(void **state)
{
    all_operations_on("uet(iface=lo)", 0);
    all_operations_on("uet(iface=lo,profile=ai-full)", 0);
}

static void messages_keep_their_order_over_a_bad_path(void **state)
{
    all_operations_on("uet(iface=lo)", FI_ORDER_SAS);
}

/* Messages above 2,000 bytes are read by their receivers. */
static void a_rendezvous_is_read_over_a_bad_path(void **state)
{
    begin(FEW, "uet(iface=lo,rendezvous=2000,tagged_rendezvous=2000,eager=500)", 0);
    bad_path();
    all_to_all(NUMBERS);
    end();
}

static void starts_are_demanded_over_a_bad_path(void **state)
{
    begin(FEW, "uet(iface=lo,demand_start=yes)", 0);
    bad_path();
    all_to_all(8);
    end();
}

/* Packets and time of a run. */
static void measure(uint64_t *packets, uint64_t *time)
{
    uint64_t start;

    seed = 77;
    begin(FEW, "uet(iface=lo)", 0);
    bad_path();
    start = memory.sw.now;
    all_to_all(16);
    *packets = memory.sw.carried;
    *time = memory.sw.now - start;
    end();
}

static void a_seed_says_all(void **state)
{
    uint64_t packets[2], time[2];

    for (int i = 0; i < 2; i++)
        measure(&packets[i], &time[i]);
    assert_int_equal(packets[0], packets[1]);
    assert_int_equal(time[0], time[1]);
}

/* Its port is closed, and the network says so. */
static void a_peer_that_has_gone_ends_its_operations(void **state)
{
    uint64_t before;

    begin(3, "uet(iface=lo)", 0);
    all_to_all(2);
    close_peer(&peers[2]);
    before = ended;
    for (unsigned number = 2; number < 12; number++) {
        send_message(0, 2, number, true);
        send_message(0, 1, number, true);
    }
    run_until(before + 20);
    assert_true(failed > 0); /* short ones have ended before */
    assert_true(memory.refused > 0);
    assert_int_equal(peers[1].seen[0], (1 << 12) - 1);
    end();
}

/* A byte of the headers of what leaves the first port. */
static bool mutate(struct sw *sw, struct sw_packet *packet)
{
    if (!packet->from && switch_random(sw) % 4 == 0)
        packet->bytes[switch_random(sw) % (packet->len < 60 ? packet->len : 60)] ^=
            (uint8_t)(1 + switch_random(sw) % 255);
    return true;
}

/* The wild peers may hear anything of each other; the others notice nothing. */
static void changed_headers_are_no_matter_of_others(void **state)
{
    static uint8_t bytes[LONGEST], sink[LONGEST];

    begin(4, "uet(iface=lo)", 0);
    peers[0].wild = peers[1].wild = true;
    memory.sw.filter = mutate;
    for (int i = 0; i < 400; i++) {
        fi_send(peers[0].end.ep, bytes, (size_t)(i * 37 % LONGEST), NULL, peers[0].to[1], NULL);
        fi_write(peers[0].end.ep, bytes, WRITTEN, NULL, peers[0].to[1], 8, 2, NULL);
        fi_recv(peers[1].end.ep, sink, LONGEST, NULL, FI_ADDR_UNSPEC, NULL);
        look_all();
        if (i < NUMBERS)
            send_message(2, 3, (unsigned)i, true);
    }
    run_until(NUMBERS);
    while (received < NUMBERS)
        look_all();
    end();
}

/* ---- A region that is closed while it is read ---- */

enum {
    REGION = 16000,
    READS = 4,
    CLOSES = 60, /* regions */
};

struct region {
    struct fid_mr *mr;
    uint8_t *bytes;
    uint64_t base, key;
};

static struct region open_region(unsigned number)
{
    struct region region = {.bytes = malloc(REGION)};
    const struct end *end = &peers[1].end;

    assert_non_null(region.bytes);
    fill(region.bytes, REGION, 0, 1, number);
    assert_int_equal(fi_mr_reg(end->domain, region.bytes, REGION, FI_REMOTE_READ, 0, 1000 + number,
                               0, &region.mr, NULL),
                     0);
    region.key = fi_mr_key(region.mr);
    if (end->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
        region.base = (uint64_t)(uintptr_t)region.bytes;
    return region;
}

/* Its memory is gone as soon as fi_close returns. */
static void close_region(struct region *region)
{
    assert_int_equal(fi_close(&region->mr->fid), 0);
    free(region->bytes);
}

static void read_region(const struct region *region, unsigned number)
{
    ssize_t rc;

    for (unsigned i = 0; i < READS; i++) {
        struct task *task = new_task(READ, &peers[0], &peers[1], number, REGION);

        while ((rc = fi_read(peers[0].end.ep, task->bytes, REGION, NULL, peers[0].to[1],
                             region->base, region->key, task)) == -FI_EAGAIN)
            look_all();
        assert_int_equal(rc, 0);
    }
}

static void regions_close_under_reads(const char *spec)
{
    uint64_t copied = 0;

    begin(2, spec, 0);
    bad_path();
    memory.sw.loss = 200;
    for (unsigned number = 0; number < CLOSES; number++) {
        struct region region = open_region(number);
        unsigned looks = 1U << switch_random(&memory.sw) % 16;
        uint64_t before = ended;

        read_region(&region, number);
        while (looks--)
            look_all();
        copied += before + READS - ended;
        close_region(&region);
        run_until(before + READS);
        assert_int_equal(ended, before + READS);
    }
    printf("%s: %llu reads were under way, of %u; %llu failed\n", spec, (unsigned long long)copied,
           CLOSES * READS, (unsigned long long)failed);
    assert_in_range(failed, 1, copied - 1); /* others had all that they need */
    end();
}

/* An endpoint of a layer's has no lock that fi_close could take. */
static void a_region_that_closes_is_left_alone(void **state)
{
    regions_close_under_reads("uet(iface=lo)");
    regions_close_under_reads("order;uet(iface=lo)");
}

static unsigned marks;

static bool count_marks(struct sw *sw, struct sw_packet *packet)
{
    marks += pds_is_ack(packet->bytes[0] >> 3) && packet->bytes[1] & PDS_MARKED;
    return true;
}

static void congestion_marks_come_back(void **state)
{
    begin(2, "uet(iface=lo)", 0);
    memory.sw.filter = count_marks;
    all_to_all(4);
    assert_int_equal(marks, 0);
    memory.marking = true;
    send_message(0, 1, 4, true);
    for (unsigned looks = 0; !marks; looks++) {
        assert_true(looks < PATIENCE);
        look_all();
    }
    end();
}

static enum ses_code told; /* in each response of the second endpoint */

static bool tell(struct sw *sw, struct sw_packet *packet)
{
    struct pds_header header;
    int size = pds_header_get(packet->bytes, packet->len, false, &header);

    if (packet->from == 1 && size > 0 && pds_is_ack(header.type) && header.next == NEXT_RESPONSE)
        packet->bytes[size + 1] = (uint8_t)((packet->bytes[size + 1] & 0xc0) | told);
    return true;
}

/* A target that keeps no message says that there is no receive; and others. */
static void what_a_target_says_is_the_error(void **state)
{
    static const struct {
        enum ses_code code;
        int error;
    } codes[] = {
        {RC_NO_MATCH, FI_ENORX},
        {RC_BAD_JOB_ID, FI_EACCES},
        {RC_UNSUPPORTED_OP, FI_EOPNOTSUPP},
    };
    static uint8_t bytes[3000];
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t got;

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        begin(2, "uet(iface=lo)", 0);
        peers[1].wild = true;
        memory.sw.filter = tell;
        told = codes[i].code;
        assert_int_equal(
            fi_tsend(peers[0].end.ep, bytes, sizeof(bytes), NULL, peers[0].to[1], 1, bytes), 0);
        while ((got = fi_cq_read(peers[0].end.cq, &entry, 1)) == -FI_EAGAIN)
            look(&peers[1]);
        assert_int_equal(got, -FI_EAVAIL);
        assert_int_equal(fi_cq_readerr(peers[0].end.cq, &error, 0), 1);
        assert_ptr_equal(error.op_context, bytes);
        assert_int_equal(error.err, codes[i].error);
        assert_int_equal(error.prov_errno, codes[i].code);
        end();
    }
}

/* Where peers do not take turns they refuse each other's openings again and again. */
static bool count_packets(struct sw *sw, struct sw_packet *packet)
{
    assert_true(sw->carried < (uint64_t)MOST_PACKETS * count * count);
    return true;
}

static void talk_to_all(unsigned endpoints, bool at_once)
{
    uint64_t began;

    begin(endpoints, "uet(iface=lo,pdcs=128)", 0);
    began = memory.sw.now;
    crowd = at_once;
    under_way = at_once ? UINT64_MAX : UNDER_WAY;
    memory.step /= 10;
    memory.sw.loss = 20;
    memory.sw.filter = count_packets;
    all_to_all(1);
    printf("%u endpoints: %llu packets, %llu lost, %llu us\n", count,
           (unsigned long long)memory.sw.carried, (unsigned long long)memory.sw.lost,
           (unsigned long long)(memory.sw.now - began) / 1000);
    memory.sw.filter = NULL;
    end();
}

static void many_talk_to_all(void **state)
{
    talk_to_all(SOME, false);
}

/* Each has fewer contexts than peers. */
static void more_than_there_are_contexts_talk_to_all(void **state)
{
    const char *text = getenv("WEFT_UET_ENDPOINTS");

    talk_to_all(text ? (unsigned)strtoul(text, NULL, 0) : MANY, false);
}

/* Each asks for more contexts than it has before any has answered. */
static void all_open_to_all_at_once(void **state)
{
    talk_to_all(MANY, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_are_done_once_over_a_bad_path),
        cmocka_unit_test(messages_keep_their_order_over_a_bad_path),
        cmocka_unit_test(a_rendezvous_is_read_over_a_bad_path),
        cmocka_unit_test(starts_are_demanded_over_a_bad_path),
        cmocka_unit_test(a_seed_says_all),
        cmocka_unit_test(a_peer_that_has_gone_ends_its_operations),
        cmocka_unit_test(changed_headers_are_no_matter_of_others),
        cmocka_unit_test(a_region_that_closes_is_left_alone),
        cmocka_unit_test(congestion_marks_come_back),
        cmocka_unit_test(what_a_target_says_is_the_error),
        cmocka_unit_test(many_talk_to_all),
        cmocka_unit_test(more_than_there_are_contexts_talk_to_all),
        cmocka_unit_test(all_open_to_all_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
