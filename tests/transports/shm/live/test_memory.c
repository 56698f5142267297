/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory that a link keeps: large messages touch its bulk, and a second later it is gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

enum {
    LEN = 20000,
    MANY = 40, /* more than once round the bulk */
    KIB = 1024,
    BULK_STEP = 64 * KIB, /* the least of bulk that has pages */
    SECONDS = 60,
};

/* Resident bytes of all mappings of links of this process: both ends are here. */
static size_t resident(void)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    size_t sum = 0, kib;
    bool link = false;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strstr(line, "weft-shm-link"))
            link = true;
        if (link && sscanf(line, "Rss: %zu kB", &kib) == 1) {
            sum += kib * KIB;
            link = false;
        }
    }
    fclose(file);
    return sum;
}

static void talk(struct end *from, struct end *to, fi_addr_t addr, unsigned seed)
{
    char out[LEN], in[LEN];
    struct fi_cq_tagged_entry entry;

    for (unsigned i = 0; i < MANY; i++) {
        memset(out, (int)(seed + i), LEN);
        assert_int_equal(fi_trecv(to->ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
        end_post(from, to, fi_tsend(from->ep, out, LEN, NULL, addr, 1, out));
        assert_int_equal(end_wait(to, from, &entry), 0);
        assert_int_equal(end_wait(from, to, &entry), 0);
        assert_memory_equal(in, out, LEN);
    }
}

static void test_bulk_is_given_back(void **state)
{
    struct end a, b;
    fi_addr_t to_b;
    size_t small, large, now;

    (void)state;
    end_open(&a, "shm");
    end_open(&b, "shm");
    to_b = end_introduce(&a, &b);
    end_post(&a, &b, fi_tinject(a.ep, "x", 1, to_b, 2));
    for (int i = 0; i < KIB; i++)
        end_drive(&a, &b);
    small = resident();
    talk(&a, &b, to_b, 1);
    large = resident();
    assert_true(large >= small + BULK_STEP);
    now = large;
    for (double begin = end_seconds(); now > small && end_seconds() - begin < SECONDS;) {
        for (int i = 0; i < KIB; i++)
            end_drive(&a, &b);
        now = resident();
    }
    printf("resident, both sides: %zu KiB, %zu after large messages, %zu in the end\n", small / KIB,
           large / KIB, now / KIB);
    assert_true(now <= small);
    talk(&a, &b, to_b, 2);
    end_close(&a);
    end_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_is_given_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
