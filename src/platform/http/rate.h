/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Token buckets, one a key (a user, an address): each fills at a rate up to a size, and a request takes one
 * out. The table has a fixed number of places and never grows: when it is full, the key that was used longest ago goes,
 * which costs that key nothing but its past. Time is given by the caller. A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_HTTP_RATE_H
#define WEFT_PLATFORM_HTTP_RATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct rate;

/** `rate` a second, up to `burst` at once (at least 1). rate_free() frees it. */
weft_status rate_new(double rate, double burst, struct rate **result, struct error *error);
void rate_free(struct rate *rate);

/** Take one from the bucket of `key` at `now` (nanoseconds): 0, or the seconds after which one will be there. */
double rate_take(struct rate *rate, uint64_t key, uint64_t now);

#endif
