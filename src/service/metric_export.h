/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every point of a metric as a stream: the keeper writes a piece, the client reads it, and so on. Neither holds more
 * than a piece, and others get their turn in between. For metric_routes.c.
 */
#ifndef WEFT_SERVICE_METRIC_EXPORT_H
#define WEFT_SERVICE_METRIC_EXPORT_H

#include "server/route.h"

/** The handler: the call has the parameters run, name, rank, attempt and format. */
void metric_export(struct route_call *call);

#endif
