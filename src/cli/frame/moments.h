/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Moments and spans of time as people read them in tables. Moments are milliseconds since 1970, as the platform's
 * interface has them. Thread-safe; each returns its buffer.
 */
#ifndef WEFT_CLI_FRAME_MOMENTS_H
#define WEFT_CLI_FRAME_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

#define MOMENT_BYTES 40

/** Now, by the system's clock. */
int64_t moment_now(void);

/** "just now", "12 s ago", "3 min ago", "5 h ago", "3 days ago", and the day from 30 days on; "in 3 min" for what is to
 * come, rounded: one reads it as a promise. */
char *moment_ago(int64_t moment, int64_t now, char buffer[MOMENT_BYTES]);

/** Two units at most, cut off below: "0.9s" (below ten seconds), "12s", "3m 12s", "2h 5m", "1d 12h"; below 0 it is
 * "0s". */
char *moment_span(int64_t milliseconds, char buffer[MOMENT_BYTES]);

/** "2026-11-23 14:05:12" in the user's time zone. */
char *moment_clock(int64_t moment, char buffer[MOMENT_BYTES]);

#endif
