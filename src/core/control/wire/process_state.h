/* SPDX-License-Identifier: Apache-2.0 */
/** What the operating system says about another process of this host. Any thread. */
#ifndef WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H
#define WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H

#include <stdbool.h>

/**
 * The state of a process's main thread as ps shows it: R runs, S sleeps, D waits for a device, T is stopped, Z is dead
 * ...; 0: no such process.
 */
char process_state(int process);

/** Whether the process exists and is neither stopped nor dead: it would run if it got a processor. */
bool process_is_well(int process);

#endif
