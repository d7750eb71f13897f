/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The scanner: splits a line of a schedule text into words and evaluates its numbers. The first error is stored in
 * `error` with file and line; after that everything fails.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_INTERNAL_SCANNER_H
#define WEFT_CORE_SCHEDULE_TEXT_INTERNAL_SCANNER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SCANNER_VARIABLES 16
#define SCANNER_NAME      16

/** The values of names. */
struct scanner_variable {
    char name[SCANNER_NAME];
    int64_t value;
};

struct scanner {
    const char *at;   /**< the rest of the line, which ends with '\0' */
    const char *file; /**< for messages */
    uint32_t line;    /**< from 1 */
    uint32_t depth;   /**< of brackets in an expression */
    uint32_t count;   /**< variables */
    struct scanner_variable variables[SCANNER_VARIABLES];
    weft_status status;
    struct error *error;
};

/** Record an error about this line; returns false. */
bool scanner_complain(struct scanner *scanner, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Whether only whitespace is left. */
bool scanner_ends(struct scanner *scanner);

/** Consume a word (letters, digits, '-', '_') or an operator, if it comes next. */
bool scanner_takes(struct scanner *scanner, const char *word);

/** The same; an error if it does not come next. */
bool scanner_expects(struct scanner *scanner, const char *word);

/** Read any word that begins with a letter into `word`; false (no error) if there is none. */
bool scanner_word(struct scanner *scanner, char *word, size_t size);

/** Evaluate an expression; its value must be in [least, most]. `what` names it in messages. */
bool scanner_number(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value);

/** The same, ending before a '+' or '-' that is outside brackets. */
bool scanner_term(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value);

/**
 * Define a variable; false, with an error, when the name is taken or there are too many. scanner_forget() removes the
 * last one.
 */
bool scanner_define(struct scanner *scanner, const char *name, int64_t value);
void scanner_forget(struct scanner *scanner);

#endif
