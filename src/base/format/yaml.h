/* SPDX-License-Identifier: Apache-2.0 */
/**
 * YAML for short descriptions written by hand: parsed by libyaml into a tree whose values record their line numbers.
 *
 * A simple subset of YAML is accepted: one document of maps, lists and strings of one line, with comments, in block or
 * flow style. Anchors, aliases and tags are refused, so input cannot expand; so are duplicate keys. JSON is YAML, too. A
 * file has at most YAML_BYTES_MOST bytes, a map YAML_ENTRIES_MOST entries, a list YAML_ITEMS_MOST, and they nest
 * YAML_DEPTH_MOST deep.
 *
 *     struct yaml_tree *tree;
 *     status = yaml_tree_read("model.yaml", &tree, error);
 *     const struct yaml_value *layers = yaml_value_find(yaml_tree_root(tree), "layers");
 *     if (status == WEFT_OK && layers)
 *         status = yaml_value_get_whole(layers, 1, 1024, &count, error);
 *     yaml_tree_free(tree);
 *
 * Names begin with yaml_tree and yaml_value because libyaml uses others that begin with yaml_.
 *
 * All errors are WEFT_ERROR_DATA and name file and line, except for files that cannot be read. Thread-safe; a tree
 * belongs to one thread at a time.
 */
#ifndef WEFT_BASE_FORMAT_YAML_H
#define WEFT_BASE_FORMAT_YAML_H

#include "base/error.h"
#include "base/format/quantity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_BYTES_MOST   ((size_t)4 << 20)
#define YAML_ENTRIES_MOST 1024
#define YAML_ITEMS_MOST   65536
#define YAML_DEPTH_MOST   16

enum yaml_kind {
    YAML_TEXT, /**< a number is a string that parses as one */
    YAML_LIST,
    YAML_MAP,
};

struct yaml_tree;

struct yaml_value {
    enum yaml_kind kind;
    const char *key;  /**< in a map; otherwise NULL */
    const char *text; /**< of a string */
    bool quoted;      /**< the string was quoted: it is not a number */
    unsigned line;    /**< where it begins, from 1 */
    const struct yaml_tree *tree;
    struct yaml_value *child; /**< the first entry of a list or map */
    struct yaml_value *next;  /**< the next entry */
};

/** Parse `size` bytes; `where` names them in messages. yaml_tree_free() frees `*tree`. */
weft_status yaml_tree_parse(const char *text, size_t size, const char *where, struct yaml_tree **tree,
                            struct error *error);

/** Read and parse the file at `path`. */
weft_status yaml_tree_read(const char *path, struct yaml_tree **tree, struct error *error);

/** NULL is allowed. */
void yaml_tree_free(struct yaml_tree *tree);

/** The outermost value; everything in it lives as long as the tree. */
const struct yaml_value *yaml_tree_root(const struct yaml_tree *tree);

/** The value of `key`, or NULL; `map` may be any value. */
const struct yaml_value *yaml_value_find(const struct yaml_value *map, const char *key);

/** error_set() with WEFT_ERROR_DATA, and "FILE, line N: " in front. */
weft_status yaml_value_fail(const struct yaml_value *value, struct error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The value as the type in the function's name; `true` and `false` are the only bools. */
weft_status yaml_value_get_whole(const struct yaml_value *value, int64_t least, int64_t most, int64_t *number,
                                 struct error *error);
weft_status yaml_value_get_number(const struct yaml_value *value, double least, double most, double *number,
                                  struct error *error);
/** A number with a unit, quoted or not. */
weft_status yaml_value_get_quantity(const struct yaml_value *value, enum quantity quantity, double least, double most,
                                    double *number, struct error *error);
weft_status yaml_value_get_bool(const struct yaml_value *value, bool *truth, struct error *error);
weft_status yaml_value_get_text(const struct yaml_value *value, const char **text, struct error *error);

#endif
