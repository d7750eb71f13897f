/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The configuration that a context runs with: the arguments of weft_init(), completed from the environment.
 *
 * The program's choice wins over the user's variable, which wins over the default. The table lists all variables that
 * Weft reads, except those set by launchers (control/README.md).
 */
#ifndef WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONFIGURATION_H
#define WEFT_CORE_COLLECTIVE_COMMUNICATOR_CONFIGURATION_H

#include "base/error.h"

#include <stdbool.h>

/** One variable. */
struct configuration_variable {
    const char *name;
    const char *range;    /**< accepted values, for people */
    const char *standard; /**< the default, for people */
    const char *meaning;
};

/** All variables, sorted by name; *count of them. */
const struct configuration_variable *configuration_variables(size_t *count);

/**
 * Complete `given` (NULL: all defaults) into `*complete`, whose strings point into `given` and the environment. Errors:
 * ARGUMENT, with a message that names the field or variable and its value.
 */
weft_status configuration_complete(const weft_config *given, weft_config *complete, struct error *error);

/** The run that `weft run` recorded for this job (WEFT_RUN); NULL for none. */
const char *configuration_run(void);

/** Whether rank 0 reports its startup (WEFT_VERBOSE). */
bool configuration_verbose(void);

/** Whether the messages of the network carry checksums: WEFT_CHECK_MESSAGES is set, and not 0. */
bool configuration_checks_messages(void);

/** The trace file named by WEFT_TRACE, NULL for none, and how many events a rank keeps. */
weft_status configuration_trace(const char **path, uint64_t *events, struct error *error);

#endif
