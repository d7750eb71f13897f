/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Secrets of users and projects, encrypted on disk:
 *
 *     DIRECTORY/key                   32 random bytes, mode 0600
 *     DIRECTORY/users/anna/HF_TOKEN   a nonce and the value, by XChaCha20-Poly1305; the associated data is the path
 *                                  "users/anna/HF_TOKEN", so that no file can stand for another one
 *
 * A secret is named by that path ("place"). A reader of the key and the files has the secrets: the directory has mode
 * 0700. A value has SECRET_LEAST to SECRET_MOST bytes and no NUL.
 *
 * Changes replace whole files. Thread-safe: nothing is kept in memory.
 */
#ifndef WEFT_PLATFORM_REGISTRY_SECRET_STORE_H
#define WEFT_PLATFORM_REGISTRY_SECRET_STORE_H

#include "base/error.h"
#include "launch/order.h"
#include "platform/registry/name.h"

#include <stdbool.h>
#include <stddef.h>

#define SECRET_NAME_BYTES  64 /**< with the final NUL */
#define SECRET_PLACE_BYTES (PLATFORM_NAME_BYTES + SECRET_NAME_BYTES + 16)
#define SECRET_LEAST       8 /**< bytes of a value; shorter ones could not be redacted without hurting other output */
#define SECRET_MOST        65536
#define SECRETS_MOST       100 /**< of a user, or of a project */

/** Whether `name` may name a secret: that of an environment variable, of at most 63 bytes. */
bool secret_name_is_valid(const char *name);

/** The place of a secret of a project or of a user. */
char *secret_place(char place[SECRET_PLACE_BYTES], bool of_project, const char *owner, const char *name);

/** Make the directory and its key, or check those that are there. Errors: SYSTEM; DATA if the key is damaged or open to
 * others. */
weft_status secret_store_open(const char *directory, struct error *error);

/** Keep a value in place of any before. Errors: ARGUMENT; STATE if its owner has too many; SYSTEM, DATA, MEMORY. */
weft_status secret_store_put(const char *directory, const char *place, const void *value, size_t size,
                             struct error *error);

/** The value with a NUL after it, to be wiped and freed. Errors: STATE if there is none; DATA; SYSTEM; MEMORY. */
weft_status secret_store_get(const char *directory, const char *place, char **value, size_t *size, struct error *error);

/** Errors: STATE if there is none; SYSTEM. */
weft_status secret_store_remove(const char *directory, const char *place, struct error *error);

bool secret_store_has(const char *directory, const char *place);

/** The names of a project's or a user's secrets, in order; string_list_free() frees them. Errors: SYSTEM, MEMORY. */
weft_status secret_store_names(const char *directory, bool of_project, const char *owner, struct string_list *names,
                               struct error *error);

#endif
