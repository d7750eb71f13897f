/* SPDX-License-Identifier: Apache-2.0 */
/** For tests: a directory that is empty at the start and gone at the end, and files in it. */
#ifndef WEFT_TESTS_TEMPORARY_H
#define WEFT_TESTS_TEMPORARY_H

#include "base/file/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Make a directory under TMPDIR or /tmp; a static string. */
static inline const char *temporary_directory(void)
{
    static char directory[256];
    const char *parent = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/weft-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(directory)) {
        perror(directory);
        exit(1);
    }
    return directory;
}

/** A test's set-up and tear-down: a directory of its own, which is *state. */
static inline int temporary_begin(void **state)
{
    *state = (void *)temporary_directory();
    return 0;
}

static inline int temporary_end(void **state)
{
    return file_remove_tree(*state, NULL) == WEFT_OK ? 0 : -1;
}

/** A test between the two. */
#define in_temporary_directory(test) cmocka_unit_test_setup_teardown(test, temporary_begin, temporary_end)

/** "directory/name", in one of eight static buffers used in turn. */
static inline const char *temporary_path(const char *directory, const char *name)
{
    static char paths[8][FILE_PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % 8];
    if (file_join(path, directory, name, NULL) != WEFT_OK)
        exit(1);
    return path;
}

/** Write a file without ceremony; returns its path as temporary_path() does. */
static inline const char *temporary_file(const char *directory, const char *name, const void *content, size_t size)
{
    const char *path = temporary_path(directory, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(content, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

#endif
