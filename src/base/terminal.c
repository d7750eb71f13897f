/* SPDX-License-Identifier: Apache-2.0 */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COLUMNS_UNKNOWN 80

uint32_t terminal_columns(int descriptor)
{
    struct winsize size;
    const char *name = getenv("TERM");
    if (!isatty(descriptor) || !name || !*name || strcmp(name, "dumb") == 0)
        return 0;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : COLUMNS_UNKNOWN;
}
