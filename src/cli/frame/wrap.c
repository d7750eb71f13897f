/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/frame/wrap.h"

#include <stdbool.h>
#include <string.h>

void wrap_print(FILE *output, const char *text, int column, int indent)
{
    bool line_empty = column <= indent;
    if (column < indent)
        fprintf(output, "%*s", indent - column, "");
    column = column < indent ? indent : column;
    while (*text) {
        if (*text == '\n') {
            /* The indentation is written only where a word follows, so that no line ends in blanks. */
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
