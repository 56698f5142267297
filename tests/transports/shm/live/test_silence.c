/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that owes an answer and makes no progress, as one that is stopped: the log says so once.
 * Nothing is said of one that computes while a message waits for its receive. */
#include <string.h>

#include "core/progress/silence.h"
#include "support/warnings.h"
#include "ends.h"
#include "layers/rxm/inside.h"

enum {
    AFTER_MS = 100,
    SIZE = 4096,
    LARGE = 1 << 20,
    KEY = 5,
};

static const struct end_want want = {.caps = FI_MSG | FI_TAGGED | FI_RMA};

struct pair {
    struct end one, other;
    fi_addr_t to_other, to_one;
};

static void open_pair(struct pair *pair)
{
    warnings_forget();
    end_open_as(&pair->one, "shm", &want);
    end_open_as(&pair->other, "shm", &want);
    pair->to_other = end_introduce(&pair->one, &pair->other);
    pair->to_one = end_introduce(&pair->other, &pair->one);
}

static void close_pair(struct pair *pair)
{
    end_close(&pair->one);
    end_close(&pair->other);
}

/* Only one side, for several times as long as silence lasts. */
static void drive_alone(struct end *end)
{
    double begin = end_seconds();

    while (end_seconds() - begin < 5e-3 * AFTER_MS)
        end_drive(end, NULL);
}

static void assert_named_once(struct pair *pair)
{
    char name[END_NAME] = "";

    end_name(&pair->other, name);
    assert_int_equal(warning_count, 1);
    assert_non_null(strstr(warnings, name));
    assert_non_null(strstr(warnings, "no answer from"));
}

static void a_read_is_not_answered(void **state)
{
    static char memory[SIZE], in[SIZE];
    struct fi_cq_tagged_entry entry;
    struct fid_mr *mr;
    struct pair pair;

    open_pair(&pair);
    assert_int_equal(
        fi_mr_reg(pair.other.domain, memory, SIZE, FI_REMOTE_READ, 0, KEY, 0, &mr, NULL), 0);
    end_post(&pair.one, &pair.other,
             fi_read(pair.one.ep, in, SIZE, NULL, pair.to_other, 0, KEY, in));
    drive_alone(&pair.one);
    assert_named_once(&pair);
    assert_int_equal(end_wait(&pair.one, &pair.other, &entry), 0);
    drive_alone(&pair.one);
    assert_int_equal(warning_count, 1);
    assert_int_equal(fi_close(&mr->fid), 0);
    close_pair(&pair);
}

static void a_ring_stays_full(void **state)
{
    struct pair pair;

    open_pair(&pair);
    for (int i = 0; i < 200; i++)
        end_post(&pair.one, NULL, fi_tsend(pair.one.ep, "x", 1, NULL, pair.to_other, 1, NULL));
    drive_alone(&pair.one);
    assert_named_once(&pair);
    close_pair(&pair);
}

static void a_message_without_a_receive_is_no_debt(void **state)
{
    static char large[LARGE];
    struct pair pair;

    open_pair(&pair);
    end_post(&pair.one, NULL, fi_tsend(pair.one.ep, large, LARGE, NULL, pair.to_other, 1, large));
    drive_alone(&pair.one);
    assert_int_equal(warning_count, 0);
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_is_not_answered),
        cmocka_unit_test(a_ring_stays_full),
        cmocka_unit_test(a_message_without_a_receive_is_no_debt),
    };

    silence_after_ms = AFTER_MS;
    if (warnings_import())
        return 1;
    return cmocka_run_group_tests_name("silence", tests, NULL, NULL);
}
