/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The lanes of a communicator's operations move in a random order, about a step each, some after a while. A schedule
 * is right in any order of its lanes.
 *
 * Programs that use it depend on `disorder` (meson.build), which puts disorder.c between the executor and its lanes.
 */
#ifndef WEFT_TESTS_DISORDER_H
#define WEFT_TESTS_DISORDER_H

#include <stdbool.h>
#include <weft/weft.h>

/** From now on, or no longer. At most DISORDER_COMMS communicators at a time: end it before a communicator is freed. */
void disorder_set(weft_comm *comm, bool disorder);
#define DISORDER_COMMS 64

/** Lanes that were advanced in disorder so far, by all ranks of this process. */
unsigned long long disorder_turns(void);

#endif
