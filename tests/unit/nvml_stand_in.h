/* SPDX-License-Identifier: Apache-2.0 */
/**
 * For tests: a library with the functions of NVML that are used (observe/telemetry/internal/nvml.h), which answer as a script says. A test
 * loads it, finds `nvml_script` in it, writes the answers there, and gives its path to the code under test.
 */
#ifndef WEFT_TESTS_NVML_STAND_IN_H
#define WEFT_TESTS_NVML_STAND_IN_H

#include "observe/telemetry/internal/nvml.h"

#define STAND_IN_GPUS   4
#define STAND_IN_EVENTS 8

/** A GPU's answers; each result is that of the function which is asked for it. */
struct nvml_scripted_gpu {
    int handle, name, uuid, utilization, memory, power, temperature, energy; /* results */
    char name_text[NVML_NAME_BYTES], uuid_text[NVML_UUID_BYTES];
    struct nvml_utilization shares;
    struct nvml_memory bytes;
    unsigned milliwatts, celsius;
    unsigned long long millijoules, growth; /* by which that grows with each question */
    unsigned questions;                     /* asked of it, all functions together */
    int ecc, remapping, clocks, events;     /* results */
    unsigned long long uncorrected;         /* memory errors */
    unsigned rows_failed;                   /* 1: a row could not be remapped */
    unsigned long long reasons;             /* why its clocks are lower */
    bool registered;                        /* for critical XIDs */
};

/** A critical XID of a GPU that is still to be fetched. */
struct nvml_scripted_event {
    unsigned gpu;
    unsigned long long type, xid;
    bool other_handle; /* the event has another handle of that GPU */
};

struct nvml_script {
    int init, count_result;
    unsigned count;
    int users; /* nvmlInit_v2() less nvmlShutdown() */
    struct nvml_scripted_gpu gpus[STAND_IN_GPUS];
    struct nvml_scripted_gpu copies[STAND_IN_GPUS]; /* for events with another handle */
    struct nvml_scripted_event queue[STAND_IN_EVENTS];
    unsigned queued;
    int sets; /* nvmlEventSetCreate() less nvmlEventSetFree() */
};

#endif
