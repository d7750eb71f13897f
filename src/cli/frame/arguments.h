/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The arguments of a program as people mean them: options with their values, and words. By the usual rule, for nobody
 * knows the program's own: what begins with '-' is an option; its value stands behind '=', or is the next word if that
 * is no option. A number below zero is a word.
 */
#ifndef WEFT_CLI_FRAME_ARGUMENTS_H
#define WEFT_CLI_FRAME_ARGUMENTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct argument {
    const char *words[2]; /**< as written: "--rate=0.1", or "--rate" and "0.1"; the second may be NULL */
    size_t name_length;   /**< of the option's name, at the beginning of words[0]; 0: a word */
    const char *value;    /**< of an option; NULL: none */
};

/** Divide `count` words; *list is to be freed, and points into them. Errors: MEMORY. */
weft_status arguments_divide(const char *const *words, size_t count, struct argument **list, size_t *arguments,
                             struct error *error);

/** Whether they are the same option. */
bool argument_is_same_option(const struct argument *left, const struct argument *right);

/**
 * The command line `parent` with `changes` made to it: an option of `changes` takes the place of the last one of that
 * name, or stands at the end if there is none; so does a word. *words, ending with NULL, is to be freed and points into
 * both. Errors: MEMORY.
 */
weft_status arguments_change(const char *const *parent, size_t parent_count, const char *const *changes,
                             size_t change_count, const char ***words, struct error *error);

#endif
