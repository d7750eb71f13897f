/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What runs have left that the registry does not know of: it was lost, or is an older copy, or another platform's.
 * Their numbers are not given out again, so that no run is taken for one of them; those that still run are told to end.
 * Both is told on standard error.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_LEFTOVERS_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_LEFTOVERS_H

#include "platform/engine/engine.h"
#include "platform/metrics/store/store.h"

/** Of the state in `directory`: engine/, runs/ and `metrics`. Before the first run is submitted. Errors: SYSTEM where a
 * directory cannot be read; those of the databases and the engine. */
weft_status leftovers_settle(const char *directory, struct database *registry, struct metric_store *metrics,
                             struct engine *engine, struct error *error);

#endif
