/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/energy.h"

#include <math.h>

void energy_add_power(struct energy *energy, double watts, uint64_t now, double longest)
{
    if (!isfinite(watts) || watts < 0 || (energy->known && now <= energy->at))
        return;
    if (energy->known) {
        const double seconds = (double)(now - energy->at) * 1e-9;
        energy_add(energy, seconds <= longest ? (energy->watts + watts) / 2 * seconds : NAN, seconds);
    }
    energy->watts = watts;
    energy->at = now;
    energy->known = true;
}

void energy_add(struct energy *energy, double joules, double seconds)
{
    if (!(seconds > 0))
        return;
    if (isfinite(joules) && joules >= 0) {
        energy->joules += joules;
        energy->seconds += seconds;
    } else {
        energy->missed += seconds;
    }
}

static double positive(double number)
{
    return isfinite(number) && number > 0 ? number : 0;
}

double energy_divide(double joules, double all, const double *used, double *parts, size_t count)
{
    const bool known = isfinite(joules) && joules >= 0;
    double sum = 0, rest = joules;
    for (size_t i = 0; i < count; i++)
        sum += positive(used[i]);
    const double whole = fmax(positive(all), sum);
    for (size_t i = 0; i < count; i++) {
        const double part = whole > 0 ? joules * (positive(used[i]) / whole) : 0;
        parts[i] = known ? part : NAN;
        rest -= part;
    }
    return known ? fmax(rest, 0) : NAN;
}
