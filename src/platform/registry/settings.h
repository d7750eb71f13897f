/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which platform this is, and where its numbers of runs begin: a database can be lost, or be an older copy of itself,
 * while what runs have left, in files and in the metrics, is still there. The rules of registry.h hold.
 */
#ifndef WEFT_PLATFORM_REGISTRY_SETTINGS_H
#define WEFT_PLATFORM_REGISTRY_SETTINGS_H

#include "platform/registry/registry.h"

#define REGISTRY_IDENTITY_BYTES 33

struct registry_platform {
    char identity[REGISTRY_IDENTITY_BYTES]; /**< 32 random letters and digits, made with the database */
    bool adopts; /**< it had runs before it had an identity: what names no platform is its own */
};

weft_status registry_platform_get(struct database *database, struct registry_platform *platform, struct error *error);

/** See that the next run gets a number above `run`. `*last`: the one above which it would have been otherwise. */
weft_status registry_number_above(struct database *database, int64_t run, int64_t *last, struct error *error);

#endif
