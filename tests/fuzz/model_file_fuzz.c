/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a file that describes a network: refused with a message, or a shape that can be described, whose
 * numbers are within their bounds. Nothing of the network's size is allocated. */
#include "base/format/yaml.h"
#include "training/model/file/model_file.h"
#include "training/model/shape.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Values of a tree, which cannot be more than the text has bytes. */
static size_t count_values(const struct yaml_value *value, unsigned depth)
{
    size_t count = 0;
    for (; value; value = value->next) {
        if (!value->line || depth > YAML_DEPTH_MOST + 1 || (value->kind == YAML_TEXT) != (value->text != NULL))
            abort();
        count += 1 + count_values(value->child, depth + 1);
    }
    return count;
}

static void check_tree(const uint8_t *data, size_t size)
{
    struct yaml_tree *tree = NULL;
    struct error error = {0};
    if (yaml_tree_parse((const char *)data, size, "input", &tree, &error) != WEFT_OK) {
        if (!*error.text || tree)
            abort();
        return;
    }
    if (count_values(yaml_tree_root(tree), 0) > size + 1)
        abort();
    yaml_tree_free(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_shape shape = {0};
    struct model_description *description;
    struct error error = {0};
    check_tree(data, size);
    if (model_file_parse((const char *)data, size, "input", &shape, &error) != WEFT_OK) {
        if (!*error.text || shape.kind)
            abort();
        return 0;
    }
    for (size_t i = 0; i < shape_number_count; i++) {
        double value = shape_number_get(&shape, &shape_numbers[i]);
        if (value != 0 && !(value >= shape_numbers[i].least && value <= shape_numbers[i].most))
            abort();
    }
    if (model_describe(&shape, &description, &error) != WEFT_OK)
        abort();
    model_description_free(description);
    return 0;
}
