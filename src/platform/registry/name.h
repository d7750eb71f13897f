/* SPDX-License-Identifier: Apache-2.0 */
/** Names of projects, users, classes, hosts and Pods: one rule for all. Thread-safe. */
#ifndef WEFT_PLATFORM_REGISTRY_NAME_H
#define WEFT_PLATFORM_REGISTRY_NAME_H

#include "base/error.h"

#include <stdbool.h>

#define PLATFORM_NAME_BYTES 64 /**< with the final NUL */

/** Whether `name` has 1 to 63 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit. */
bool platform_name_is_valid(const char *name);

/** The same with a message, in which `what` says what it names. Errors: DATA. */
weft_status platform_name_check(const char *name, const char *what, struct error *error);

#endif
