/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What ended runs leave on disk is thrown away when somebody says so, or when the policy does (`keep` of policy.h):
 *
 *     decided ──► the registry says so, durably ──► journals, then the directory of the run are removed
 *
 * The second arrow is done by a thread of its own, which compares the directories that there are with what was decided: at
 * the start, once an hour, ten seconds after a failure, and on request. So a removal that a kill or a full disk
 * has cut short is completed. The same thread has idempotency keys forgotten that are a week old.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_RETENTION_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_RETENTION_H

#include "platform/service/internal/writer.h"

struct retention;

/** Start the thread. `directory` is the state's; `keep` in seconds, 0: only what people discard. Errors: MEMORY, SYSTEM.
 */
weft_status retention_start(struct writer *writer, const char *directory, int64_t keep, struct retention **retention,
                            struct error *error);

/** End the thread; what is under way is completed at the next start. After writer_stop(). NULL is allowed. */
void retention_stop(struct retention *retention);

/** After http_stop(), for until then requests come that have something thrown away. NULL is allowed. */
void retention_close(struct retention *retention);

/** Something was decided: look now, or at the next start. From any thread. */
void retention_look(struct retention *retention);

/**
 * Settle what runs have left that the registry does not know, because the registry was lost, is an older copy, or belongs
 * to another platform. Their numbers are not given out again, and those that still run are ended; both is reported on
 * standard error. For the state in `directory`: engine/, `metrics`, and the directories of runs in `runs`, before the first run is submitted. Errors:
 * SYSTEM if a directory cannot be read; those of the databases and the engine.
 */
weft_status leftovers_settle(const char *directory, const char *runs, struct database *registry,
                             struct metric_store *metrics, struct engine *engine, struct error *error);

#endif
