/* SPDX-License-Identifier: Apache-2.0 */
/** Terminals on which a line can be written over. Safe from any thread. */
#ifndef WEFT_BASE_TERMINAL_H
#define WEFT_BASE_TERMINAL_H

#include <stdint.h>

/** Columns of the terminal that `descriptor` is (80 where it does not say); 0: it is none, or one that cannot go back
 * to the beginning of a line (TERM is dumb or missing). */
uint32_t terminal_columns(int descriptor);

#endif
