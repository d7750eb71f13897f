/* SPDX-License-Identifier: Apache-2.0 */
/**
 * This process's terminal as the keyboard and screen of another one: nothing that is typed means anything here. It is
 * given back at the end of the process too, and when a signal ends it. There is one terminal, so its state is the
 * program's.
 */
#ifndef WEFT_CLI_PLATFORM_RUNS_RAW_TERMINAL_H
#define WEFT_CLI_PLATFORM_RUNS_RAW_TERMINAL_H

/** Nothing happens where standard input is no terminal. */
void raw_terminal_enter(void);

/** Harmless twice, and without raw_terminal_enter(). */
void raw_terminal_leave(void);

/** Its size; 24 and 80 where it has none. */
void raw_terminal_size(unsigned *rows, unsigned *columns);

#endif
