/* SPDX-License-Identifier: Apache-2.0 */
/* The parser of manifests takes any text: it refuses with a message, or lists at least one file of a harmless name. */
#include "training/checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const char *text, size_t size)
{
    struct manifest manifest;
    struct error error = {0};
    if (manifest_parse(text, size, "input", &manifest, &error) != WEFT_OK) {
        if (error.text[0] == '\0')
            abort();
        return;
    }
    if (manifest.count == 0 || !manifest.library || !cJSON_IsObject(manifest.state.model))
        abort();
    for (size_t i = 0; i < manifest.count; i++)
        if (strchr(manifest.records[i].name, '/') || manifest.records[i].name[0] == '.')
            abort();
    manifest_free(&manifest);
}

/* As it is, and again with a right checksum after it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + !size), *sealed;
    memcpy(text, data, size);
    parse(text, size);
    if (manifest_seal(text, size, &sealed, NULL) == WEFT_OK) {
        parse(sealed, size + strlen(sealed + size));
        free(sealed);
    }
    free(text);
    return 0;
}
