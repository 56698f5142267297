/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of all parts that change no attribute, a line each: what can stand anywhere. */
#include <stdio.h>

#include "compose/registry.h"

int main(void)
{
    for (size_t i = 0; i < part_registry_count; i++)
        if (part_registry[i]->transparent)
            puts(part_registry[i]->name);
    return 0;
}
