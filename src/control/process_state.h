/* SPDX-License-Identifier: Apache-2.0 */
/** What the operating system says about another process of this host. Any thread. */
#ifndef WEFT_CONTROL_PROCESS_STATE_H
#define WEFT_CONTROL_PROCESS_STATE_H

#include <stdbool.h>

/** Whether there is a process of this number that is neither stopped nor dead: one that would run if it were let. */
bool process_is_well(int process);

#endif
