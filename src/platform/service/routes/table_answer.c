/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/table_answer.h"

#include "base/format/csv.h"
#include "platform/service/internal/service_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const table_answer_formats[] = {"json", "csv", NULL};

/* The list of the object as CSV, to be freed; NULL: there is no memory for it. */
static char *write_table(const char *text, const char *list, const char *const *columns, size_t *size)
{
    cJSON *object = text ? cJSON_Parse(text) : NULL;
    char *table = NULL;
    FILE *output = object ? open_memstream(&table, size) : NULL;
    const cJSON *row;
    bool failed = !output;
    if (output) {
        csv_put_header(output, columns);
        cJSON_ArrayForEach(row, cJSON_GetObjectItemCaseSensitive(object, list))
        {
            csv_put_object(output, columns, row);
        }
        failed = ferror(output);
        failed = fclose(output) || failed;
    }
    cJSON_Delete(object);
    if (!failed)
        return table;
    free(table);
    return NULL;
}

void table_answer(struct route_call *call, weft_status status, struct json_writer *writer, const char *list,
                  const char *const *columns, const struct error *error)
{
    char name[64];
    size_t size = 0;
    if (status != WEFT_OK || strcmp(route_value(call, "format")->text, "csv") != 0) {
        service_answer(call, status, writer, error);
        return;
    }
    char *table = write_table(json_text(writer), list, columns, &size);
    json_end(writer);
    if (!table) {
        http_fail(call->request, 503, "the server has no memory for that at the moment");
        return;
    }
    snprintf(name, sizeof name, "attachment; filename=\"%s.csv\"", list);
    http_reply_header(call->request, "Content-Disposition", name);
    http_reply(call->request, 200, TABLE_ANSWER_CSV "; charset=utf-8", table, size);
    free(table);
}
