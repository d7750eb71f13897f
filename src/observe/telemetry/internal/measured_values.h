/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Values that were measured at one time, each with its name: "machine/network/eth0/received". The unit is documented
 * with the name. Parts of a name that come from outside hold letters, digits and ".:_-" only. A list belongs to one
 * thread at a time.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_MEASURED_VALUES_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_MEASURED_VALUES_H

#include "base/error.h"

#include <stdint.h>

#define MEASURED_NAME_BYTES 96
#define MEASURED_PART_BYTES 48 /* of a name, with its NUL: longer ones are cut */

struct measured_value {
    char name[MEASURED_NAME_BYTES];
    double value; /**< finite */
};

/** A zeroed struct is an empty list. */
struct measured_values {
    struct measured_value *values;
    uint32_t count;
    size_t room;
};

/** Forget the values, keep the memory; free it. */
void measured_values_clear(struct measured_values *list);
void measured_values_free(struct measured_values *list);

/** Add a value; one that is not finite is not known, and left out. Errors: MEMORY. */
weft_status measured_values_add(struct measured_values *list, double value, struct error *error, const char *format,
                                ...) __attribute__((format(printf, 4, 5)));

/** The value called `name`, or NaN. */
double measured_values_find(const struct measured_values *list, const char *name);

/** Make `text` a part of a name: other characters become '_', of the first MEASURED_PART_BYTES - 1. Returns `part`. */
char *measured_name_part(const char *text, char part[MEASURED_PART_BYTES]);

#endif
