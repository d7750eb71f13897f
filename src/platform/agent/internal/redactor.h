/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Replaces the values of secrets in a program's output by "[secret NAME]", even if a value arrives in several pieces.
 * Only the exact bytes are recognized, not a value that the program has encoded, escaped or split. A stream belongs to
 * one thread.
 */
#ifndef WEFT_PLATFORM_AGENT_INTERNAL_REDACTOR_H
#define WEFT_PLATFORM_AGENT_INTERNAL_REDACTOR_H

#include "core/control/wire/frame.h"

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
 * Append `size` bytes to `output`, redacted. Returns how many were taken: less than `size` if the last ones may be the
 * beginning of a value, unless these are the `last` of the stream. Pass the rest again, followed by what comes next.
 * Without secrets all are taken.
 */
size_t redactor_take(const struct redactor *redactor, const void *bytes, size_t size, bool last, struct buffer *output);

#endif
