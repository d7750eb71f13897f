/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format/csv.h"

#include "base/format/json.h"
#include "base/text.h"

#include <string.h>

static void put_text(FILE *output, const char *text)
{
    const size_t length = strlen(text);
    const bool blank = length && (strchr(" \t", text[0]) || strchr(" \t", text[length - 1]));
    if (!blank && !strpbrk(text, ",\"\r\n")) {
        fputs(text, output);
        return;
    }
    fputc('"', output);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', output);
        fputc(*text, output);
    }
    fputc('"', output);
}

void csv_put_header(FILE *output, const char *const *columns)
{
    for (size_t i = 0; columns[i]; i++) {
        fputs(i ? "," : "", output);
        put_text(output, columns[i]);
    }
    fputc('\n', output);
}

/* The member of that name, or of that path. */
static const cJSON *find(const cJSON *object, const char *column)
{
    char name[64];
    const char *slash = strchr(column, '/');
    if (!slash)
        return cJSON_GetObjectItemCaseSensitive(object, column);
    snprintf(name, sizeof name, "%.*s", (int)(slash - column), column);
    return find(cJSON_GetObjectItemCaseSensitive(object, name), slash + 1);
}

void csv_put_object(FILE *output, const char *const *columns, const cJSON *object)
{
    char number[TEXT_NUMBER_BYTES];
    for (size_t i = 0; columns[i]; i++) {
        const cJSON *value = find(object, columns[i]);
        fputs(i ? "," : "", output);
        if (cJSON_IsString(value))
            put_text(output, value->valuestring);
        else if (cJSON_IsNumber(value))
            fputs(text_number_exact(value->valuedouble, number), output);
        else if (cJSON_IsBool(value))
            fputs(cJSON_IsTrue(value) ? "true" : "false", output);
    }
    fputc('\n', output);
}
