/* SPDX-License-Identifier: Apache-2.0 */
/** Makes output printable. Thread-safe. */
#ifndef WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_TEXT_H
#define WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_TEXT_H

#include <stddef.h>

/**
 * Make `size` bytes of a line printable UTF-8, in place, and append a NUL, for which there is room. Removes terminal
 * escapes and control characters except tabs; of an overwritten line the last version remains. Returns the length.
 */
size_t run_output_text(char *line, size_t size);

#endif
