/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/table.h"

#include "base/terminal.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CELL_BYTES 4096
#define GAP        2 /* spaces between columns */

void table_begin(struct table *table, const struct table_column *columns, size_t count)
{
    *table = (struct table){.columns = columns, .count = count};
}

void table_put(struct table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const weft_status status = ARRAY_RESERVE(table->cells, table->room, table->used + 1, "a table", NULL);
    char *cell = status == WEFT_OK ? strdup(text_printable(text)) : NULL;
    if (cell)
        table->cells[table->used++] = cell;
    else
        table->failed = true;
}

size_t table_rows(const struct table *table)
{
    return (table->used + table->count - 1) / table->count;
}

void table_end(struct table *table)
{
    for (size_t i = 0; i < table->used; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){0};
}

/* ---- widths ---- */

/* Bytes of the UTF-8 character at `text`, and the columns it takes. */
static size_t character(const char *text, size_t *columns)
{
    static const struct {
        uint32_t first, last;
    } wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : bytes[0] >= 0xc0 ? 2 : 1;
    uint32_t code = size == 1 ? bytes[0] : bytes[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (!bytes[i]) { /* not UTF-8 */
            *columns = 1;
            return 1;
        }
        code = code << 6 | (bytes[i] & 0x3f);
    }
    *columns = 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (code >= wide[i].first && code <= wide[i].last)
            *columns = 2;
    return size;
}

size_t table_width(const char *text)
{
    size_t width = 0;
    for (size_t columns; *text; width += columns)
        text += character(text, &columns);
    return width;
}

static const char *table_cell_of(const struct table *table, size_t row, size_t column)
{
    size_t index = row * table->count + column;
    return index < table->used ? table->cells[index] : "";
}

static size_t widest(const struct table *table, size_t column)
{
    size_t width = table_width(table->columns[column].title);
    for (size_t row = 0; row < table_rows(table); row++) {
        size_t other = table_width(table_cell_of(table, row, column));
        width = other > width ? other : width;
    }
    return width;
}

/* Narrow the widest column that may be cut, until all fit or none may be cut further. */
static void fit(const struct table *table, size_t available, size_t *widths)
{
    for (;;) {
        size_t total = 0, shown = 0, victim = SIZE_MAX;
        for (size_t i = 0; i < table->count; i++) {
            if (table->hidden[i])
                continue;
            total += widths[i] + (shown++ ? GAP : 0);
            if (table->columns[i].least && widths[i] > table->columns[i].least &&
                (victim == SIZE_MAX || widths[i] > widths[victim]))
                victim = i;
        }
        if (total <= available || victim == SIZE_MAX)
            return;
        widths[victim]--;
    }
}

/* ---- printing ---- */

/* Print `text` in `width` terminal columns, cut with a '…' if it is longer. */
static void print_cell(FILE *output, const char *text, size_t width, bool right, bool last)
{
    size_t whole = table_width(text), used = 0;
    if (whole <= width) {
        int blanks = (int)(width - whole);
        fprintf(output, "%*s%s", right ? blanks : 0, "", text);
        if (!last && !right)
            fprintf(output, "%*s", blanks, "");
        return;
    }
    for (size_t columns; *text; used += columns) {
        size_t size = character(text, &columns);
        if (used + columns + 1 > width)
            break;
        fwrite(text, 1, size, output);
        text += size;
    }
    fprintf(output, "…");
    if (!last)
        fprintf(output, "%*s", (int)(width - used - 1), "");
}

/* Bytes of `text` that fit into `width` terminal columns, without dividing a word if possible. */
static size_t piece_of(const char *text, size_t width)
{
    size_t at = 0, used = 0, blank = 0;
    for (size_t columns; text[at]; used += columns) {
        size_t size = character(text + at, &columns);
        if (text[at] == ' ')
            blank = at;
        if (used + columns > width)
            return text[at] == ' ' || blank ? blank : at ? at : size;
        at += size;
    }
    return at;
}

/* Print `text` in lines of `width` terminal columns from column `indent`, where the cursor is already. */
static void print_wrapped(FILE *output, const char *text, size_t width, size_t indent)
{
    for (size_t size;; text += size) {
        size = piece_of(text, width);
        fwrite(text, 1, size, output);
        while (text[size] == ' ')
            size++;
        if (!text[size])
            return;
        fprintf(output, "\n%*s", (int)indent, "");
    }
}

static void table_print_row(const struct table *table, size_t row, bool titles, const size_t *widths, FILE *output)
{
    size_t last = 0, shown = 0, indent = 0;
    for (size_t i = 0; i < table->count; i++)
        if (!table->hidden[i] && *(titles ? table->columns[i].title : table_cell_of(table, row, i)))
            last = i;
    for (size_t i = 0; i <= last; i++) {
        if (table->hidden[i])
            continue;
        if (shown++)
            fprintf(output, "%*s", GAP, "");
        indent += shown > 1 ? GAP : 0;
        if (table->columns[i].wraps && i + 1 == table->count && !titles)
            print_wrapped(output, table_cell_of(table, row, i), widths[i], indent);
        else
            print_cell(output, titles ? table->columns[i].title : table_cell_of(table, row, i), widths[i],
                       table->columns[i].right, i == last);
        indent += widths[i];
    }
    fputc('\n', output);
}

weft_status table_print_within(const struct table *table, unsigned width, FILE *output, struct error *error)
{
    size_t widths[TABLE_COLUMNS_MOST] = {0};
    if (table->failed)
        return error_memory(error, (table->used + 1) * CELL_BYTES, "a table");
    for (size_t i = 0; i < table->count; i++)
        widths[i] = widest(table, i);
    if (width > 0)
        fit(table, width, widths);
    table_print_row(table, 0, true, widths, output);
    for (size_t row = 0; row < table_rows(table); row++)
        table_print_row(table, row, false, widths, output);
    return WEFT_OK;
}

weft_status table_print(const struct table *table, FILE *output, struct error *error)
{
    return table_print_within(table, terminal_columns(fileno(output)), output, error);
}

/* ---- paragraphs ---- */

void wrap_print(FILE *output, const char *text, int column, int indent)
{
    bool line_empty = column <= indent;
    if (column < indent)
        fprintf(output, "%*s", indent - column, "");
    column = column < indent ? indent : column;
    while (*text) {
        if (*text == '\n') {
            /* Indent only before a word, so that no line ends in spaces. */
            fputc('\n', output);
            column = 0;
            text++;
            continue;
        }
        if (*text == ' ') {
            text++;
            continue;
        }
        int length = (int)strcspn(text, " \n");
        if (column == 0) {
            fprintf(output, "%*s", indent, "");
            column = indent;
            line_empty = true;
        } else if (!line_empty && column + 1 + length > WRAP_COLUMNS) {
            fprintf(output, "\n%*s", indent, "");
            column = indent;
            line_empty = true;
        }
        column += fprintf(output, "%s%.*s", line_empty ? "" : " ", length, text);
        line_empty = false;
        text += length;
    }
    fputc('\n', output);
}
