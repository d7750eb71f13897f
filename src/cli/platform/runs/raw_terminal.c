/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/runs/raw_terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct {
    volatile sig_atomic_t raw;
    bool registered;
    struct termios before;
} terminal;

void raw_terminal_leave(void)
{
    int error = errno;
    if (terminal.raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.before);
    terminal.raw = 0;
    errno = error;
}

static void leave_and_end(int number)
{
    raw_terminal_leave();
    signal(number, SIG_DFL);
    raise(number);
}

void raw_terminal_enter(void)
{
    static const int ends[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGABRT, SIGSEGV,
                               SIGBUS, SIGFPE, SIGILL,  SIGPIPE, SIGALRM};
    struct termios raw;
    if (terminal.raw || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &terminal.before) != 0)
        return;
    if (!terminal.registered)
        atexit(raw_terminal_leave);
    terminal.registered = true;
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction action = {.sa_handler = leave_and_end}, now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(ends[i], &action, NULL);
    }
    raw = terminal.before;
    cfmakeraw(&raw);
    terminal.raw = 1;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void raw_terminal_size(unsigned *rows, unsigned *columns)
{
    struct winsize size = {0};
    bool known = (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) ||
                 (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col);
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}
