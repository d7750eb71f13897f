/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The energy of runs, in joules: counted, or the integral of power over time; and the part of a machine's energy that
 * is a run's.
 *
 * GPUs are held by one run at a time: a run's energy is its GPUs'. From a counter of energy that is a difference; from
 * readings P of power at moments t it is the trapezoidal rule:
 *
 *     E = sum over readings i of  (P(i-1) + P(i)) / 2 x (t(i) - t(i-1))
 *
 * Processors are shared: of the energy E that all packages took in an interval (observe/telemetry/cpu_power.h), run r, whose
 * processes used c(r) seconds of processor time in it while all processes of the machine used C, is counted
 *
 *     E(r) = E x c(r) / C
 *
 * so that energy of an idle processor goes to those who kept the machine up for their work, in proportion, and the
 * parts of all processes make the whole. It is how Scaphandre counts processes (its documentation, "How scaphandre
 * computes per process power consumption"); it takes every second of processor time to cost the same, which wide
 * vectors and idle hyper-threads do not. What no run has used is the machine's rest.
 *
 * An interval without readings is not guessed at: it is counted as missed. Pure; thread-safe.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_ENERGY_H
#define WEFT_OBSERVE_TELEMETRY_ENERGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A meter. A zeroed struct is one that shows nothing yet. */
struct energy {
    double joules;
    double seconds; /**< that are in it */
    double missed;  /**< seconds without known readings */
    double watts;   /**< the last reading of power */
    uint64_t at;    /**< its time, in nanoseconds */
    bool known;     /**< there is one */
};

/**
 * A reading of power at time `now`. NaN and negative readings are ignored. An interval between two readings of more
 * than `longest` seconds counts as missed.
 */
void energy_add_power(struct energy *energy, double watts, uint64_t now, double longest);

/** Energy that was counted over `seconds`; NaN: not known. */
void energy_add(struct energy *energy, double joules, double seconds);

/**
 * Divide the `joules` of an interval among `count` runs whose processes used `used[r]` seconds of processor time in it,
 * where all processes of the machine used `all` (where the runs' sum is larger, as rounded figures may say, that).
 * Writes `parts[r]`, none below zero, and returns the rest: together they are `joules`. NaN, or below zero, as
 * somebody's seconds counts as 0; as joules, it makes NaN of every part.
 */
double energy_divide(double joules, double all, const double *used, double *parts, size_t count);

#endif
