/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/moments.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define SECOND ((int64_t)1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

int64_t moment_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec / 1000000;
}

static void day_of(int64_t moment, const char *format, char *buffer)
{
    time_t seconds = (time_t)(moment / SECOND);
    struct tm local;
    if (!localtime_r(&seconds, &local) || strftime(buffer, MOMENT_BYTES, format, &local) == 0)
        snprintf(buffer, MOMENT_BYTES, "?");
}

char *moment_ago(int64_t moment, int64_t now, char buffer[MOMENT_BYTES])
{
    static const struct {
        int64_t below, length;
        const char *name;
    } units[] = {{MINUTE, SECOND, "s"}, {HOUR, MINUTE, "min"}, {2 * DAY, HOUR, "h"}, {30 * DAY, DAY, "days"}};
    const size_t last = sizeof units / sizeof *units - 1;
    bool ahead = moment > now;
    int64_t distance = ahead ? moment - now : now - moment, count = 0;
    size_t i = 0;
    if (distance >= 30 * DAY) {
        day_of(moment, "%Y-%m-%d", buffer);
        return buffer;
    }
    if (distance < SECOND) {
        snprintf(buffer, MOMENT_BYTES, ahead ? "at once" : "just now");
        return buffer;
    }
    /* Past times are rounded down and future ones to the nearest unit, which stays right longer. */
    for (;; i++) {
        count = (distance + (ahead ? units[i].length / 2 : 0)) / units[i].length;
        if (count * units[i].length < units[i].below || i == last)
            break;
    }
    snprintf(buffer, MOMENT_BYTES, ahead ? "in %" PRId64 " %s" : "%" PRId64 " %s ago", count, units[i].name);
    return buffer;
}

char *moment_span(int64_t milliseconds, char buffer[MOMENT_BYTES])
{
    static const struct {
        int64_t length;
        char name;
    } units[] = {{DAY, 'd'}, {HOUR, 'h'}, {MINUTE, 'm'}, {SECOND, 's'}};
    const size_t last = sizeof units / sizeof *units - 1;
    size_t first = 0;
    milliseconds = milliseconds < 0 ? 0 : milliseconds;
    if (milliseconds < 10 * SECOND && milliseconds / 100 % 10 != 0) {
        snprintf(buffer, MOMENT_BYTES, "%" PRId64 ".%" PRId64 "s", milliseconds / SECOND, milliseconds / 100 % 10);
        return buffer;
    }
    while (first < last && milliseconds < units[first].length)
        first++;
    int length = snprintf(buffer, MOMENT_BYTES, "%" PRId64 "%c", milliseconds / units[first].length, units[first].name);
    int64_t rest = first < last ? milliseconds % units[first].length / units[first + 1].length : 0;
    if (rest > 0)
        snprintf(buffer + length, MOMENT_BYTES - (size_t)length, " %" PRId64 "%c", rest, units[first + 1].name);
    return buffer;
}

char *moment_clock(int64_t moment, char buffer[MOMENT_BYTES])
{
    day_of(moment, "%Y-%m-%d %H:%M:%S", buffer);
    return buffer;
}
