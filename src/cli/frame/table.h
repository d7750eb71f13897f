/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tables of text that fit the terminal: columns as wide as what stands in them; where that is too much, those that may
 * be are cut or, the last one, go on below; the widest first.
 *
 *     static const struct table_column columns[] = {
 *         {.title = "run", .right = true}, {.title = "name", .least = 8}, {.title = "state"}};
 *     struct table table;
 *     table_begin(&table, columns, 3);
 *     table_put(&table, "%d", 12);
 *     table_put(&table, "%s", name);
 *     table_put(&table, "%s", state);
 *     status = table_print(&table, output, error);
 *     table_end(&table);
 *
 * What others have written may be put in: control characters of a terminal become '?'. A table belongs to one thread.
 */
#ifndef WEFT_CLI_FRAME_TABLE_H
#define WEFT_CLI_FRAME_TABLE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MOST 16

struct table_column {
    const char *title;
    bool right;       /**< numbers stand at the right */
    unsigned least;   /**< may be cut to so many characters; 0: never */
    bool wraps;       /**< the last one only: long text continues on the next line instead of being cut */
    const char *cell; /**< template of its cells (cli/platform/client/cells.h); NULL if the caller fills them */
};

struct table {
    const struct table_column *columns;
    size_t count;
    bool hidden[TABLE_COLUMNS_MOST]; /**< of the caller: columns that are not printed */
    char **cells;                    /**< row by row */
    size_t used, room;
    bool failed; /**< memory ran out; table_print() tells */
};

void table_begin(struct table *table, const struct table_column *columns, size_t count);

/** The next cell, from left to right and row by row; one of a hidden column too. Texts are cut at 4 KiB. */
void table_put(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Cells at the end of a row that was not finished are empty. */
size_t table_rows(const struct table *table);

/** Print titles and rows, as wide as the terminal that `output` is; as wide as they are if it is none. Errors: MEMORY.
 */
weft_status table_print(const struct table *table, FILE *output, struct error *error);

/** The same for a terminal of so many columns; 0: any number. */
weft_status table_print_within(const struct table *table, unsigned width, FILE *output, struct error *error);

/** Free what it holds. */
void table_end(struct table *table);

/** How many columns of a terminal a UTF-8 text takes (letters of East Asia: two each). */
size_t table_width(const char *text);

#endif
