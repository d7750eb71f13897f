/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/goodput.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>

#define FADING_STEPS 0.9 /* decay of the weight of steps to compare with */

/* The first step of the run, and after its ranks have changed, is slower than the others, as memory is touched. */
static void compare_step(struct goodput *goodput, double seconds, bool beside)
{
    if (!beside) {
        goodput->recent = FADING_STEPS * goodput->recent + seconds;
        goodput->recents = FADING_STEPS * goodput->recents + 1;
    } else if (goodput->recents > 0) {
        goodput->slowed += seconds - goodput->recent / goodput->recents;
    }
}

void goodput_note_step(struct goodput *goodput, uint64_t step, double seconds, bool beside)
{
    if (!goodput->began)
        goodput->began = clock_now() - (uint64_t)(seconds * 1e9);
    else if (!goodput->rebuilt)
        compare_step(goodput, seconds, beside);
    goodput->rebuilt = false;
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
    goodput->recent = goodput->recents = 0; /* steps on other ranks take another time */
    goodput->rebuilt = true;
}

void goodput_note_checkpoint(struct goodput *goodput, double waited, double between)
{
    goodput->checkpoints++;
    goodput->waited += waited;
    goodput->between += between;
}

double goodput_checkpoint_seconds(const struct goodput *goodput)
{
    return goodput->between + fmax(goodput->slowed, goodput->waited - goodput->between);
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

const char *goodput_describe_checkpoints(const struct goodput *goodput, char text[GOODPUT_TEXT_BYTES])
{
    const double seconds = goodput_seconds(goodput), lost = goodput_checkpoint_seconds(goodput);
    snprintf(
        text, GOODPUT_TEXT_BYTES,
        "checkpoints took %.1f %% of the time: training waited %.2f s for %u, and steps beside them took %.2f s longer",
        seconds > 0 ? 100 * fmin(1, lost / seconds) : 0, goodput->waited, goodput->checkpoints,
        fmax(0, goodput->slowed));
    return text;
}
