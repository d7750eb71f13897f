/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The power of this machine's processors, from the energy counters (RAPL) that Linux shows below /sys/class/powercap:
 * Intel's since Sandy Bridge, AMD's since Zen. Described in the kernel's Documentation/power/powercap/powercap.rst.
 *
 *     machine/power/package-0         watts of a processor package, everything on it
 *     machine/power/dram-0            watts of the memory beside package 0, where that is counted: not part of the
 * former
 *
 * Parts of a package (its cores) and the whole platform (psys) are left out: they would count twice. Since Linux 5.10
 * only root may read the counters; a machine with unreadable counters has no power values, and cpu_power_trouble()
 * returns the reason. Not thread-safe; no global state.
 */
#ifndef WEFT_OBSERVE_TELEMETRY_CPU_POWER_H
#define WEFT_OBSERVE_TELEMETRY_CPU_POWER_H

#include "observe/telemetry/internal/measured_values.h"

#include <stdint.h>

struct cpu_power;

/** Find the counters below the directory `root` ("/" for this machine). None is no error. Errors: SYSTEM if there is no
 * such directory; MEMORY. */
weft_status cpu_power_open(const char *root, struct cpu_power **power, struct error *error);
void cpu_power_close(struct cpu_power *power);

/** How many counters there are; 0: this machine has none. */
uint32_t cpu_power_count(const struct cpu_power *power);

/** Why counters that there are cannot be read, as a message; "". */
const char *cpu_power_trouble(const struct cpu_power *power);

/** The energy of all packages and their memory between two samples. */
struct cpu_energy {
    double joules;  /**< NaN: not known, because a counter was not read, or may have wrapped more than once */
    double seconds; /**< from the sample before; 0: there was none */
};

/** Read all counters at the moment `now` (clock_now()), and add the values above. Errors: MEMORY. */
weft_status cpu_power_sample(struct cpu_power *power, uint64_t now, struct measured_values *values,
                             struct cpu_energy *energy, struct error *error);

#endif
