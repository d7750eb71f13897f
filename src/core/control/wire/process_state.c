/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control/wire/process_state.h"

#include "base/file/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

char process_state(int process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    file_read_small(AT_FDCWD, path, text, sizeof text);
    /* "number (name) state ...": the name may hold anything. */
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' ? state[2] : 0;
}

bool process_is_well(int process)
{
    char state = process_state(process);
    return state && !strchr("TtZXx", state);
}
