/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/internal/output_text.h"

#include "base/text.h"

#include <string.h>

#define ESCAPE '\033'
#define BELL   '\007'

/* The bytes that an order to a terminal takes, which begins with an escape. */
static size_t order_length(const char *at, size_t left)
{
    size_t length = 2;
    if (left < 2)
        return left;
    if (at[1] == '[') { /* CSI: parameters, then a letter */
        while (length < left && ((unsigned char)at[length] < '@' || (unsigned char)at[length] > '~'))
            length++;
        return length < left ? length + 1 : left;
    }
    if (at[1] == ']' || at[1] == 'P' || at[1] == '_' || at[1] == '^') { /* OSC and such: a string with an end */
        while (length < left && at[length] != BELL && at[length] != ESCAPE)
            length++;
        if (length < left && at[length] == ESCAPE && length + 1 < left && at[length + 1] == '\\')
            return length + 2;
        return length < left && at[length] == BELL ? length + 1 : length;
    }
    if (strchr("()*+#%", at[1])) /* a set of characters */
        return left < 3 ? left : 3;
    return 2;
}

size_t run_output_text(char *line, size_t size)
{
    size_t used = 0;
    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == '\n'))
        size--;
    for (size_t i = 0; i < size;) {
        if (line[i] == ESCAPE) {
            i += order_length(line + i, size - i);
        } else if (line[i] == '\r') {
            used = 0;
            i++;
        } else if (line[i] == '\b') {
            used -= used > 0;
            i++;
        } else {
            line[used++] = line[i++];
        }
    }
    /* Between tabs, so that these stay; a NUL would end the text. */
    for (size_t begin = 0, end; begin <= used; begin = end + 1) {
        for (end = begin; end < used && line[end] != '\t'; end++)
            if (line[end] == '\0')
                line[end] = '?';
        line[end] = '\0';
        text_printable(line + begin);
        if (end < used)
            line[end] = '\t';
    }
    return used;
}
