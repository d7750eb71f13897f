/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Every point of a metric as a stream: the writer writes a piece, the client reads it, and so on. Neither holds more
 * than a piece, and others get their turn in between. For platform/service/routes/metric.c.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_METRIC_EXPORT_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_METRIC_EXPORT_H

#include "platform/http/route/route.h"

/** The handler: the call has the parameters run, name, rank, attempt and format. */
void metric_export(struct route_call *call);

#endif
