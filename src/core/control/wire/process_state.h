/* SPDX-License-Identifier: Apache-2.0 */
/** The states of processes of this host, as the kernel shows them in /proc. Thread-safe. */
#ifndef WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H
#define WEFT_CORE_CONTROL_WIRE_PROCESS_STATE_H

#include "base/file/file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/**
 * The state of a process's main thread as ps shows it: R running, S sleeping, D waiting for a device, T stopped, Z dead
 * ...; 0: no such process.
 */
static inline char process_state(int process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    file_read_small(AT_FDCWD, path, text, sizeof text);
    /* "number (name) state ...": the name may contain anything. */
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' ? state[2] : 0;
}

/** Whether the process exists and is neither stopped nor dead: it would run if it got a processor. */
static inline bool process_is_well(int process)
{
    char state = process_state(process);
    return state && !strchr("TtZXx", state);
}

#endif
