/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The text in which Prometheus reads metrics (its "text-based format", version 0.0.4): a family at a time, each with
 * its help and type, then its samples.
 *
 *     prometheus_family(&text, "weft_runs", "gauge", "Runs by state.");
 *     prometheus_sample(&text, 3, "state", "queued", NULL);
 *
 * Names of families are the caller's to get right: [a-z_]+, counters end in _total, units are base units. Values of
 * labels may be anything. A struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_HTTP_PROMETHEUS_H
#define WEFT_PLATFORM_HTTP_PROMETHEUS_H

#include "core/control/wire/frame.h"

#define PROMETHEUS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/** A zeroed struct is an empty text; `bytes.failed` tells if memory ran out. */
struct prometheus {
    struct buffer bytes;
    const char *family;
};

/** Begin a family; strings outlive its samples. */
void prometheus_family(struct prometheus *text, const char *name, const char *type, const char *help);

/** A sample with its labels: name, value, name, value ... NULL. */
void prometheus_sample(struct prometheus *text, double value, ...) __attribute__((sentinel));

void prometheus_free(struct prometheus *text);

#endif
