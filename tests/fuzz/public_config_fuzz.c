/* SPDX-License-Identifier: Apache-2.0 */
/* What says a model's shape, config.json or a checkpoint's manifest, may be any text: it is refused with a message, or
 * the shape can be described or refused, and comes back from what is written of it. */
#include "training/model/file/public_config.h"
#include "training/model/file/shape_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct model_shape *shape)
{
    struct model_description *description;
    struct model_shape again;
    struct error error = {0};
    char *text;
    if (model_describe(shape, &description, &error) != WEFT_OK) {
        if (error.text[0] == '\0')
            abort();
        return;
    }
    if (public_config_format(&description->shape, NULL, WEFT_F32, &text, NULL) != WEFT_OK ||
        public_config_parse(text, strlen(text), "written", &again, NULL) != WEFT_OK)
        abort();
    if (again.layers != description->shape.layers || again.width != description->shape.width ||
        again.norm_epsilon != description->shape.norm_epsilon || again.rotary_base != description->shape.rotary_base)
        abort();
    free(text);
    model_description_free(description);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + !size);
    struct model_shape shape;
    struct error error = {0};
    cJSON *root;
    memcpy(text, data, size);
    if (public_config_parse(text, size, "input", &shape, &error) == WEFT_OK)
        use(&shape);
    else if (error.text[0] == '\0')
        abort();
    error_clear(&error);
    if (json_parse(text, size, "input", &root, NULL) == WEFT_OK) {
        if (shape_from_json(root, "input", &shape, &error) == WEFT_OK)
            use(&shape);
        else if (error.text[0] == '\0')
            abort();
        cJSON_Delete(root);
    }
    free(text);
    return 0;
}
