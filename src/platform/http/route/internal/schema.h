/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The schemas of JSON bodies: the part of OpenAPI 3.0's schema objects that is needed, as data that both describes a
 * body and is used to check it, so that the two never differ.
 *
 * Understood: $ref ("#/components/schemas/NAME"), type, nullable, enum, properties, required, additionalProperties
 * (false, or a schema), items, minimum, maximum, minLength, maxLength, minItems, maxItems; title, description, example,
 * default, format say something to people alone. Any other word is refused when the schema is added.
 */
#ifndef WEFT_PLATFORM_HTTP_ROUTE_INTERNAL_SCHEMA_H
#define WEFT_PLATFORM_HTTP_ROUTE_INTERNAL_SCHEMA_H

#include "base/error.h"
#include "base/format/json.h"

#include <stddef.h>

struct schema {
    const char *name;
    const char *json; /**< the schema object as a text */
};

struct schema_set;

weft_status schema_set_new(struct schema_set **set, struct error *error);
void schema_set_free(struct schema_set *set);

/** Add a schema. Errors: DATA: it is no JSON, has a word that is not understood, or its name is there already. */
weft_status schema_set_add(struct schema_set *set, const struct schema *schema, struct error *error);

/** Complain about a $ref to what is not there; to be called once all are added. Errors: DATA. */
weft_status schema_set_check(const struct schema_set *set, struct error *error);

/** All of them, an object by name; the set's own. */
const cJSON *schema_set_tree(const struct schema_set *set);

/**
 * Check `value` against the schema `name`. Errors: DATA with a message that names the place ("nodes[2].gpus is 9, the
 * most is 8").
 */
weft_status schema_check(const struct schema_set *set, const char *name, const cJSON *value, struct error *error);

#endif
