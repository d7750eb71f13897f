/* SPDX-License-Identifier: Apache-2.0 */
/**
 * This process's terminal in raw mode, as the keyboard and screen of a remote terminal. It is restored when the process
 * exits or a signal ends it. There is one terminal, so its state is global.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_RAW_TERMINAL_H
#define WEFT_CLI_PLATFORM_RUNS_RAW_TERMINAL_H

/** Does nothing if standard input is not a terminal. */
void raw_terminal_enter(void);

/** Restore the terminal; does nothing if it is not in raw mode. */
void raw_terminal_leave(void);

/** Its size; 24 x 80 if it is unknown. */
void raw_terminal_size(unsigned *rows, unsigned *columns);

#endif
