/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests/policy/sanitizers: a test whose child does what a sanitizer reports, or is killed. It looks at nothing the
 * child says, so but for the report it passes. With ORPHAN the child ends only when this has ended.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int counter;
static void *volatile kept;

static void *count(void *unused)
{
    counter++;
    return unused;
}

static void race(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, count, NULL) != 0)
        return;
    count(NULL);
    pthread_join(thread, NULL);
}

static void child(const char *what, pid_t parent)
{
    while (strstr(what, "orphan") && getppid() == parent)
        poll(NULL, 0, 10);
    if (strstr(what, "race"))
        race();
    if (strstr(what, "leak"))
        kept = malloc(100);
    kept = NULL;
    if (strstr(what, "overflow"))
        counter = INT_MAX;
    counter += 1;
    if (strstr(what, "killed"))
        raise(SIGKILL);
}

int main(int arguments, char **argument)
{
    const char *what = arguments > 1 ? argument[1] : "";
    const pid_t parent = getpid();
    const pid_t process = fork();
    if (process < 0)
        return 1;
    if (process == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
        child(what, parent);
        exit(0);
    }
    if (!strstr(what, "orphan"))
        waitpid(process, NULL, 0);
    return strstr(what, "skipped") ? 77 : 0;
}
