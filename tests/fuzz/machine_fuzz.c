/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a machine's JSON: refused with a message, or what was read is written and read again to the same text.
 */
#include "base/format/json.h"
#include "core/topology/machine_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct machine *read_machine(const char *text, size_t size)
{
    struct error error = {0};
    cJSON *root = NULL;
    struct machine *machine = NULL;
    weft_status status = json_parse(text, size, "input", &root, &error);
    if (status == WEFT_OK)
        status = machine_read(root, "input", &machine, &error);
    cJSON_Delete(root);
    if (status != WEFT_OK && (!*error.text || machine))
        abort();
    return machine;
}

static char *write_machine(const struct machine *machine)
{
    struct json_writer writer;
    json_begin(&writer, JSON_LINE);
    machine_write(machine, &writer, NULL);
    if (!json_text(&writer))
        abort();
    char *text = strdup(json_text(&writer));
    json_end(&writer);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine *machine = read_machine((const char *)data, size);
    if (!machine)
        return 0;
    char *text = write_machine(machine), kind[256];
    machine_kind(machine, kind, sizeof kind);
    struct machine *again = read_machine(text, strlen(text));
    if (!again)
        abort();
    char *same = write_machine(again);
    if (strcmp(text, same) != 0)
        abort();
    free(text);
    free(same);
    machine_free(machine);
    machine_free(again);
    return 0;
}
