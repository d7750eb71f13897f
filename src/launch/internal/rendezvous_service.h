/* SPDX-License-Identifier: Apache-2.0 */
/** The launcher's side of the ranks' rendezvous: a thread that serves it as long as the job runs. */
#ifndef WEFT_LAUNCH_INTERNAL_RENDEZVOUS_SERVICE_H
#define WEFT_LAUNCH_INTERNAL_RENDEZVOUS_SERVICE_H

#include "base/error.h"
#include "launch/launch.h"

#include <stdbool.h>
#include <stdint.h>

struct rendezvous_service;

/**
 * Listen, start the thread, and append to `environment` the variables that the ranks need: WEFT_RENDEZVOUS,
 * WEFT_RENDEZVOUS_SERVED, WEFT_RENDEZVOUS_LIMIT and WEFT_SECRET (the user's own if it is set here, else drawn for this
 * job). With config->record these are there already, and so are members.
 */
weft_status rendezvous_service_start(const struct launch_config *config, bool remote, struct string_list *environment,
                                     struct rendezvous_service **server, struct error *error);

/**
 * Whether all ranks have met at least once. Where ranks may join, whether rank 0's weft_init() has completed, too, and left
 * the addresses of all ranks here: before, a failure makes weft_init() fail at every rank, and newcomers find nobody to join.
 */
bool rendezvous_service_met(const struct rendezvous_service *server);

/** A descriptor that is readable when rendezvous_service_members() has news. */
int rendezvous_service_descriptor(const struct rendezvous_service *server);

/**
 * If the ranks of the job have changed since the last call: their numbers, in ascending order; the array is malloc'ed, the
 * caller's. False: nothing is new.
 */
bool rendezvous_service_members(struct rendezvous_service *server, uint32_t **ranks, uint32_t *count);

/** A rank that was overtaken (rendezvous_say_overtaken()) since the last call; false: there is none. It ends after that. */
bool rendezvous_service_overtaken(struct rendezvous_service *server, uint32_t *rank);

/**
 * Ask the job's lowest rank, `lowest`, to release rank `rank`, waiting up to a second for its answer. Errors: STATE if no rank
 * has left its address here yet; those of regroup_ask_to_leave().
 */
weft_status rendezvous_service_release(struct rendezvous_service *server, uint32_t lowest, uint32_t rank,
                                       struct error *error);

/** Append the members, as they were left here, for config->record of another launcher. */
void rendezvous_service_record(struct rendezvous_service *server, struct buffer *members);

void rendezvous_service_stop(struct rendezvous_service *server);

#endif
