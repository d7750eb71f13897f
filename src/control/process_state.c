/* SPDX-License-Identifier: Apache-2.0 */
#include "control/process_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char process_state(int process)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = '\0';
    /* "number (name) state ...": the name may hold anything. */
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' ? state[2] : 0;
}

bool process_is_well(int process)
{
    char state = process_state(process);
    return state && !strchr("TtZXx", state);
}
