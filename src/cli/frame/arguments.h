/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The arguments of a program, divided into options with their values and words. The program's own rules are unknown, so
 * the usual ones apply: an option begins with '-'; its value follows '=', or is the next argument if that is not an
 * option. A negative number is a word.
 */
#ifndef WEFT_CLI_FRAME_ARGUMENTS_H
#define WEFT_CLI_FRAME_ARGUMENTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct argument {
    const char *words[2]; /**< as given: "--rate=0.1", or "--rate" and "0.1"; the second may be NULL */
    size_t name_length;   /**< of the option's name, at the beginning of words[0]; 0: a word */
    const char *value;    /**< of an option; NULL: none */
};

/** Divide `count` words. *list points into them; the caller frees it. Errors: MEMORY. */
weft_status arguments_divide(const char *const *words, size_t count, struct argument **list, size_t *arguments,
                             struct error *error);

/** Whether they are the same option. */
bool argument_is_same_option(const struct argument *left, const struct argument *right);

/**
 * Make `changes` to the command line `parent`: each option of `changes` replaces the last one of that name; other options
 * and words are appended. *words points into both and ends with NULL; the caller frees it. Errors: MEMORY.
 */
weft_status arguments_change(const char *const *parent, size_t parent_count, const char *const *changes,
                             size_t change_count, const char ***words, struct error *error);

/** Whether a command line, which ends with NULL, has the option --NAME, or -LETTER unless that is 0. NULL: it has none. */
bool arguments_have(char *const *arguments, const char *name, char letter);

#endif
