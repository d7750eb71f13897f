/* SPDX-License-Identifier: Apache-2.0 */
/** Runs on a command line: RUN is a number, or a name that one run has, or that one run has that is not over. RUN/node-N
 * is a node of it, N from 0 on. */
#ifndef WEFT_CLI_PLATFORM_CLIENT_RUN_REFERENCE_H
#define WEFT_CLI_PLATFORM_CLIENT_RUN_REFERENCE_H

#include "cli/platform/client/client.h"

/** The number of a run that `word` is ("12"); 0: it may be a name. */
int64_t run_reference_number(const char *word);

/**
 * Find the run that `word` names. A name is searched among the newest 1,000 runs whose name contains it.
 * Errors: ARGUMENT: no run has that name, or several have (the message lists them).
 */
weft_status run_reference_find(struct platform *platform, const char *word, int64_t *run, struct error *error);

/** The same, and the server's reply to GET /runs/N, freed with cJSON_Delete(). */
weft_status run_reference_get(struct platform *platform, const char *word, int64_t *run, cJSON **object,
                              struct error *error);

#define RUN_NODE_NONE (-1)

/** Divide `word` into RUN (`room` bytes) and the node, RUN_NODE_NONE if none is named. Errors: ARGUMENT. */
weft_status run_reference_divide(const char *word, char *run, size_t room, int64_t *node, struct error *error);

#endif
