/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: a machine that is a directory of files, as /proc and /sys show one. */
#ifndef WEFT_TESTS_MACHINE_TREE_H
#define WEFT_TESTS_MACHINE_TREE_H

#include "base/file/file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "temporary.h"

/** Write a text at root/path, with the directories on the way. */
__attribute__((format(printf, 3, 4))) static inline void tree_put(const char *root, const char *path,
                                                                  const char *format, ...)
{
    char text[8192];
    struct error error = {0};
    const char *full = temporary_path(root, path);
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text || file_make_directory_of(full, &error) != WEFT_OK ||
        !temporary_file(root, path, text, (size_t)length)) {
        fprintf(stderr, "%s: %s\n", path, error.text);
        exit(1);
    }
}

/** Take away the file or directory at root/path. */
static inline void tree_remove(const char *root, const char *path)
{
    if (file_remove_tree(temporary_path(root, path), NULL) != WEFT_OK)
        exit(1);
}

/** A process as /proc/NUMBER/stat shows it. */
struct tree_process {
    int number, parent, group;
    uint64_t start;         /**< ticks */
    uint64_t own, children; /**< ticks of processor time, half of them in the kernel */
    uint64_t resident;      /**< pages */
};

static inline void tree_put_process(const char *root, const struct tree_process *process)
{
    char path[64];
    snprintf(path, sizeof path, "proc/%d/stat", process->number);
    tree_put(root, path,
             "%d (a (name) 1 2 3) S %d %d 1 0 -1 4194304 101 0 0 0 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
             " 20 0 1 0 %" PRIu64 " 3133440 %" PRIu64 " 18446744073709551615 1 2 3\n",
             process->number, process->parent, process->group, process->own - process->own / 2, process->own / 2,
             process->children - process->children / 2, process->children / 2, process->start, process->resident);
}

#endif
