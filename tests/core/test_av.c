/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <rdma/fi_errno.h>

#include "core/av/av.h"
#include "core/av/av_table.h"
#include "core/base/hash.h"
#include "core/info/abi.h"
#include "core/net/addr.h"
#include "core/queue/eq.h"

/* A domain by hand: nothing of fabrics is needed here. */
static struct fabric fabric = {.part = "test", .abi = ABI_1_9};
static struct fi_info info;
static struct fi_domain_attr domain_attr;
static struct domain domain;

static struct fid_av *open_av(uint32_t format, uint64_t flags)
{
    struct fi_av_attr attr = {.flags = flags};
    struct fid_av *av;

    info.addr_format = format;
    domain.fabric = &fabric;
    domain.info = &info;
    info.domain_attr = &domain_attr;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), 0);
    assert_int_equal(attr.type, FI_AV_TABLE);
    return av;
}

static void close_av(struct fid_av *av)
{
    assert_int_equal(fi_close(&av->fid), 0);
    assert_false(children_any(&domain.children));
}

static struct av *av_of(struct fid_av *av)
{
    return object_of(av, struct av, fid);
}

static struct sockaddr_in in4(uint32_t host, uint16_t port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};

    sin.sin_addr.s_addr = htonl(host);
    sin.sin_port = htons(port);
    return sin;
}

/* fi_av_straddr's text for an entry, or "". */
static const char *text_of(struct fid_av *av, fi_addr_t addr)
{
    static char text[200];
    char raw[200] = "";
    size_t len = sizeof(raw);

    if (fi_av_lookup(av, addr, raw, &len))
        return "";
    len = sizeof(text);
    return fi_av_straddr(av, raw, text, &len);
}

static void indices_follow_the_order_of_insertion(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    struct sockaddr_in list[3] = {in4(1, 1), in4(2, 1), in4(3, 1)};
    fi_addr_t out[3];

    assert_int_equal(fi_av_insert(av, list, 2, NULL, 0, NULL), 2);
    assert_int_equal(fi_av_insert(av, list + 2, 1, out, FI_MORE, NULL), 1);
    assert_int_equal(out[0], 2);
    assert_string_equal(text_of(av, 0), "fi_sockaddr_in://0.0.0.1:1");
    assert_string_equal(text_of(av, 2), "fi_sockaddr_in://0.0.0.3:1");
    assert_string_equal(text_of(av, 3), "");
    assert_int_equal(av_limit(av_of(av)), 3);
    assert_int_equal(av_find(av_of(av), &list[1]), 1);
    close_av(av);
}

static void removed_indices_come_back_lowest_first(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    fi_addr_t gone[] = {150, 3, 70}, out;
    struct sockaddr_in sin;

    for (uint32_t i = 0; i < 200; i++) {
        sin = in4(i + 1, 1);
        assert_int_equal(fi_av_insert(av, &sin, 1, NULL, 0, NULL), 1);
    }
    assert_int_equal(fi_av_remove(av, gone, 3, 0), 0);
    assert_int_equal(fi_av_remove(av, gone, 1, 0), -FI_EINVAL);
    assert_null(av_addr(av_of(av), 70));
    sin = in4(71, 1);
    assert_true(av_find(av_of(av), &sin) == FI_ADDR_NOTAVAIL);
    for (int i = 0; i < 4; i++) {
        static const fi_addr_t expected[] = {3, 70, 150, 200};

        sin = in4(1000 + (uint32_t)i, 1);
        assert_int_equal(fi_av_insert(av, &sin, 1, &out, 0, NULL), 1);
        assert_int_equal(out, expected[i]);
    }
    close_av(av);
}

static void failures_are_told_one_by_one(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    struct sockaddr_in list[4] = {in4(1, 1), in4(2, 0), in4(0, 5), in4(4, 1)};
    fi_addr_t out[4];
    int err[4] = {9, 9, 9, 9};

    assert_int_equal(fi_av_insert(av, list, 4, out, FI_SYNC_ERR, err), 2);
    assert_int_equal(out[0], 0);
    assert_true(out[1] == FI_ADDR_NOTAVAIL && out[2] == FI_ADDR_NOTAVAIL);
    assert_int_equal(out[3], 1);
    assert_int_equal(err[0], 0);
    assert_int_equal(err[1], FI_EINVAL);
    assert_int_equal(err[2], FI_EINVAL);
    assert_int_equal(err[3], 0);
    list[0].sin_family = AF_INET6;
    assert_int_equal(fi_av_insert(av, list, 1, out, 0, NULL), 0);
    assert_int_equal(fi_av_insert(av, list, 1, out, FI_PEEK, NULL), -FI_EBADFLAGS);
    assert_int_equal(fi_av_insert(av, list, 1, out, FI_SYNC_ERR, NULL), -FI_EINVAL);
    assert_int_equal(fi_av_insert(av, NULL, 0, NULL, 0, NULL), 0);
    close_av(av);
}

static void an_address_keeps_its_index_and_goes_with_the_last_removal(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    struct sockaddr_in list[5] = {in4(1, 1), in4(2, 1), in4(1, 1), in4(1, 1), in4(3, 1)};
    const fi_addr_t expected[5] = {0, 1, 0, 0, 2};
    fi_addr_t out[5];

    assert_int_equal(fi_av_insert(av, list, 5, out, 0, NULL), 5);
    assert_memory_equal(out, expected, sizeof(out));
    for (int left = 3; left > 0; left--) {
        assert_int_equal(av_find(av_of(av), list), 0);
        assert_string_equal(text_of(av, 0), "fi_sockaddr_in://0.0.0.1:1");
        assert_int_equal(fi_av_remove(av, &out[0], 1, 0), 0);
    }
    assert_true(av_find(av_of(av), list) == FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_av_remove(av, &out[0], 1, 0), -FI_EINVAL);
    assert_int_equal(fi_av_insert(av, &list[4], 1, out, 0, NULL), 1);
    assert_int_equal(out[0], 2);
    assert_int_equal(fi_av_insert(av, list, 1, out, 0, NULL), 1);
    assert_int_equal(out[0], 0);
    assert_int_equal(fi_av_remove(av, &out[0], 1, 0), 0);
    assert_int_equal(av_find(av_of(av), &list[1]), 1);
    close_av(av);
}

static void lookup_truncates_and_tells_the_need(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN6, 0);
    union addr addr;
    char small[8], text[10];
    size_t len = sizeof(small);
    fi_addr_t out;

    addr_from_str("[2001:db8::1]:77", SIZE_MAX, &addr);
    assert_int_equal(fi_av_insert(av, &addr.in6, 1, &out, 0, NULL), 1);
    memset(small, 0x5a, sizeof(small));
    len = 4;
    assert_int_equal(fi_av_lookup(av, out, small, &len), 0);
    assert_int_equal(len, sizeof(struct sockaddr_in6));
    assert_memory_equal(small, &addr, 4);
    assert_int_equal(small[4], 0x5a);
    len = 0;
    assert_int_equal(fi_av_lookup(av, out, NULL, &len), 0);
    assert_int_equal(len, sizeof(struct sockaddr_in6));
    assert_int_equal(fi_av_lookup(av, 1, small, &len), -FI_EINVAL);
    assert_int_equal(fi_av_lookup(av, FI_ADDR_NOTAVAIL, small, &len), -FI_EINVAL);
    len = sizeof(text);
    assert_ptr_equal(fi_av_straddr(av, &addr, text, &len), text);
    assert_string_equal(text, "fi_sockad");
    assert_int_equal(len, strlen("fi_sockaddr_in6://[2001:db8::1]:77") + 1);
    close_av(av);
}

static void either_family_and_strings(void **state)
{
    const char *texts[] = {"loop://7", "fi_sockaddr_in://1.2.3.4:5", "fi_sockaddr_in://nonsense",
                           "", "loop://8"};
    struct fid_av *av = open_av(FI_SOCKADDR, 0);
    char both[sizeof(struct sockaddr_in) + sizeof(struct sockaddr_in6)];
    union addr four, six;
    fi_addr_t out[5];

    addr_from_str("1.2.3.4:5", SIZE_MAX, &four);
    addr_from_str("[::9]:5", SIZE_MAX, &six);
    memcpy(both, &four.in, sizeof(four.in));
    memcpy(both + sizeof(four.in), &six.in6, sizeof(six.in6));
    assert_int_equal(fi_av_insert(av, both, 2, out, 0, NULL), 2);
    assert_string_equal(text_of(av, 1), "fi_sockaddr_in6://[::9]:5");
    assert_int_equal(av_find(av_of(av), &six), 1);
    close_av(av);

    av = open_av(FI_ADDR_STR, 0);
    assert_int_equal(fi_av_insert(av, texts, 5, out, 0, NULL), 3);
    assert_true(out[2] == FI_ADDR_NOTAVAIL && out[3] == FI_ADDR_NOTAVAIL);
    assert_string_equal(text_of(av, out[0]), "loop://7");
    assert_string_equal(text_of(av, out[4]), "loop://8");
    assert_int_equal(av_find(av_of(av), "loop://8"), 2);
    assert_int_equal(fi_av_insertsvc(av, "loop://9", NULL, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "loop://9");
    assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "80", out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "fi_sockaddr_in://127.0.0.1:80");
    assert_int_equal(fi_av_remove(av, out, 1, 0), 0);
    close_av(av);
}

#define LIKE_TEXT (UINTPTR_MAX > UINT32_MAX ? (uintptr_t)0x504948474000 : (uintptr_t)0x50494000)

/* An array of pointers and texts one behind the other look alike when a text is shorter than a
 * pointer: what no pointer can be is a text. */
static void short_texts_are_told_from_pointers(void **state)
{
    _Alignas(char *) static const char small[] = "a\0node1\0bcdefg";
    _Alignas(char *) static const char six[] = "UVWXYZ";
    struct fid_av *av = open_av(FI_ADDR_STR, 0);
    char *exact = malloc(3),
         *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Memory at an address whose bytes could be those of a text, and end as one does. */
    char *like = mmap((void *)LIKE_TEXT, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    const char *texts[2] = {"one", "two"};
    fi_addr_t out[3];

    assert_true(exact && pages != MAP_FAILED);
    assert_int_equal(fi_av_insert(av, small, 3, out, 0, NULL), 3);
    assert_string_equal(text_of(av, out[0]), "a");
    assert_string_equal(text_of(av, out[1]), "node1");
    assert_string_equal(text_of(av, out[2]), "bcdefg");
    assert_int_equal(fi_av_insert(av, small + 2, 1, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "node1");
    assert_int_equal(fi_av_insert(av, six, 1, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "UVWXYZ");
    memcpy(exact, "hi", 3);
    assert_int_equal(fi_av_insert(av, exact, 1, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "hi");
    /* At the end of what is readable. */
    assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
    memcpy(pages + 4096 - 4, "end", 4);
    assert_int_equal(fi_av_insert(av, pages + 4096 - 4, 1, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "end");
    memset(pages + 4096 - 8, 0, 8);
    memcpy(pages + 4096 - 8, "aligned", 8);
    assert_int_equal(fi_av_insert(av, pages + 4096 - 8, 1, out, 0, NULL), 1);
    assert_string_equal(text_of(av, out[0]), "aligned");
    assert_int_equal(fi_av_insert(av, texts, 2, out, 0, NULL), 2);
    assert_string_equal(text_of(av, out[1]), "two");
    if (like != MAP_FAILED) {
        texts[0] = strcpy(like + 0x546, "pointed");
        assert_int_equal(fi_av_insert(av, texts, 2, out, 0, NULL), 2);
        assert_string_equal(text_of(av, out[0]), "pointed");
        munmap(like, 4096);
    }
    free(exact);
    munmap(pages, 8192);
    close_av(av);
}

static void services_and_symmetric_ranges(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    fi_addr_t out[4];

    assert_int_equal(fi_av_insertsvc(av, "127.0.0.1", "80", out, 0, NULL), 1);
    assert_int_equal(fi_av_insertsvc(av, NULL, "80", out, 0, NULL), -FI_EINVAL);
    assert_int_equal(fi_av_insertsym(av, "10.1.1.255", 2, "5000", 2, out, 0, NULL), 4);
    assert_string_equal(text_of(av, out[0]), "fi_sockaddr_in://10.1.1.255:5000");
    assert_string_equal(text_of(av, out[1]), "fi_sockaddr_in://10.1.1.255:5001");
    assert_string_equal(text_of(av, out[2]), "fi_sockaddr_in://10.1.2.0:5000");
    assert_string_equal(text_of(av, out[3]), "fi_sockaddr_in://10.1.2.0:5001");
    assert_int_equal(fi_av_insertsym(av, "10.1.1.1", 1, "65535", 2, out, 0, NULL), 1);
    assert_true(out[1] == FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_av_insertsym(av, "255.255.255.255", 2, "1", 1, out, 0, NULL), 1);
    assert_true(out[1] == FI_ADDR_NOTAVAIL);
    close_av(av);

    av = open_av(FI_SOCKADDR_IN6, 0);
    assert_int_equal(fi_av_insertsym(av, "2001:db8::ffff", 2, "9", 1, out, 0, NULL), 2);
    assert_string_equal(text_of(av, out[1]), "fi_sockaddr_in6://[2001:db8::1:0]:9");
    close_av(av);
}

static void user_ids_replace_the_source(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, FI_AV_USER_ID);
    struct sockaddr_in list[4] = {in4(1, 1), in4(2, 1), in4(3, 1), in4(4, 1)};
    fi_addr_t out[2] = {77, 88};

    assert_int_equal(fi_av_insert(av, list, 2, out, FI_AV_USER_ID, NULL), -FI_EINVAL);
    assert_int_equal(fi_av_insert(av, list, 2, out, 0, NULL), 2);
    assert_true(av_source(av_of(av), 1) == FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_av_set_user_id(av, 1, 500, 0), 0);
    assert_int_equal(av_source(av_of(av), 1), 500);
    assert_true(av_source(av_of(av), 0) == FI_ADDR_NOTAVAIL);
    assert_int_equal(fi_av_set_user_id(av, 2, 500, 0), -FI_EINVAL);
    assert_int_equal(fi_av_remove(av, &out[1], 1, 0), 0);
    assert_int_equal(fi_av_insert(av, list + 1, 1, NULL, 0, NULL), 1);
    assert_true(av_source(av_of(av), 1) == FI_ADDR_NOTAVAIL);
    close_av(av);

    av = open_av(FI_SOCKADDR_IN, 0);
    out[0] = 0;
    assert_int_equal(fi_av_insert(av, list, 1, out, FI_AV_USER_ID, NULL), 1);
    assert_int_equal(av_source(av_of(av), 0), 0);
    out[0] = 99;
    assert_int_equal(fi_av_insert(av, list + 1, 1, out, FI_AV_USER_ID, NULL), 1);
    assert_int_equal(out[0], 1);
    assert_int_equal(av_source(av_of(av), 1), 99);
    assert_int_equal(av_source(av_of(av), 0), 0);
    out[0] = 2;
    assert_int_equal(fi_av_insert(av, list + 2, 1, out, FI_AV_USER_ID, NULL), 1);
    assert_int_equal(av_source(av_of(av), 2), 2);
    assert_int_equal(fi_av_insert(av, list + 3, 1, NULL, 0, NULL), 1);
    assert_int_equal(av_source(av_of(av), 3), 3);
    assert_int_equal(fi_av_set_user_id(av, 0, 5, 0), -FI_EINVAL);
    close_av(av);
}

static void what_is_not_supported_is_refused(void **state)
{
    struct fi_av_attr attr = {.name = "shared"};
    struct fid_av *av;

    info.addr_format = FI_SOCKADDR_IN;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), -FI_ENOSYS);
    attr.name = NULL;
    attr.flags = FI_PEER;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), -FI_EBADFLAGS);
    attr.flags = 0;
    attr.type = 7;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), -FI_EINVAL);
    attr.type = FI_AV_MAP;
    info.addr_format = FI_ADDR_GNI;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), -FI_ENOSYS);
    info.addr_format = FI_SOCKADDR_IN;
    attr.flags = FI_EVENT;
    assert_int_equal(av_open(&domain, &attr, &av, NULL), 0);
    assert_int_equal(fi_av_insert(av, NULL, 0, NULL, 0, NULL), -FI_ENOEQ);
    close_av(av);
    assert_false(children_any(&domain.children));
}

struct counts {
    struct av_listener listener;
    struct av *av;
    int inserted, removed;
};

static void saw_insert(struct av_listener *listener, fi_addr_t addr)
{
    struct counts *counts = object_of(listener, struct counts, listener);

    counts->inserted++;
    assert_int_equal(av_find(counts->av, av_addr(counts->av, addr)), addr);
}

static void saw_remove(struct av_listener *listener, fi_addr_t addr)
{
    struct counts *counts = object_of(listener, struct counts, listener);

    counts->removed++;
    assert_non_null(av_addr(counts->av, addr));
}

static void listeners_see_every_change(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    struct sockaddr_in list[3] = {in4(1, 1), in4(2, 0), in4(3, 1)};
    struct counts counts = {{.inserted = saw_insert, .removed = saw_remove}, av_of(av), 0, 0};
    fi_addr_t out[3];

    av_attach(counts.av, &counts.listener);
    assert_int_equal(fi_av_insert(av, list, 3, out, 0, NULL), 2);
    assert_int_equal(counts.inserted, 2);
    assert_int_equal(fi_av_insert(av, list, 1, out, 0, NULL), 1);
    assert_int_equal(counts.inserted, 2);
    assert_int_equal(fi_av_remove(av, out, 1, 0), 0);
    assert_int_equal(counts.removed, 0);
    fi_av_remove(av, out, 3, 0);
    assert_int_equal(counts.removed, 2);
    av_detach(counts.av, &counts.listener);
    assert_int_equal(fi_av_insert(av, list, 3, out, 0, NULL), 2);
    assert_int_equal(counts.inserted, 2);
    close_av(av);
}

static void events_report_asynchronous_insertion(void **state)
{
    struct fid_av *av = open_av(FI_SOCKADDR_IN, FI_EVENT);
    struct sockaddr_in list[2] = {in4(1, 1), in4(2, 0)};
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
    struct fi_eq_err_entry error = {0};
    struct fi_eq_entry entry;
    struct progress *progress;
    struct fid_eq *eq;
    uint32_t event;

    assert_int_equal(progress_create_control("test", &progress), 0);
    assert_int_equal(eq_open(&fabric, progress, &attr, &eq, NULL), 0);
    assert_int_equal(av->fid.ops->bind(&av->fid, &eq->fid, 0), 0);
    assert_int_equal(fi_close(&eq->fid), -FI_EBUSY);
    assert_int_equal(fi_av_insert(av, list, 2, NULL, 0, &list), 0);
    assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
    assert_int_equal(fi_eq_readerr(eq, &error, 0), sizeof(error));
    assert_int_equal(error.data, 1);
    assert_int_equal(error.err, FI_EINVAL);
    assert_ptr_equal(error.context, &list);
    assert_int_equal(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
    assert_int_equal(event, FI_AV_COMPLETE);
    assert_int_equal(entry.data, 1);
    assert_ptr_equal(entry.fid, &av->fid);
    close_av(av);
    assert_int_equal(fi_close(&eq->fid), 0);
    progress_release(progress);
}

/* They lie behind the last place that a hash has. */
static void addresses_of_the_largest_hashes_are_found(void **state)
{
    enum {
        COUNT = 500
    };
    static struct sockaddr_in list[COUNT];
    struct av_table *table;
    uint64_t index;
    bool fresh;

    for (uint32_t host = 1, i = 0; i < COUNT; host++) {
        list[i] = in4(host, 7);
        i += hash_fold(addr_hash((struct sockaddr *)&list[i])) >= 0xffc00000;
    }
    assert_int_equal(av_table_create(FI_SOCKADDR_IN, 0, &table), 0);
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < COUNT; i += 1 + (unsigned)round) {
            assert_true(av_table_find(table, &list[i]) == FI_ADDR_NOTAVAIL);
            assert_int_equal(av_table_insert(table, &list[i], &index, &fresh), 0);
            assert_true(fresh && index == i);
        }
        for (uint64_t i = 0; i < COUNT; i++)
            assert_int_equal(av_table_find(table, &list[i]), i);
        for (uint64_t i = 0; i < COUNT; i += 2) {
            av_table_remove(table, i);
            assert_true(av_table_find(table, &list[i]) == FI_ADDR_NOTAVAIL);
        }
        for (uint64_t i = 1; i < COUNT; i += 2)
            assert_int_equal(av_table_find(table, &list[i]), i);
    }
    av_table_destroy(table);
}

/* Addresses of a small set come and go; a plain array says what the table must answer. */
static void table_follows_a_model(void **state)
{
    enum {
        SLOTS = 600,
        ADDRS = 500,
        STEPS = 60000
    };
    static int model[SLOTS]; /* address number at an index, or -1 */
    static int times[SLOTS]; /* it was inserted */
    struct av_table *table;
    unsigned seed = 4711;
    bool fresh;

    for (int i = 0; i < SLOTS; i++)
        model[i] = -1;
    assert_int_equal(av_table_create(FI_SOCKADDR_IN, 0, &table), 0);
    for (int step = 0; step < STEPS; step++) {
        int number = rand_r(&seed) % ADDRS;
        struct sockaddr_in sin = in4(0x0a000000u + (uint32_t)number, 7);
        uint64_t index = (uint64_t)rand_r(&seed) % SLOTS, expected = FI_ADDR_NOTAVAIL;

        for (uint64_t i = 0; i < SLOTS && expected == FI_ADDR_NOTAVAIL; i++)
            if (model[i] == number)
                expected = i;
        assert_true(av_table_find(table, &sin) == expected);
        assert_int_equal(av_table_get(table, index) != NULL, model[index] >= 0);
        if (model[index] >= 0) {
            assert_int_equal(av_table_remove_again(table, index), times[index] > 1);
            if (--times[index])
                continue;
            av_table_remove(table, index);
            model[index] = -1;
        } else {
            uint64_t at = 0;

            while (expected == FI_ADDR_NOTAVAIL && model[at] >= 0)
                at++;
            at = expected == FI_ADDR_NOTAVAIL ? at : expected;
            assert_int_equal(av_table_insert(table, &sin, &index, &fresh), 0);
            assert_int_equal(index, at);
            assert_int_equal(fresh, model[at] < 0);
            model[at] = number;
            times[at]++;
        }
    }
    av_table_destroy(table);
}

static void a_hundred_thousand_are_found_again(void **state)
{
    enum {
        MANY = 100000
    };
    struct fid_av *av = open_av(FI_SOCKADDR_IN, 0);
    struct sockaddr_in sin;

    for (uint32_t i = 0; i < MANY; i++) {
        sin = in4(i * 2654435761u | 1, (uint16_t)(i % 60000 + 1));
        assert_int_equal(fi_av_insert(av, &sin, 1, NULL, 0, NULL), 1);
    }
    for (uint32_t i = 0; i < MANY; i += 17) {
        sin = in4(i * 2654435761u | 1, (uint16_t)(i % 60000 + 1));
        assert_memory_equal(av_addr(av_of(av), i), &sin, sizeof(sin));
        assert_int_equal(av_find(av_of(av), &sin), i);
    }
    close_av(av);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indices_follow_the_order_of_insertion),
        cmocka_unit_test(removed_indices_come_back_lowest_first),
        cmocka_unit_test(failures_are_told_one_by_one),
        cmocka_unit_test(an_address_keeps_its_index_and_goes_with_the_last_removal),
        cmocka_unit_test(lookup_truncates_and_tells_the_need),
        cmocka_unit_test(either_family_and_strings),
        cmocka_unit_test(short_texts_are_told_from_pointers),
        cmocka_unit_test(services_and_symmetric_ranges),
        cmocka_unit_test(user_ids_replace_the_source),
        cmocka_unit_test(what_is_not_supported_is_refused),
        cmocka_unit_test(listeners_see_every_change),
        cmocka_unit_test(events_report_asynchronous_insertion),
        cmocka_unit_test(addresses_of_the_largest_hashes_are_found),
        cmocka_unit_test(table_follows_a_model),
        cmocka_unit_test(a_hundred_thousand_are_found_again),
    };

    return cmocka_run_group_tests_name("core/av", tests, NULL, NULL);
}
