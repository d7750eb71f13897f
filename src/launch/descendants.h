/* SPDX-License-Identifier: Apache-2.0 */
/** The processes that came of this one. For a process with one thread that is their subreaper (PR_SET_CHILD_SUBREAPER).
 */
#ifndef WEFT_LAUNCH_DESCENDANTS_H
#define WEFT_LAUNCH_DESCENDANTS_H

#include <stdbool.h>

/**
 * Kill every child, and what the kernel hands to this process as its parents die, until none is left; reaps them all.
 * False if some are left after `seconds`.
 */
bool descendants_kill(double seconds);

#endif
