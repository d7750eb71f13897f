/* SPDX-License-Identifier: Apache-2.0 */
/* Public weights of BERT: older names, tensors that are stored twice, and a classifier on top of pre-trained weights. */
#include "training/train/state/pretrained.h"

#include "base/random.h"
#include "temporary.h"
#include "training/checkpoint/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TENSORS_MOST 64

static const struct model_shape shape = {
    .kind = "bert", .layers = 1, .heads = 2, .width = 8, .context = 6, .vocabulary = 11};

static const char *directory;
static struct model_description *description, *classifier;
static struct named_tensor tensors[TENSORS_MOST];
static char names[TENSORS_MOST][MODEL_NAME_BYTES];
static float *memory;

static int set_up(void **state)
{
    struct model_shape classes = shape;
    classes.classes = 3;
    directory = temporary_directory();
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    assert_int_equal(model_describe(&classes, &classifier, NULL), WEFT_OK);
    memory = malloc(description->weights * sizeof *memory);
    for (size_t i = 0; i < description->weights; i++)
        memory[i] = (float)random_normal(3, i);
    return 0;
}

static int tear_down(void **state)
{
    model_description_free(description);
    model_description_free(classifier);
    free(memory);
    return file_remove_tree(directory, NULL);
}

/* The model's tensors, norms with older names if `is_old`; returns their number. */
static size_t list_tensors(bool is_old)
{
    float *next = memory;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        char *norm = strcpy(names[i], parameter->name);
        if (is_old && (norm = strstr(names[i], "LayerNorm.")) != NULL)
            strcpy(norm + strlen("LayerNorm."), strstr(norm, "weight") ? "gamma" : "beta");
        tensors[i] = (struct named_tensor){.name = names[i],
                                           .type = WEFT_F32,
                                           .dimensions = (unsigned)parameter->dimensions,
                                           .shape = {parameter->shape[0], parameter->shape[1]},
                                           .count = parameter->count,
                                           .data = next};
        next += parameter->count;
    }
    return description->parameter_count;
}

static struct pretrained *open_file(size_t count)
{
    struct file_digest digest;
    struct pretrained *pretrained;
    const char *path = temporary_path(directory, "model.safetensors");
    assert_int_equal(safetensors_write(path, tensors, count, &digest, NULL), WEFT_OK);
    assert_int_equal(pretrained_open(path, &pretrained, NULL), WEFT_OK);
    return pretrained;
}

static void expect_same(const struct model_description *read, const float *parameters)
{
    const float *from = memory;
    for (size_t i = 0; i < description->parameter_count; from += description->parameters[i++].count) {
        const struct model_parameter *found = model_parameter_find(read, description->parameters[i].name);
        if (found)
            assert_memory_equal(parameters + found->offset, from, found->count * sizeof *from);
    }
}

static void older_names_and_copies_are_read(void **state)
{
    float *parameters = calloc(description->elements, sizeof *parameters), positions[6] = {0};
    size_t count = list_tensors(true);
    tensors[count] = tensors[0];
    tensors[count++].name = "cls.predictions.decoder.weight";
    tensors[count++] = (struct named_tensor){.name = "bert.embeddings.position_ids",
                                             .type = WEFT_F32,
                                             .dimensions = 2,
                                             .shape = {1, 6},
                                             .count = 6,
                                             .data = positions};
    struct pretrained *pretrained = open_file(count);
    assert_false(pretrained_lacks_head(pretrained, description));
    assert_int_equal(pretrained_read(pretrained, description, parameters, NULL), WEFT_OK);
    expect_same(description, parameters);
    pretrained_close(pretrained);
    free(parameters);
}

static void another_decoder_is_refused(void **state)
{
    struct error error = {0};
    float *parameters = calloc(description->elements, sizeof *parameters);
    size_t count = list_tensors(false);
    tensors[count] = tensors[0];
    tensors[count].data = memory + 1;
    tensors[count++].name = "cls.predictions.decoder.weight";
    struct pretrained *pretrained = open_file(count);
    assert_int_equal(pretrained_read(pretrained, description, parameters, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "differs from 'bert.embeddings.word_embeddings.weight'"));
    pretrained_close(pretrained);
    free(parameters);
}

/* The encoder and the pooler are read, the classifier keeps what it has, and the messages name both. */
static void a_classifier_begins_with_a_pretrained_encoder(void **state)
{
    struct error error = {0};
    char changes[400];
    float *parameters = malloc(classifier->elements * sizeof *parameters);
    for (size_t i = 0; i < classifier->elements; i++)
        parameters[i] = 0.5f;
    struct pretrained *pretrained = open_file(list_tensors(false));
    assert_true(pretrained_lacks_head(pretrained, classifier));
    assert_int_equal(pretrained_read(pretrained, classifier, parameters, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "'classifier.weight'"));
    assert_int_equal(pretrained_read_body(pretrained, classifier, parameters, NULL), WEFT_OK);
    expect_same(classifier, parameters);
    const struct model_parameter *weight = model_parameter_find(classifier, "classifier.weight");
    for (size_t i = 0; i < weight->count; i++)
        assert_true(parameters[weight->offset + i] == 0.5f);
    pretrained_head_changes(pretrained, classifier, changes, sizeof changes);
    assert_non_null(strstr(changes, "new: classifier.weight, classifier.bias; not used: cls."));
    assert_non_null(strstr(changes, "cls.seq_relationship.bias"));
    pretrained_close(pretrained);
    free(parameters);
}

/* Weights that have learned other classes: the same, with their own classifier. */
static void other_classes_begin_with_a_new_classifier(void **state)
{
    struct model_shape five = shape;
    struct model_description *other;
    struct error error = {0};
    float *next = memory;
    five.classes = 5;
    assert_int_equal(model_describe(&five, &other, NULL), WEFT_OK);
    for (size_t i = 0; i < classifier->parameter_count; next += classifier->parameters[i++].count)
        tensors[i] =
            (struct named_tensor){.name = classifier->parameters[i].name,
                                  .type = WEFT_F32,
                                  .dimensions = (unsigned)classifier->parameters[i].dimensions,
                                  .shape = {classifier->parameters[i].shape[0], classifier->parameters[i].shape[1]},
                                  .count = classifier->parameters[i].count,
                                  .data = next};
    struct pretrained *pretrained = open_file(classifier->parameter_count);
    assert_false(pretrained_lacks_head(pretrained, classifier));
    assert_true(pretrained_lacks_head(pretrained, other));
    float *parameters = calloc(other->elements, sizeof *parameters);
    const struct model_parameter *weight = model_parameter_find(other, "classifier.weight");
    parameters[weight->offset] = 0.5f;
    assert_int_equal(pretrained_read(pretrained, other, parameters, &error), WEFT_ERROR_DATA);
    assert_int_equal(pretrained_read_body(pretrained, other, parameters, NULL), WEFT_OK);
    assert_true(parameters[weight->offset] == 0.5f);
    assert_memory_equal(parameters + other->parameters[0].offset, memory, other->parameters[0].count * sizeof *memory);
    pretrained_close(pretrained);
    model_description_free(other);
    free(parameters);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_names_and_copies_are_read),
        cmocka_unit_test(another_decoder_is_refused),
        cmocka_unit_test(a_classifier_begins_with_a_pretrained_encoder),
        cmocka_unit_test(other_classes_begin_with_a_new_classifier),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
