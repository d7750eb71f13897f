/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Idempotency keys: who submits again after an answer was lost gets the run that was made then. The same key of the
 * same owner has to ask for the same, whatever that would lead to by now: so a key is kept with the digest of what was
 * asked for, not of what it was taken to mean. The rules of registry.h hold.
 */
#ifndef WEFT_PLATFORM_REGISTRY_INTERNAL_KEYS_H
#define WEFT_PLATFORM_REGISTRY_INTERNAL_KEYS_H

#include "base/sha256.h"
#include "platform/registry/registry.h"

#define REGISTRY_KEY_BYTES 129 /**< of a key, with the final NUL */

struct registry_key {
    const char *text; /**< borrowed: 1 to REGISTRY_KEY_BYTES - 1 printable bytes */
    uint8_t asked[SHA256_BYTES];
};

/** The key `text` for what is asked for by the `size` bytes at `asked`. Errors: DATA for what is no key. */
weft_status registry_key_make(const char *text, const void *asked, size_t size, struct registry_key *key,
                              struct error *error);

/** The run that the owner's key has made; 0: none. Errors: STATE: it was used for something else. */
weft_status registry_key_find(struct database *database, const char *owner, const struct registry_key *key,
                              int64_t *run, struct error *error);

/** It has made this run. */
weft_status registry_key_keep(struct database *database, const char *owner, const struct registry_key *key, int64_t run,
                              int64_t now, struct error *error);

/** Forget the keys that were used before `before`. */
weft_status registry_keys_forget(struct database *database, int64_t before, struct error *error);

#endif
