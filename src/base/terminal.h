/* SPDX-License-Identifier: Apache-2.0 */
/** Terminals on which a line can be overwritten. Safe from any thread. */
#ifndef WEFT_BASE_TERMINAL_H
#define WEFT_BASE_TERMINAL_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define TERMINAL_COLUMNS_UNKNOWN 80

/**
 * Columns of the terminal at `descriptor` (80 if unknown); 0 if it is not a terminal, or one that cannot return to the
 * beginning of a line (TERM is dumb or missing).
 */
static inline uint32_t terminal_columns(int descriptor)
{
    struct winsize size;
    const char *name = getenv("TERM");
    if (!isatty(descriptor) || !name || !*name || strcmp(name, "dumb") == 0)
        return 0;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : TERMINAL_COLUMNS_UNKNOWN;
}

#endif
