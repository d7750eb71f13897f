/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/internal/redactor.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

bool redactor_add(struct redactor *redactor, const char *name, const char *value, size_t size)
{
    struct redacted added = {strdup(name), malloc(size + 1), size};
    struct redacted *grown = realloc(redactor->secrets, (redactor->count + 1) * sizeof *grown);
    if (grown)
        redactor->secrets = grown;
    if (!grown || !added.name || !added.value) {
        free(added.name);
        free(added.value);
        return false;
    }
    memcpy(added.value, value, size);
    size_t at = redactor->count++;
    for (; at > 0 && grown[at - 1].size < size; at--)
        grown[at] = grown[at - 1];
    grown[at] = added;
    redactor->begins[(unsigned char)*value] = true;
    return true;
}

void redactor_free(struct redactor *redactor)
{
    for (size_t i = 0; i < redactor->count; i++) {
        sodium_memzero(redactor->secrets[i].value, redactor->secrets[i].size);
        free(redactor->secrets[i].value);
        free(redactor->secrets[i].name);
    }
    free(redactor->secrets);
    *redactor = (struct redactor){0};
}

/* The secret that begins at `text`, or NULL. `*may`: the text ends within one. */
static const struct redacted *redactor_find(const struct redactor *redactor, const char *text, size_t size, bool *may)
{
    *may = false;
    for (size_t i = 0; redactor->begins[(unsigned char)*text] && i < redactor->count; i++) {
        const struct redacted *secret = &redactor->secrets[i];
        const size_t known = size < secret->size ? size : secret->size;
        if (memcmp(text, secret->value, known) != 0)
            continue;
        *may = known < secret->size;
        return *may ? NULL : secret;
    }
    return NULL;
}

size_t redactor_take(const struct redactor *redactor, const void *bytes, size_t size, bool last, struct buffer *output)
{
    const char *text = bytes;
    size_t at = 0, plain = 0;
    for (bool may; at < size && redactor->count;) {
        const struct redacted *secret = redactor_find(redactor, text + at, size - at, &may);
        if (may && !last)
            break;
        if (may) /* the longest one is truncated here, but a shorter one may be complete */
            for (size_t i = 0; i < redactor->count && !secret; i++)
                if (redactor->secrets[i].size <= size - at &&
                    memcmp(text + at, redactor->secrets[i].value, redactor->secrets[i].size) == 0)
                    secret = &redactor->secrets[i];
        if (!secret) {
            at++;
            continue;
        }
        buffer_put(output, text + plain, at - plain);
        buffer_put(output, "[secret ", 8);
        buffer_put(output, secret->name, strlen(secret->name));
        buffer_put(output, "]", 1);
        plain = at += secret->size;
    }
    if (!redactor->count)
        at = size;
    buffer_put(output, text + plain, at - plain);
    return at;
}
