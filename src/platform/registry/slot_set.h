/* SPDX-License-Identifier: Apache-2.0 */
/** Sets of a host's slots, at most 64, as bits and as people read them: "0-3,6". Thread-safe. */
#ifndef WEFT_PLATFORM_REGISTRY_SLOT_SET_H
#define WEFT_PLATFORM_REGISTRY_SLOT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_SET_MOST       64
#define SLOT_SET_TEXT_BYTES 200 /**< room for any set, the final NUL included */

/** The `count` lowest slots below `slots` that are not in `used`; 0 if there are fewer. */
uint64_t slot_set_choose(uint64_t used, uint32_t slots, uint32_t count);

/** Their numbers, in order, into `numbers[SLOT_SET_MOST]`; how many. */
uint32_t slot_set_numbers(uint64_t set, uint32_t *numbers);

/** Write a set; returns `text`. And read one: false for malformed text. */
char *slot_set_write(uint64_t set, char text[SLOT_SET_TEXT_BYTES]);
bool slot_set_read(const char *text, uint64_t *set);

#endif
