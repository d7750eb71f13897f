/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The configuration that a context runs with: what the caller of weft_init() said, completed from the environment.
 *
 * A program's own choice wins over the user's variable, which wins over the default. The table of variables tells of
 * all that Weft reads but what launchers hand over in variables of their own (control/README.md).
 */
#ifndef WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONFIGURATION_H
#define WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONFIGURATION_H

#include "base/error.h"

#include <stdbool.h>

/** One variable. */
struct configuration_variable {
    const char *name;
    const char *range;    /**< what it may be, for people */
    const char *standard; /**< what holds without it */
    const char *meaning;
};

/** All variables, sorted by name; *count of them. */
const struct configuration_variable *configuration_variables(size_t *count);

/**
 * Complete `given` (NULL: nothing said) into `*complete`, whose texts point into `given` and the environment. Errors:
 * ARGUMENT, with a message that names the field or variable and its value.
 */
weft_status configuration_complete(const weft_config *given, weft_config *complete, struct error *error);

/** The run that `weft run` has recorded for this job, as it tells its ranks (WEFT_RUN); NULL for none. */
const char *configuration_run(void);

/** Whether rank 0 is to tell of its start (WEFT_VERBOSE). */
bool configuration_verbose(void);

/** What is to be traced: the file that WEFT_TRACE names, NULL for none, and how many events a rank keeps. */
weft_status configuration_trace(const char **path, uint64_t *events, struct error *error);

#endif
