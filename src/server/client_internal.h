/* SPDX-License-Identifier: Apache-2.0 */
/** What client.c has for client_events.c. */
#ifndef WEFT_SERVER_CLIENT_INTERNAL_H
#define WEFT_SERVER_CLIENT_INTERNAL_H

#include "server/client.h"

/** client_lines() with more headers ("Name: value\r\n"...). *stopped: `line` wanted no more. */
weft_status client_lines_with(struct client *client, const struct client_request *request, const char *more,
                              double quiet_seconds, bool (*line)(void *context, const char *line, size_t size),
                              void *context, bool *stopped, struct error *error);

#endif
