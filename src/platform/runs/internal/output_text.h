/* SPDX-License-Identifier: Apache-2.0 */
/** What programs print, made fit to be shown. Thread-safe. */
#ifndef WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_TEXT_H
#define WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_TEXT_H

#include <stddef.h>

/**
 * Make `size` bytes of a line a text, in place, and end it with a NUL (there is room for it): no orders to a terminal,
 * of a line that was written over itself what came last, no control characters but tabs, and UTF-8. Returns its length.
 */
size_t run_output_text(char *line, size_t size);

#endif
