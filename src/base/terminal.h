/* SPDX-License-Identifier: Apache-2.0 */
/** Terminals on which a line can be overwritten. Safe from any thread. */
#ifndef WEFT_BASE_TERMINAL_H
#define WEFT_BASE_TERMINAL_H

#include <stdint.h>

/**
 * Columns of the terminal at `descriptor` (80 if unknown); 0 if it is not a terminal, or one that cannot return to the
 * beginning of a line (TERM is dumb or missing).
 */
uint32_t terminal_columns(int descriptor);

#endif
