/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Values of secrets in what a program prints become "[secret NAME]", also where a value comes in several pieces. Exact
 * bytes only: a value that was encoded, escaped or split by the program is not recognized. A stream belongs to one
 * thread.
 */
#ifndef WEFT_PLATFORM_REDACTOR_H
#define WEFT_PLATFORM_REDACTOR_H

#include "control/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redactor {
    struct redacted {
        char *name, *value;
        size_t size;
    } * secrets; /* the longest value first */
    size_t count;
    bool begins[256]; /* some value begins with this byte */
};

/** Have `value` replaced by "[secret NAME]" from now on. False: memory ran out. */
bool redactor_add(struct redactor *redactor, const char *name, const char *value, size_t size);

/** Wipe the values and free them. */
void redactor_free(struct redactor *redactor);

/**
 * Append `size` bytes to `output`, redacted. Returns how many were taken: less than `size` where the last ones may be
 * the beginning of a value, unless these are the `last` of the stream. What is left is to be given again, with what
 * follows it. Without secrets all are taken.
 */
size_t redactor_take(const struct redactor *redactor, const void *bytes, size_t size, bool last, struct buffer *output);

#endif
