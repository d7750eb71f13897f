/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that some ranks have submitted, and others have not for a long time: rank 0 names them and the ranks. */
#include "core/collective/negotiation/internal/negotiator.h"

#include <stdio.h>

#define PRINTED_NAMES 6
#define PRINTED_RANKS 16

static uint64_t nanoseconds(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

bool stall_suspected(const weft_negotiator *negotiator)
{
    const weft_operation *operation = negotiator->first; /* the oldest one */
    while (operation && operation->announced)
        operation = operation->next;
    const double limit = negotiator->config.stall_seconds, end = negotiator->config.stall_end_seconds,
                 first = limit > 0 && (end <= 0 || limit < end) ? limit : end;
    return operation && first > 0 && clock_now() - operation->submitted > nanoseconds(first);
}

static void put_missing(const weft_negotiator *negotiator, const struct named_entry *entry, struct buffer *text)
{
    int missing = 0;
    buffer_print(text, "\n    '%s' waits for rank", entry->name);
    for (int r = 0; r < negotiator->ranks; r++)
        if (!entry->announced[r] && !negotiator->joined[r] && ++missing <= PRINTED_RANKS)
            buffer_print(text, " %d (%s)", r, weft_comm_host(negotiator->comm, r));
    if (missing > PRINTED_RANKS)
        buffer_print(text, " and %d more", missing - PRINTED_RANKS);
}

bool stall_check(weft_negotiator *negotiator)
{
    const double limit = negotiator->config.stall_seconds, end = negotiator->config.stall_end_seconds;
    const struct names *names = &negotiator->names;
    if (negotiator->rank != 0 || (limit <= 0 && end <= 0) || names->announced_count == 0)
        return true;
    const uint64_t now = clock_now();
    struct buffer text = {0};
    int stalled = 0;
    bool goes_on = true;
    for (size_t i = 0; i < names->announced_count; i++) {
        struct named_entry *entry = names->announced[i];
        const bool over = end > 0 && now - entry->since >= nanoseconds(end);
        const bool warns = limit > 0 && now - entry->since >= nanoseconds(limit) &&
                           (!entry->warned || now - entry->warned >= nanoseconds(limit));
        if (!over && !warns)
            continue;
        goes_on = goes_on && !over;
        entry->warned = now;
        if (++stalled <= PRINTED_NAMES)
            put_missing(negotiator, entry, &text);
    }
    if (stalled > PRINTED_NAMES)
        buffer_print(&text, "\n    and %d more", stalled - PRINTED_NAMES);
    const char *list = buffer_string(&text);
    if (stalled > 0 && list)
        fprintf(stderr,
                "weft: %d operation%s waited for more than %g s, because some ranks have not submitted %s:%s%s\n",
                stalled, stalled == 1 ? " has" : "s have", goes_on ? limit : end, stalled == 1 ? "it" : "them", list,
                goes_on ? "" : "\n    the negotiator ends");
    if (!goes_on)
        error_set(&negotiator->stalled, WEFT_ERROR_STATE,
                  "operations have waited for more than %g s, because some ranks have not submitted them:%s", end,
                  list ? list : "");
    buffer_free(&text);
    return goes_on;
}
