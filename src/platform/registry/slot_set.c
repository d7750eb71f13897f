/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/slot_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t slot_set_choose(uint64_t used, uint32_t slots, uint32_t count)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < slots && i < SLOT_SET_MOST && count; i++) {
        if (!(used >> i & 1)) {
            set |= UINT64_C(1) << i;
            count--;
        }
    }
    return count ? 0 : set;
}

uint32_t slot_set_numbers(uint64_t set, uint32_t *numbers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SLOT_SET_MOST; i++)
        if (set >> i & 1)
            numbers[count++] = i;
    return count;
}

char *slot_set_write(uint64_t set, char text[SLOT_SET_TEXT_BYTES])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < SLOT_SET_MOST; i++) {
        if (!(set >> i & 1))
            continue;
        uint32_t last = i;
        while (last + 1 < SLOT_SET_MOST && set >> (last + 1) & 1)
            last++;
        used += (size_t)snprintf(text + used, SLOT_SET_TEXT_BYTES - used, last > i ? "%s%u-%u" : "%s%u",
                                 used ? "," : "", i, last);
        i = last;
    }
    return text;
}

bool slot_set_read(const char *text, uint64_t *set)
{
    uint64_t read = 0;
    while (*text) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            text = end + 1;
            if (*text < '0' || *text > '9')
                return false;
            last = strtoul(text, &end, 10);
        }
        if (first > last || last >= SLOT_SET_MOST || (*end && *end != ',') || (*end == ',' && !end[1]))
            return false;
        for (unsigned long i = first; i <= last; i++)
            read |= UINT64_C(1) << i;
        text = *end ? end + 1 : end;
    }
    *set = read;
    return true;
}
