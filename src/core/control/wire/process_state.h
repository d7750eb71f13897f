/* SPDX-License-Identifier: Apache-2.0 */
/** What the operating system says about another process of this host. Any thread. */
#ifndef WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H
#define WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H

#include <stdbool.h>

/** The state of a process's main thread as ps shows it: R runs, S sleeps, D waits for a device, T is stopped, Z is dead
 * ...; 0: there is no such process. */
char process_state(int process);

/** Whether there is a process of this number that is neither stopped nor dead: one that would run if it were let. */
bool process_is_well(int process);

#endif
