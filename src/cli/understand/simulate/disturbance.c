/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/understand/simulate/disturbance.h"

#include "base/array.h"
#include "base/format/quantity.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define RANKS_MOST 65535
#define RATE_MOST  1e15

/* "5=1.3": a number, and what follows the equals sign. NULL: it is not of that form. */
static const char *read_numbered(const char *text, uint32_t *number)
{
    const char *equals = strchr(text, '=');
    char digits[16];
    int64_t value;
    if (!equals || (size_t)(equals - text) >= sizeof digits)
        return NULL;
    snprintf(digits, sizeof digits, "%.*s", (int)(equals - text), text);
    if (text_parse_integer(digits, "", 0, RANKS_MOST, &value, NULL) != WEFT_OK)
        return NULL;
    *number = (uint32_t)value;
    return equals + 1;
}

static weft_status read_slow_rank(const char *text, struct simulated_disturbance *disturbance, struct error *error)
{
    const char *times = read_numbered(text, &disturbance->slow_rank);
    if (times && text_parse_number(times, "", 1, 1e6, &disturbance->slowdown, NULL) == WEFT_OK)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "--slow-rank is '%.64s'; it must be RANK=TIMES, as in 5=1.3, with at least 1 as TIMES", text);
}

static weft_status read_slow_link(const char *text, struct simulated_disturbance *disturbance, struct error *error)
{
    static const char *const levels[] = {"node:", "leaf:", "pod:"};
    for (uint32_t level = 0; level < ARRAY_SIZE(levels); level++) {
        const size_t length = strlen(levels[level]);
        if (strncmp(text, levels[level], length) != 0)
            continue;
        const char *share = read_numbered(text + length, &disturbance->weak_unit);
        if (!share || text_parse_number(share, "", 0, 1, &disturbance->weak_share, NULL) != WEFT_OK)
            break;
        disturbance->degrade = true;
        disturbance->weak_level = level;
        return WEFT_OK;
    }
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "--slow-link is '%.64s'; it must be node:N=SHARE, leaf:N=SHARE or pod:N=SHARE, as in node:3=0.5, "
                     "with a SHARE from 0 to 1",
                     text);
}

weft_status disturbance_parse(const struct disturbance_options *options, struct simulated_disturbance *disturbance,
                              bool *disturbed, struct error *error)
{
    weft_status status = WEFT_OK;
    *disturbance = (struct simulated_disturbance){.seed = (uint64_t)options->seed, .jitter = options->jitter};
    if (options->slow_rank)
        status = read_slow_rank(options->slow_rank, disturbance, error);
    if (status == WEFT_OK && options->slow_link)
        status = read_slow_link(options->slow_link, disturbance, error);
    if (status == WEFT_OK && options->reads)
        status = quantity_parse(options->reads, "--storage-reads", QUANTITY_BYTES_PER_SECOND, 0, RATE_MOST,
                                &disturbance->reading, error);
    if (status == WEFT_OK && options->writes)
        status = quantity_parse(options->writes, "--storage-writes", QUANTITY_BYTES_PER_SECOND, 0, RATE_MOST,
                                &disturbance->writing, error);
    *disturbed = disturbance->jitter > 0 || disturbance->slowdown > 0 || disturbance->degrade ||
                 disturbance->reading > 0 || disturbance->writing > 0;
    return status;
}
