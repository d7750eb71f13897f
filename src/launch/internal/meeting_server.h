/* SPDX-License-Identifier: Apache-2.0 */
/** The launcher's side of the ranks' meeting: a thread that serves it as long as the job runs. */
#ifndef WEFT_LAUNCH_INTERNAL_MEETING_SERVER_H
#define WEFT_LAUNCH_INTERNAL_MEETING_SERVER_H

#include "base/error.h"
#include "launch/launch.h"

struct meeting_server;

/**
 * Listen, start the thread, and append to `environment` what the ranks need: WEFT_MEETING, WEFT_MEETING_SERVED,
 * WEFT_MEETING_LIMIT and WEFT_SECRET (the user's own if it is set here, else drawn for this job).
 */
weft_status meeting_server_start(const struct launch_config *config, bool remote, struct texts *environment,
                                 struct meeting_server **server, struct error *error);
void meeting_server_stop(struct meeting_server *server);

#endif
