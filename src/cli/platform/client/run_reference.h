/* SPDX-License-Identifier: Apache-2.0 */
/** A RUN on a command line: its number, or its name where only one run has it, or only one that is not over. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_RUN_REFERENCE_H
#define WEFT_CLI_PLATFORM_CLIENT_RUN_REFERENCE_H

#include "cli/platform/client/client.h"

/** The number that `word` is ("12"); 0: it is no number of a run, and may be a name. */
int64_t run_reference_number(const char *word);

/**
 * The run that `word` names. A name is looked for among the newest 1000 runs that have it somewhere in their name.
 * Errors: ARGUMENT: no run has that name, or several have, and which.
 */
weft_status run_reference_find(struct platform *platform, const char *word, int64_t *run, struct error *error);

/** The same, and what the server tells of it (GET /runs/N), to be freed with cJSON_Delete(). */
weft_status run_reference_get(struct platform *platform, const char *word, int64_t *run, cJSON **object,
                              struct error *error);

#endif
