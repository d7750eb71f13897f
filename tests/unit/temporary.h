/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: a folder that is empty at the start and gone at the end, and files in it. */
#ifndef WEFT_TESTS_TEMPORARY_H
#define WEFT_TESTS_TEMPORARY_H

#include "base/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Make a folder under TMPDIR or /tmp; a static string. */
static inline const char *temporary_folder(void)
{
    static char folder[256];
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/weft-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    return folder;
}

/** A test's set-up and tear-down: a folder of its own, which is *state. */
static inline int temporary_begin(void **state)
{
    *state = (void *)temporary_folder();
    return 0;
}

static inline int temporary_end(void **state)
{
    return file_remove_tree(*state, NULL) == WEFT_OK ? 0 : -1;
}

/** A test between the two. */
#define in_temporary_folder(test) cmocka_unit_test_setup_teardown(test, temporary_begin, temporary_end)

/** "folder/name", in one of eight static buffers used in turn. */
static inline const char *temporary_path(const char *folder, const char *name)
{
    static char paths[8][FILE_PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % 8];
    if (file_join(path, folder, name, NULL) != WEFT_OK)
        exit(1);
    return path;
}

/** Write a file without ceremony; returns its path as temporary_path() does. */
static inline const char *temporary_file(const char *folder, const char *name, const void *content, size_t size)
{
    const char *path = temporary_path(folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
