/* SPDX-License-Identifier: Apache-2.0 */
/** Amounts of budgets as people write and read them: slot-minutes. Thread-safe. */
#ifndef WEFT_CLI_FRAME_AMOUNT_H
#define WEFT_CLI_FRAME_AMOUNT_H

#include "base/error.h"

#include <stddef.h>

#define AMOUNT_BYTES 40

/**
 * Read "1200" (slot-minutes), or slots times a duration: "20h" is 1200, "8x6h" is 2880 (8 slots for 6 hours). `least`
 * is the smallest that it may be; a minus sign may stand before it where that is below 0. `what` names it in messages.
 * Errors: ARGUMENT.
 */
weft_status amount_parse(const char *text, const char *what, double least, double *minutes, struct error *error);

/** "1200", "0.5", "12.3 k", "4.56 M": three digits at least, four where they are whole. Returns `buffer`. */
char *amount_text(double minutes, char buffer[AMOUNT_BYTES]);

#endif
