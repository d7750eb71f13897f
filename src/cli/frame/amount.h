/* SPDX-License-Identifier: Apache-2.0 */
/** Amounts of budgets in slot-minutes, parsed and formatted. Thread-safe. */
#ifndef WEFT_CLI_FRAME_AMOUNT_H
#define WEFT_CLI_FRAME_AMOUNT_H

#include "base/error.h"

#include <stddef.h>

#define AMOUNT_BYTES 40

/**
 * Parse "1200" (slot-minutes), or slots times a duration: "20h" is 1200, "8x6h" is 2880 (8 slots for 6 hours). Amounts
 * below `least` are refused; a minus sign is allowed if `least` is negative. `what` names the amount in messages.
 * Errors: ARGUMENT.
 */
weft_status amount_parse(const char *text, const char *what, double least, double *minutes, struct error *error);

/** Format as "1200", "0.5", "12.3 k", "4.56 M": at least three digits, whole numbers up to four. Returns `buffer`. */
char *amount_text(double minutes, char buffer[AMOUNT_BYTES]);

#endif
