/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/goodput.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>

void goodput_note_step(struct goodput *goodput, uint64_t step, double seconds)
{
    if (!goodput->began)
        goodput->began = clock_now() - (uint64_t)(seconds * 1e9);
    if (step > goodput->newest) {
        goodput->newest = step;
        goodput->useful += seconds;
    } else {
        goodput->repeated += seconds;
    }
}

void goodput_note_recovery(struct goodput *goodput, double seconds)
{
    goodput->recoveries++;
    goodput->recovering += seconds;
}

double goodput_seconds(const struct goodput *goodput)
{
    return goodput->began ? (double)(clock_now() - goodput->began) * 1e-9 : 0;
}

double goodput_share(const struct goodput *goodput)
{
    const double seconds = goodput_seconds(goodput);
    return seconds > 0 ? fmin(1, goodput->useful / seconds) : 0;
}

const char *goodput_describe(const struct goodput *goodput, char text[GOODPUT_TEXT_BYTES])
{
    const double seconds = goodput_seconds(goodput);
    const double rest = fmax(0, seconds - goodput->useful - goodput->repeated - goodput->recovering);
    snprintf(
        text, GOODPUT_TEXT_BYTES,
        "goodput %.1f %%: steps took %.1f of %.1f s; lost: %u recover%s %.1f s, repeated steps %.1f s, the rest %.1f s",
        100 * goodput_share(goodput), goodput->useful, seconds, goodput->recoveries,
        goodput->recoveries == 1 ? "y" : "ies", goodput->recovering, goodput->repeated, rest);
    return text;
}
