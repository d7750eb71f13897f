/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a sequence token by token gives the logits of a forward pass over all of it, at every position and on every
 * device; going back and forgetting give what a fresh model would. */
#include "training/model/decoder.h"

#include "tensor_support.h"

#define VOCABULARY 97
#define CONTEXT    48
#define TOKENS     (3 * CONTEXT)

static const struct model_shape shapes[] = {
    {.kind = "gpt", .layers = 3, .heads = 3, .width = 45, .context = CONTEXT, .vocabulary = VOCABULARY},
    {.kind = "llama",
     .layers = 3,
     .heads = 6,
     .kv_heads = 2,
     .width = 48,
     .context = CONTEXT,
     .vocabulary = VOCABULARY,
     .untied = true},
    {.kind = "mlp", .layers = 2, .width = 12, .window = 7, .hidden = 40, .context = CONTEXT, .vocabulary = VOCABULARY},
};

struct fixture {
    struct device *device;
    struct model_description *description;
    void *parameters;
    int32_t tokens[TOKENS + 1];
};

static struct model *open_reader(const struct fixture *fixture, size_t window)
{
    struct error error = {0};
    struct model *model = NULL;
    if (model_open(fixture->description, fixture->device, &(struct model_options){.batch = 1, .sequence = window},
                   &model, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return model;
}

static struct decoder *open_decoder(const struct fixture *fixture, struct model *model)
{
    struct decoder *decoder;
    assert_int_equal(decoder_open(model, fixture->parameters, &decoder, NULL), WEFT_OK);
    return decoder;
}

static void fixture_open(struct fixture *fixture, const struct model_shape *shape, const char *device)
{
    struct error error = {0};
    *fixture = (struct fixture){.device = open_device(device, 1)};
    if (model_describe(shape, &fixture->description, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    fixture->parameters = make_array(fixture->device, fixture->description->elements);
    assert_int_equal(model_initialize(fixture->description, fixture->device, fixture->parameters, 5, NULL), WEFT_OK);
    for (size_t i = 0; i < fixture->description->elements; i++) /* far from uniform logits */
        put(fixture->device, fixture->parameters, i, 3 * get(fixture->device, fixture->parameters, i));
    for (size_t i = 0; i <= TOKENS; i++)
        fixture->tokens[i] = (int32_t)random_below(3, i, VOCABULARY);
}

static void fixture_close(struct fixture *fixture)
{
    fixture->device->release(fixture->device, fixture->parameters);
    model_description_free(fixture->description);
    fixture->device->close(fixture->device);
}

static const double *read_next(struct decoder *decoder)
{
    const double *logits = NULL;
    struct error error = {0};
    if (decoder_read(decoder, &logits, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return logits;
}

static size_t largest(const double *logits)
{
    size_t best = 0;
    for (size_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* The losses of all tokens, as a forward pass leaves them. */
static void keep_losses(void *context, const struct model_turn *turn)
{
    if (!turn->begins && turn->type == WEFT_F64 && turn->count == CONTEXT)
        memcpy(context, turn->values, CONTEXT * sizeof(double));
}

static double loss_of(const double *logits, int32_t target)
{
    double total = 0;
    const double most = logits[largest(logits)];
    for (size_t i = 0; i < VOCABULARY; i++)
        total += exp(logits[i] - most);
    return log(total) + most - logits[target];
}

/* Token by token against the whole sequence at once: every logit within `tolerance` of the largest, the same likeliest
 * token, and the losses of a forward pass that trains. */
static void compare(const struct model_shape *shape, const char *device, double tolerance)
{
    struct fixture fixture;
    fixture_open(&fixture, shape, device);
    struct model *step = open_reader(&fixture, CONTEXT), *whole = open_reader(&fixture, CONTEXT), *training;
    struct decoder *decoder = open_decoder(&fixture, step);
    double at_once[VOCABULARY], losses[CONTEXT], mean, worst = 0, largest_of_all = 0;
    assert_int_equal(model_open(fixture.description, fixture.device,
                                &(struct model_options){.batch = 1, .sequence = CONTEXT, .training = true}, &training,
                                NULL),
                     WEFT_OK);
    model_watch(training, keep_losses, losses);
    assert_int_equal(model_forward(training, fixture.parameters,
                                   &(struct model_batch){.tokens = fixture.tokens, .targets = fixture.tokens + 1},
                                   &mean, NULL),
                     WEFT_OK);
    for (size_t t = 0; t < CONTEXT; t++) {
        assert_int_equal(decoder_append(decoder, &fixture.tokens[t], 1, NULL), WEFT_OK);
        const double *logits = read_next(decoder);
        assert_int_equal(model_extend(whole, fixture.parameters, 0, fixture.tokens, t + 1, at_once, NULL), WEFT_OK);
        double size = 0;
        for (size_t i = 0; i < VOCABULARY; i++)
            size = fmax(size, fabs(at_once[i]));
        for (size_t i = 0; i < VOCABULARY; i++)
            worst = fmax(worst, fabs(logits[i] - at_once[i]) / size);
        largest_of_all = fmax(largest_of_all, size);
        if (at_once[largest(at_once)] - at_once[largest(logits)] > tolerance * size)
            fail_msg("%s on %s: after token %zu the likeliest is %zu instead of %zu", shape->kind, device, t,
                     largest(logits), largest(at_once));
        const double loss = loss_of(logits, fixture.tokens[t + 1]);
        if (!(fabs(loss - losses[t]) <= 3 * tolerance * size))
            fail_msg("%s on %s: token %zu has a loss of %.9g instead of %.9g", shape->kind, device, t, loss, losses[t]);
    }
    printf("%s on %s: logits within %.1e of the largest, %.2g\n", shape->kind, device, worst, largest_of_all);
    if (!(worst <= tolerance))
        fail_msg("%s on %s: logits are off by %g of the largest", shape->kind, device, worst);
    decoder_close(decoder);
    model_close(step);
    model_close(whole);
    model_close(training);
    fixture_close(&fixture);
}

static void token_by_token_gives_the_logits_of_a_forward_pass(void **state)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        compare(&shapes[i], "reference", 1e-13);
        compare(&shapes[i], "cpu", 1e-5);
        compare(&shapes[i], "cpu-f16", 0.0025);
        if (__builtin_cpu_supports("avx512f"))
            compare(&shapes[i], "cpu-bf16", 0.02);
    }
}

/* ---- the same bits ---- */

/* Append and read tokens [first, end) one by one, and keep the logits after each. */
static void read_on(struct decoder *decoder, const int32_t *tokens, size_t first, size_t end,
                    double (*kept)[VOCABULARY])
{
    for (size_t t = first; t < end; t++) {
        assert_int_equal(decoder_append(decoder, &tokens[t], 1, NULL), WEFT_OK);
        memcpy(kept[t], read_next(decoder), sizeof *kept);
    }
}

/* What was read before, also beyond the window, leaves no trace; nor does how large the window is, as long as nothing
 * leaves it. */
static void going_back_gives_the_same_bits(void **state)
{
    enum { PROMPT = 11, END = 30 };
    static double first[TOKENS][VOCABULARY], again[TOKENS][VOCABULARY];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture fixture;
        fixture_open(&fixture, &shapes[i], "cpu");
        struct model *wide = open_reader(&fixture, CONTEXT), *narrow = open_reader(&fixture, END);
        struct decoder *decoder = open_decoder(&fixture, wide), *other = open_decoder(&fixture, narrow);
        assert_int_equal(decoder_append(decoder, fixture.tokens, PROMPT, NULL), WEFT_OK);
        memcpy(first[0], read_next(decoder), sizeof *first);
        read_on(decoder, fixture.tokens, PROMPT, END, first);
        assert_int_equal(decoder_forgotten(decoder), 0);
        for (int times = 0; times < 3; times++) {
            if (times == 1) /* well beyond the window in between */
                read_on(decoder, fixture.tokens, END, TOKENS, again);
            assert_int_equal(decoder_forgotten(decoder) > 0, times == 1);
            decoder_cut(decoder, PROMPT);
            assert_int_equal(decoder_length(decoder), PROMPT);
            assert_memory_equal(read_next(decoder), first[0], sizeof *first);
            read_on(decoder, fixture.tokens, PROMPT, END, again);
            assert_memory_equal(again[PROMPT], first[PROMPT], (END - PROMPT) * sizeof *first);
        }
        assert_int_equal(decoder_append(other, fixture.tokens, PROMPT, NULL), WEFT_OK);
        assert_memory_equal(read_next(other), first[0], sizeof *first);
        read_on(other, fixture.tokens, PROMPT, END, again);
        assert_memory_equal(again[PROMPT], first[PROMPT], (END - PROMPT) * sizeof *first);
        decoder_close(other);
        decoder_close(decoder);
        model_close(wide);
        model_close(narrow);
        fixture_close(&fixture);
    }
}

/* Beyond the window a token follows from the half of it that a fresh model would begin with. */
static void a_full_window_forgets_its_earlier_half(void **state)
{
    static double logits[TOKENS][VOCABULARY];
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct fixture fixture;
        fixture_open(&fixture, &shapes[i], "cpu");
        struct model *model = open_reader(&fixture, CONTEXT), *fresh = open_reader(&fixture, CONTEXT);
        struct decoder *decoder = open_decoder(&fixture, model), *other = open_decoder(&fixture, fresh);
        read_on(decoder, fixture.tokens, 0, CONTEXT, logits);
        assert_int_equal(decoder_forgotten(decoder), 0);
        read_on(decoder, fixture.tokens, CONTEXT, CONTEXT + 1, logits);
        const size_t begin = decoder_forgotten(decoder);
        assert_int_equal(begin, CONTEXT + 1 - CONTEXT / 2);
        assert_int_equal(decoder_append(other, fixture.tokens + begin, CONTEXT + 1 - begin, NULL), WEFT_OK);
        assert_memory_equal(read_next(other), logits[CONTEXT], sizeof *logits);
        for (size_t t = CONTEXT + 1; t < TOKENS; t++) {
            read_on(decoder, fixture.tokens, t, t + 1, logits);
            const size_t seen = decoder_length(decoder) - decoder_forgotten(decoder);
            assert_in_range(seen, CONTEXT / 2, CONTEXT);
        }
        decoder_close(other);

        /* Of a prompt that is too long the last window is read. */
        decoder_cut(decoder, 0);
        other = open_decoder(&fixture, fresh);
        assert_int_equal(decoder_append(decoder, fixture.tokens, TOKENS, NULL), WEFT_OK);
        assert_int_equal(decoder_append(other, fixture.tokens + TOKENS - CONTEXT, CONTEXT, NULL), WEFT_OK);
        assert_memory_equal(read_next(decoder), read_next(other), sizeof *logits);
        assert_int_equal(decoder_forgotten(decoder), TOKENS - CONTEXT);
        decoder_close(other);
        decoder_close(decoder);
        model_close(model);
        model_close(fresh);
        fixture_close(&fixture);
    }
}

static void what_cannot_be_read_is_told(void **state)
{
    struct fixture fixture;
    struct error error = {0};
    const double *logits;
    fixture_open(&fixture, &shapes[0], "cpu");
    struct model *model = open_reader(&fixture, CONTEXT);
    struct decoder *decoder = open_decoder(&fixture, model);
    assert_int_equal(decoder_read(decoder, &logits, NULL), WEFT_ERROR_ARGUMENT);
    assert_int_equal(decoder_append(decoder, &(int32_t){VOCABULARY}, 1, NULL), WEFT_OK);
    assert_int_equal(decoder_read(decoder, &logits, &error), WEFT_ERROR_DATA);
    assert_non_null(strstr(error.text, "vocabulary"));
    decoder_cut(decoder, 0);
    assert_int_equal(decoder_append(decoder, fixture.tokens, 3, NULL), WEFT_OK);
    assert_int_equal(decoder_read(decoder, &logits, &error), WEFT_OK);
    decoder_close(decoder);
    model_close(model);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_by_token_gives_the_logits_of_a_forward_pass),
        cmocka_unit_test(going_back_gives_the_same_bits),
        cmocka_unit_test(a_full_window_forgets_its_earlier_half),
        cmocka_unit_test(what_cannot_be_read_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
