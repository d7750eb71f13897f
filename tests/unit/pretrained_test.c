/* SPDX-License-Identifier: Apache-2.0 */
/* Public weights in memory: every bit of f32 comes back, zeros' signs among them; halves are converted; gaps are 0;
 * nothing is written unless all is right; what is infinite or NaN is refused. tests/integration/public_weights_test has
 * the files that people find. */
#include "training/train/state/pretrained.h"

#include "base/float_bits.h"
#include "base/random.h"
#include "temporary.h"
#include "training/checkpoint/convert.h"
#include "training/checkpoint/safetensors.h"
#include "training/model/file/public_config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const struct model_shape shape = {
    .kind = "llama", .layers = 2, .heads = 2, .kv_heads = 1, .width = 20, .hidden = 12, .context = 8, .vocabulary = 37};

static const char *directory;
static struct model_description *description;
static struct named_tensor tensors[64];
static float *memory; /* the tensors' elements, bits of any kind */

static int set_up(void **state)
{
    directory = temporary_directory();
    assert_int_equal(model_describe(&shape, &description, NULL), WEFT_OK);
    memory = malloc(description->weights * sizeof *memory);
    float *next = memory;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        tensors[i] = (struct named_tensor){.name = parameter->name,
                                           .dimensions = (unsigned)parameter->dimensions,
                                           .count = parameter->count,
                                           .data = next};
        for (size_t d = 0; d < parameter->dimensions; d++)
            tensors[i].shape[d] = parameter->shape[d];
        next += parameter->count;
    }
    return 0;
}

static int tear_down(void **state)
{
    model_description_free(description);
    free(memory);
    return file_remove_tree(directory, NULL);
}

/* Finite floats of all magnitudes. */
static void fill(void)
{
    static const uint32_t odd[] = {0x80000000, 0x00000001, 0x807fffff, 0x7f7fffff};
    for (size_t i = 0; i < description->weights; i++) {
        uint32_t bits = (uint32_t)random_bits(4, i);
        if ((bits & 0x7f800000) == 0x7f800000)
            bits ^= 0x40000000;
        if (i % 7 == 0)
            bits = odd[i / 7 % (sizeof odd / sizeof *odd)];
        memory[i] = float_from_bits(bits);
    }
}

static const char *write_file(weft_type type, size_t count)
{
    struct file_digest digest;
    const char *path = temporary_path(directory, "model.safetensors");
    for (size_t i = 0; i < count; i++)
        tensors[i].type = type;
    assert_int_equal(safetensors_write(path, tensors, count, &digest, NULL), WEFT_OK);
    return path;
}

static float *old_parameters(void)
{
    float *parameters = malloc(description->elements * sizeof *parameters);
    for (size_t i = 0; i < description->elements; i++)
        parameters[i] = 7;
    return parameters;
}

static void compare(const float *parameters)
{
    size_t end = 0, seen = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        for (; end < parameter->offset; end++)
            assert_true(parameters[end] == 0);
        assert_memory_equal(parameters + parameter->offset, memory + seen, parameter->count * sizeof *memory);
        end += parameter->count;
        seen += parameter->count;
    }
    for (; end < description->elements; end++)
        assert_true(parameters[end] == 0);
}

static void every_bit_comes_back(void **state)
{
    struct pretrained *pretrained;
    float *parameters = old_parameters();
    fill();
    const char *path = write_file(WEFT_F32, description->parameter_count);
    assert_int_equal(pretrained_open(path, &pretrained, NULL), WEFT_OK);
    assert_null(pretrained_shape(pretrained));
    assert_int_equal(pretrained_step(pretrained), 0);
    assert_non_null(strstr(pretrained_describe(pretrained), "f32"));
    assert_int_equal(pretrained_read(pretrained, description, parameters, NULL), WEFT_OK);
    compare(parameters);
    pretrained_close(pretrained);
    free(parameters);
}

static void halves_are_widened(void **state)
{
    static const weft_type types[] = {WEFT_F16, WEFT_BF16};
    for (size_t t = 0; t < 2; t++) {
        struct pretrained *pretrained;
        float *parameters = old_parameters();
        fill();
        for (size_t i = 0; i < description->weights; i++)
            memory[i] = fmodf(memory[i], 60000); /* within f16 */
        for (size_t i = 0; i < description->parameter_count; i++)
            convert_from_f32(types[t], tensors[i].count, tensors[i].data, tensors[i].data);
        assert_int_equal(pretrained_open(write_file(types[t], description->parameter_count), &pretrained, NULL),
                         WEFT_OK);
        for (size_t i = 0; i < description->parameter_count; i++) {
            uint16_t halves[1024];
            assert_true(tensors[i].count <= 1024);
            memcpy(halves, tensors[i].data, tensors[i].count * sizeof *halves);
            convert_to_f32(types[t], tensors[i].count, halves, tensors[i].data);
        }
        assert_int_equal(pretrained_read(pretrained, description, parameters, NULL), WEFT_OK);
        compare(parameters);
        pretrained_close(pretrained);
        free(parameters);
    }
}

static void nothing_is_written_unless_all_is_right(void **state)
{
    struct pretrained *pretrained;
    struct error error = {0};
    float *parameters = old_parameters();
    fill();
    assert_int_equal(pretrained_open(write_file(WEFT_F32, description->parameter_count - 1), &pretrained, NULL),
                     WEFT_OK);
    assert_int_equal(pretrained_read(pretrained, description, parameters, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, description->parameters[description->parameter_count - 1].name));
    for (size_t i = 0; i < description->elements; i++)
        assert_true(parameters[i] == 7);
    pretrained_close(pretrained);
    free(parameters);
}

/* The tensor, the file, how many and which; whatever the type. */
static void what_is_not_finite_is_refused(void **state)
{
    static const struct {
        weft_type type;
        uint32_t bits;
        const char *said;
    } cases[] = {
        {WEFT_F32, 0x7fc12345, "nan"},  {WEFT_F32, 0xffc00000, "nan"}, {WEFT_F32, 0x7f800001, "nan"},
        {WEFT_F32, 0xff800000, "-inf"}, {WEFT_F16, 0x7f800000, "inf"}, {WEFT_BF16, 0x7fc00000, "nan"},
    };
    const struct named_tensor *spoilt = &tensors[description->parameter_count - 1];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct pretrained *pretrained;
        struct error error = {0};
        char count[64], first[64];
        float *parameters = old_parameters();
        for (size_t i = 0; i < description->weights; i++)
            memory[i] = 0.5f;
        for (size_t i = 1; i < 3; i++)
            ((float *)spoilt->data)[i] = float_from_bits(cases[c].bits);
        for (size_t i = 0; i < description->parameter_count; i++)
            convert_from_f32(cases[c].type, tensors[i].count, tensors[i].data, tensors[i].data);
        const char *path = write_file(cases[c].type, description->parameter_count);
        assert_int_equal(pretrained_open(path, &pretrained, NULL), WEFT_OK);
        assert_int_equal(pretrained_read(pretrained, description, parameters, &error), WEFT_ERROR_DATA);
        snprintf(count, sizeof count, "2 of the %zu elements", spoilt->count);
        snprintf(first, sizeof first, "the first is element 1, %s;", cases[c].said);
        const char *const said[] = {count, first, spoilt->name, path, "get it again, or use an older checkpoint"};
        for (size_t i = 0; i < sizeof said / sizeof *said; i++)
            if (!strstr(error.text, said[i]))
                fail_msg("case %zu lacks '%s': %s", c, said[i], error.text);
        pretrained_close(pretrained);
        free(parameters);
    }
}

/* The config.json beside a file is its shape, wherever the file is named from. */
static void the_shape_lies_beside(void **state)
{
    struct pretrained *pretrained;
    char *text, before[4096];
    fill();
    write_file(WEFT_F32, description->parameter_count);
    assert_int_equal(public_config_format(&description->shape, NULL, WEFT_F32, &text, NULL), WEFT_OK);
    temporary_file(directory, PUBLIC_CONFIG_NAME, text, strlen(text));
    free(text);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    const char *const paths[] = {directory, temporary_path(directory, "model.safetensors"), "model.safetensors", "."};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pretrained_open(paths[i], &pretrained, NULL), WEFT_OK);
        assert_non_null(pretrained_shape(pretrained));
        assert_int_equal(pretrained_shape(pretrained)->hidden, shape.hidden);
        pretrained_close(pretrained);
    }
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bit_comes_back),
        cmocka_unit_test(halves_are_widened),
        cmocka_unit_test(nothing_is_written_unless_all_is_right),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(the_shape_lies_beside),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
