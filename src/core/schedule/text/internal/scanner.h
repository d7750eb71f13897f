/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The scanner: takes a line of a written schedule apart, word by word, and works out its numbers. Private to
 * written*.c.
 *
 * What does not fit is noted with file and line in `error`; from then on everything fails.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_INTERNAL_SCANNER_H
#define WEFT_CORE_SCHEDULE_TEXT_INTERNAL_SCANNER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define SCANNER_VARIABLES 16
#define SCANNER_NAME      16

/** What names stand for. */
struct scanner_variable {
    char name[SCANNER_NAME];
    int64_t value;
};

struct scanner {
    const char *at;   /**< what is left of the line, which ends with '\0' */
    const char *file; /**< for messages */
    uint32_t line;    /**< from 1 */
    uint32_t depth;   /**< of brackets in an expression */
    uint32_t count;   /**< variables */
    struct scanner_variable variables[SCANNER_VARIABLES];
    weft_status status;
    struct error *error;
};

/** Note what is wrong with this line; false. */
bool scanner_complain(struct scanner *scanner, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Whether nothing is left but blanks. */
bool scanner_ends(struct scanner *scanner);

/** Take a word (letters, digits, '-', '_'), or a sign, if it comes next. */
bool scanner_takes(struct scanner *scanner, const char *word);

/** The same, and it must come next. */
bool scanner_expects(struct scanner *scanner, const char *word);

/** Take any word that begins with a letter into `word`; false (nothing noted) if there is none. */
bool scanner_word(struct scanner *scanner, char *word, size_t size);

/** Work out an expression; its value must be in [least, most]. `what` names it in messages. */
bool scanner_number(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value);

/** The same, ending before a '+' or '-' that is outside brackets. */
bool scanner_term(struct scanner *scanner, const char *what, int64_t least, int64_t most, int64_t *value);

/** Give a name a value; false, noted, when the name is taken or there are too many. scanner_forget() the last one. */
bool scanner_define(struct scanner *scanner, const char *name, int64_t value);
void scanner_forget(struct scanner *scanner);

#endif
