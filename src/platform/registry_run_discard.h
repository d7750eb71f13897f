/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What ended runs leave on disk (their folders, checkpoints and output) can be thrown away; what is known of them in
 * the registry stays for ever. Here is written down which runs that was decided for; the files follow (retention.h of
 * the service). The rules of registry.h hold.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_DISCARD_H
#define WEFT_PLATFORM_REGISTRY_RUN_DISCARD_H

#include "platform/registry_runs.h"

/**
 * Write down that what a run has left is to go, with a remark among its events; once. Errors: STATE for one that has
 * not ended, and for one with a checkpoint that another run is to begin from; ARGUMENT if there is no such run.
 */
weft_status registry_run_discard(struct database *database, int64_t run, const char *actor, const char *detail,
                                 int64_t now, struct error *error);

/** The first `most` runs that ended before `before` and may be discarded, and were not; *runs is to be freed. */
weft_status registry_runs_to_discard(struct database *database, int64_t before, size_t most, int64_t **runs,
                                     size_t *count, struct error *error);

#endif
