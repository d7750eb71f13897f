/* SPDX-License-Identifier: Apache-2.0 */
/* For what reads several files of the kernel: the input as a tree of files in memory. */
#ifndef WEFT_TESTS_FUZZ_TREE_H
#define WEFT_TESTS_FUZZ_TREE_H

#include "fuzz_file.h"

#include "base/file/file.h"

#include <string.h>

#define FUZZ_TREE_MOST 32

/* The one tree of a fuzzer. */
static struct {
    char root[32];
    int memory[FUZZ_TREE_MOST];
    size_t count;
} fuzz_tree;

static void fuzz_tree_remove(void)
{
    file_remove_tree(fuzz_tree.root, NULL);
}

/* The root of a tree with `files` below it, links to memory: made once; the texts change. */
static inline const char *fuzz_tree_make(const char *const *files, size_t count)
{
    if (fuzz_tree.count)
        return fuzz_tree.root;
    snprintf(fuzz_tree.root, sizeof fuzz_tree.root, "/tmp/weft-fuzz-XXXXXX");
    if (count > FUZZ_TREE_MOST || !mkdtemp(fuzz_tree.root))
        abort();
    atexit(fuzz_tree_remove);
    for (size_t i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES], source[FUZZ_PATH_BYTES];
        fuzz_tree.memory[i] = fuzz_file(NULL, 0, source);
        snprintf(path, sizeof path, "%s/%s", fuzz_tree.root, files[i]);
        if (file_make_directory_of(path, NULL) != WEFT_OK || symlink(source, path) != 0)
            abort();
    }
    fuzz_tree.count = count;
    return fuzz_tree.root;
}

/* The next texts of the input, in the order of the files, each ended by a zero; what is left stays in *data. */
static inline void fuzz_tree_put(const uint8_t **data, size_t *size)
{
    for (size_t i = 0; i < fuzz_tree.count; i++) {
        const uint8_t *end = *size ? memchr(*data, 0, *size) : NULL;
        const size_t length = end ? (size_t)(end - *data) : *size;
        if (ftruncate(fuzz_tree.memory[i], 0) != 0 ||
            (length && pwrite(fuzz_tree.memory[i], *data, length, 0) != (ssize_t)length))
            abort();
        *data += length + (end != NULL);
        *size -= length + (end != NULL);
    }
}

#endif
