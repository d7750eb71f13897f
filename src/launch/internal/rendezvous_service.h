/* SPDX-License-Identifier: Apache-2.0 */
/** The launcher's side of the ranks' rendezvous: a thread that serves it as long as the job runs. */
#ifndef WEFT_LAUNCH_INTERNAL_RENDEZVOUS_SERVICE_H
#define WEFT_LAUNCH_INTERNAL_RENDEZVOUS_SERVICE_H

#include "base/error.h"
#include "launch/launch.h"

#include <stdbool.h>

struct rendezvous_service;

/**
 * Listen, start the thread, and append to `environment` the variables that the ranks need: WEFT_RENDEZVOUS,
 * WEFT_RENDEZVOUS_SERVED, WEFT_RENDEZVOUS_LIMIT and WEFT_SECRET (the user's own if it is set here, else drawn for this
 * job).
 */
weft_status rendezvous_service_start(const struct launch_config *config, bool remote, struct string_list *environment,
                                     struct rendezvous_service **server, struct error *error);

/**
 * Whether all ranks have met at least once. With config->restarts, whether rank 0's weft_init() has completed, too, and left
 * the addresses of all ranks here: before, a failure makes weft_init() fail at every rank, and newcomers find nobody to join.
 */
bool rendezvous_service_met(const struct rendezvous_service *server);

void rendezvous_service_stop(struct rendezvous_service *server);

#endif
