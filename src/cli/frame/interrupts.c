/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/interrupts.h"

static volatile sig_atomic_t asked;

static void ask_to_stop(int number)
{
    asked = number;
    signal(number, SIG_DFL);
}

const volatile sig_atomic_t *interrupts_catch(void)
{
    signal(SIGINT, ask_to_stop);
    signal(SIGTERM, ask_to_stop);
    signal(SIGHUP, ask_to_stop);
    return &asked;
}
