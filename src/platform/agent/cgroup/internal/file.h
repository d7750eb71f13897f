/* SPDX-License-Identifier: Apache-2.0 */
/** Files of a control group. In the directory "", which stands for no group, there are none. Thread-safe. */
#ifndef WEFT_PLATFORM_AGENT_CGROUP_INTERNAL_FILE_H
#define WEFT_PLATFORM_AGENT_CGROUP_INTERNAL_FILE_H

#include <stdbool.h>

/** Whether the file exists and this process may write to it. */
bool cgroup_file_is_writable(const char *directory, const char *name);

/** Write `value` to the file. On failure errno says why. */
bool cgroup_file_write(const char *directory, const char *name, const char *value);

/** Read the file as a string; the caller frees it. NULL: it cannot be read. */
char *cgroup_file_read(const char *directory, const char *name);

#endif
