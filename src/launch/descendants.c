/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/descendants.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void descendants_kill_children(void)
{
    char path[64], list[4096] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, list, sizeof list - 1) : 0;
    if (file >= 0)
        close(file);
    list[n > 0 ? n : 0] = '\0';
    char *last = strrchr(list, ' '), *rest = NULL;
    if (last)
        *last = '\0'; /* a number cut short by the end of `list` is another's */
    for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        int process = atoi(word);
        if (process > 1)
            kill(process, SIGKILL);
    }
}

bool descendants_kill(double seconds)
{
    uint64_t end = clock_after(seconds);
    do {
        descendants_kill_children();
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return true;
        poll(NULL, 0, 2);
    } while (clock_now() < end);
    return false;
}
