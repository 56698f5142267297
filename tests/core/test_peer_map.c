/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/av/peer_map.h"

static int peers[3];

static void set(struct peer_map *map, fi_addr_t addr, void *peer)
{
    void **slot = peer_map_slot(map, addr);

    assert_non_null(slot);
    *slot = peer;
}

static void peers_are_found_by_address(void **state)
{
    struct peer_map map = {NULL, 0};

    set(&map, 0, &peers[0]);
    set(&map, PEER_MAP_CHUNK - 1, &peers[1]);
    set(&map, 5 * PEER_MAP_CHUNK, &peers[2]);
    assert_ptr_equal(peer_map_at(&map, 0), &peers[0]);
    assert_ptr_equal(peer_map_at(&map, PEER_MAP_CHUNK - 1), &peers[1]);
    assert_ptr_equal(peer_map_at(&map, 5 * PEER_MAP_CHUNK), &peers[2]);
    assert_null(peer_map_at(&map, 1));
    peer_map_finish(&map);
}

static void unknown_addresses_have_none(void **state)
{
    struct peer_map map = {NULL, 0};

    assert_null(peer_map_at(&map, 0));
    set(&map, 3 * PEER_MAP_CHUNK, &peers[0]);
    assert_null(peer_map_at(&map, PEER_MAP_CHUNK));
    assert_null(peer_map_at(&map, 4 * PEER_MAP_CHUNK));
    assert_null(peer_map_at(&map, FI_ADDR_UNSPEC));
    assert_null(peer_map_at(&map, FI_ADDR_NOTAVAIL));
    peer_map_finish(&map);
    peer_map_finish(&map);
}

static void next_skips_what_is_empty(void **state)
{
    struct peer_map map = {NULL, 0};

    assert_int_equal(peer_map_next(&map, 0), FI_ADDR_NOTAVAIL);
    set(&map, 7, &peers[0]);
    set(&map, 4 * PEER_MAP_CHUNK + 1, &peers[1]);
    assert_int_equal(peer_map_next(&map, 0), 7);
    assert_int_equal(peer_map_next(&map, 7), 7);
    assert_int_equal(peer_map_next(&map, 8), 4 * PEER_MAP_CHUNK + 1);
    set(&map, 7, NULL);
    assert_int_equal(peer_map_next(&map, 0), 4 * PEER_MAP_CHUNK + 1);
    assert_int_equal(peer_map_next(&map, 4 * PEER_MAP_CHUNK + 2), FI_ADDR_NOTAVAIL);
    peer_map_finish(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_are_found_by_address),
        cmocka_unit_test(unknown_addresses_have_none),
        cmocka_unit_test(next_skips_what_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
