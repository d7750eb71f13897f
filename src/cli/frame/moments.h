/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Times and durations formatted for tables. Times are milliseconds since 1970, as in the platform's HTTP interface.
 * Thread-safe; each function returns its buffer.
 */
#ifndef WEFT_CLI_FRAME_MOMENTS_H
#define WEFT_CLI_FRAME_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

#define MOMENT_BYTES 40

/** The system clock. */
int64_t moment_now(void);

/** "just now", "12 s ago", "3 min ago", "5 h ago", "3 days ago", and the date from 30 days on. Future times are rounded:
 * "in 3 min". */
char *moment_ago(int64_t moment, int64_t now, char buffer[MOMENT_BYTES]);

/** At most two units, rounded down: "0.9s" (below ten seconds), "12s", "3m 12s", "2h 5m", "1d 12h"; negative durations
 * are "0s". */
char *moment_span(int64_t milliseconds, char buffer[MOMENT_BYTES]);

/** "2026-11-23 14:05:12" in the user's time zone. */
char *moment_clock(int64_t moment, char buffer[MOMENT_BYTES]);

#endif
