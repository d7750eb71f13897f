/* SPDX-License-Identifier: Apache-2.0 */
/** Signals that ask a command to end early and cleanly. */
#ifndef WEFT_CLI_FRAME_INTERRUPTS_H
#define WEFT_CLI_FRAME_INTERRUPTS_H

#include <signal.h>

/** From now on SIGINT, SIGTERM and SIGHUP ask to stop: the returned number becomes that of the signal, and a second one
 * ends the program. */
const volatile sig_atomic_t *interrupts_catch(void);

#endif
