/* SPDX-License-Identifier: Apache-2.0 */
/** Filling lines: paragraphs on the terminal. */
#ifndef WEFT_CLI_FRAME_WRAP_H
#define WEFT_CLI_FRAME_WRAP_H

#include <stdio.h>

#define WRAP_COLUMNS 96 /**< most characters a line */

/**
 * Print `text` filled to WRAP_COLUMNS. The cursor stands at column `column` already; later lines begin at `indent`.
 * Ends with a newline. "\n" in the text begins a new line.
 */
void wrap_print(FILE *output, const char *text, int column, int indent);

#endif
