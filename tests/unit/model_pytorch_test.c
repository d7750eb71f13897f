/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss and gradients of small networks as PyTorch 1.13 computes them in double precision, from the same weights and
 * tokens. The tables are what model_pytorch.py prints.
 */
#include "training/model/model.h"

#include "tensor_support.h"

#define BATCH      2
#define SEQUENCE   9
#define VOCABULARY 29

static const struct model_shape gpt = {
    .kind = "gpt", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape llama = {.kind = "llama",
                                         .layers = 2,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .width = 16,
                                         .hidden = 24,
                                         .context = 12,
                                         .vocabulary = VOCABULARY,
                                         .rotary_base = 100,
                                         .untied = true};
static const struct model_shape mlp = {
    .kind = "mlp", .layers = 2, .width = 6, .window = 4, .hidden = 20, .context = 12, .vocabulary = VOCABULARY};

struct expected {
    const char *name;
    double norm; /* of the tensor's gradient */
    double wave; /* its product with cos(0), cos(1), ... */
};

#define GPT_LOSS 3.49462981461572
static const struct expected expected_gpt[] = {
    {"wte.weight", 0.341825945835657, 0.304992438100115},
    {"wpe.weight", 0.0580786338735768, -0.0345902630163773},
    {"h.0.ln_1.weight", 0.0323885426240704, 0.0302260769172085},
    {"h.0.ln_1.bias", 0.0602897458951831, 0.0239701199641867},
    {"h.0.attn.c_attn.weight", 0.0550283587304858, 0.0245802135405193},
    {"h.0.attn.c_attn.bias", 0.0596770333410509, -0.0308583483150198},
    {"h.0.attn.c_proj.weight", 0.118383145861233, 0.0308556557774863},
    {"h.0.attn.c_proj.bias", 0.0616197164158516, -0.0348095451658035},
    {"h.0.ln_2.weight", 0.103014550957917, -0.000177106557345305},
    {"h.0.ln_2.bias", 0.099366898857639, 0.125616641348718},
    {"h.0.mlp.c_fc.weight", 0.123191640350906, -0.0373544781068424},
    {"h.0.mlp.c_fc.bias", 0.062599244218033, 0.0346924867653917},
    {"h.0.mlp.c_proj.weight", 0.184211455392691, -0.102497934320842},
    {"h.0.mlp.c_proj.bias", 0.043066475222835, -0.0234982526464525},
    {"h.1.ln_1.weight", 0.0296363163325886, -0.0230364664342037},
    {"h.1.ln_1.bias", 0.0425506658381084, -0.0030711192894372},
    {"h.1.attn.c_attn.weight", 0.0775466092463084, 0.0091355009571195},
    {"h.1.attn.c_attn.bias", 0.0389541089960379, 0.00635180295404511},
    {"h.1.attn.c_proj.weight", 0.0849105472280574, 0.104093242390473},
    {"h.1.attn.c_proj.bias", 0.0404773749255026, -0.0257715805282457},
    {"h.1.ln_2.weight", 0.0544761783204843, 0.0128783666486326},
    {"h.1.ln_2.bias", 0.0672245697291559, -0.112655835160832},
    {"h.1.mlp.c_fc.weight", 0.0804376379969074, -0.000467233172907422},
    {"h.1.mlp.c_fc.bias", 0.0470534097755173, 0.00344014772999644},
    {"h.1.mlp.c_proj.weight", 0.0825296299233946, -0.0260861307383341},
    {"h.1.mlp.c_proj.bias", 0.0379679267507878, -0.0210418672338697},
    {"ln_f.weight", 0.304483997377284, -0.0877989154600036},
    {"ln_f.bias", 0.282685107761567, 0.182957965718385},
};
#define LLAMA_LOSS 3.37557805068323
static const struct expected expected_llama[] = {
    {"model.embed_tokens.weight", 0.389117647483752, -0.0541694429908132},
    {"model.layers.0.input_layernorm.weight", 0.11872331802924, -0.0694821033734521},
    {"model.layers.0.self_attn.q_proj.weight", 0.0189214452329608, -0.0155199352524797},
    {"model.layers.0.self_attn.k_proj.weight", 0.0233437532468152, 0.00462100136182459},
    {"model.layers.0.self_attn.v_proj.weight", 0.147885504109264, 0.0795084480843331},
    {"model.layers.0.self_attn.o_proj.weight", 0.135161099472, 0.0168186242661604},
    {"model.layers.0.post_attention_layernorm.weight", 0.137772855033262, -0.0173585083243734},
    {"model.layers.0.mlp.gate_proj.weight", 0.0960290217319428, 0.0377362999912523},
    {"model.layers.0.mlp.up_proj.weight", 0.0913917398830171, 0.0255985865541756},
    {"model.layers.0.mlp.down_proj.weight", 0.0884182814952938, 0.0247498501452846},
    {"model.layers.1.input_layernorm.weight", 0.131413448985874, -0.110730212859372},
    {"model.layers.1.self_attn.q_proj.weight", 0.0102941578506505, -0.005028896202375},
    {"model.layers.1.self_attn.k_proj.weight", 0.00837487023155926, -0.000227469149258337},
    {"model.layers.1.self_attn.v_proj.weight", 0.100778809037504, -0.0445134787766946},
    {"model.layers.1.self_attn.o_proj.weight", 0.102386549299328, -0.0297821153156283},
    {"model.layers.1.post_attention_layernorm.weight", 0.0906943957815276, -0.0897518241332576},
    {"model.layers.1.mlp.gate_proj.weight", 0.0243866094091748, -0.030835846627764},
    {"model.layers.1.mlp.up_proj.weight", 0.0312839081931804, 0.00950697545355569},
    {"model.layers.1.mlp.down_proj.weight", 0.0227270917027091, -0.00179063406941984},
    {"model.norm.weight", 0.317327994909537, 0.541614953614327},
    {"lm_head.weight", 0.333553747590774, -0.0774967937205873},
};
#define MLP_LOSS 3.48186684333083
static const struct expected expected_mlp[] = {
    {"embedding.weight", 0.180144360934955, 0.047151868392579},
    {"hidden.0.norm.weight", 0.0681289587620435, -0.0705378239731597},
    {"hidden.0.norm.bias", 0.0918262253504405, 0.0821573271567822},
    {"hidden.0.weight", 0.126714548686247, -0.0941825527225883},
    {"hidden.0.bias", 0.0851099478265445, 0.00555322900939722},
    {"hidden.1.norm.weight", 0.0972225876813694, 0.0750492310350789},
    {"hidden.1.norm.bias", 0.156515788953856, 0.0731319949883463},
    {"hidden.1.weight", 0.221714775838555, 0.112994097020728},
    {"hidden.1.bias", 0.111580536301389, 0.0680668129807429},
    {"norm.weight", 0.264381796162156, 0.0123269377663082},
    {"norm.bias", 0.372803409665624, -0.310235174343782},
    {"head.weight", 0.322063121403615, 0.0475582857239452},
};
static void compare(const struct model_shape *shape, double expected_loss, const struct expected *expected,
                    size_t count, const char *name, double tolerance)
{
    struct device *device = open_device(name, 1);
    struct model_description *description;
    struct model *model;
    assert_int_equal(model_describe(shape, &description, NULL), WEFT_OK);
    assert_int_equal(model_open(description, device,
                                &(struct model_options){.batch = BATCH, .sequence = SEQUENCE, .training = true}, &model,
                                NULL),
                     WEFT_OK);
    void *parameters = make_array(device, description->elements),
         *gradients = make_array(device, description->gradient_elements);
    for (size_t i = 0; i < description->parameter_count; i++)
        for (size_t k = 0; k < description->parameters[i].count; k++)
            put(device, parameters, description->parameters[i].offset + k, 0.3 * random_normal(i, k));
    int32_t tokens[BATCH * SEQUENCE + 1];
    for (size_t i = 0; i <= BATCH * SEQUENCE; i++)
        tokens[i] = (int32_t)random_below(99, i, VOCABULARY);

    double loss;
    struct model_batch batch = {.tokens = tokens, .targets = tokens + 1};
    assert_int_equal(model_forward(model, parameters, &batch, &loss, NULL), WEFT_OK);
    assert_int_equal(model_backward(model, parameters, gradients, NULL, NULL, NULL), WEFT_OK);
    assert_true(fabs(loss - expected_loss) <= tolerance * expected_loss);
    assert_int_equal(description->parameter_count, count);
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        double square = 0, wave = 0;
        for (size_t k = 0; k < parameter->count; k++) {
            double gradient = get(device, gradients, parameter->offset + k);
            square += gradient * gradient;
            wave += gradient * cos((double)k);
        }
        assert_string_equal(parameter->name, expected[i].name);
        double error = fmax(fabs(sqrt(square) - expected[i].norm), fabs(wave - expected[i].wave));
        if (!(error <= tolerance * expected[i].norm))
            fail_msg("%s on %s: relative error %g", parameter->name, name, error / expected[i].norm);
    }
    device->release(device, parameters);
    device->release(device, gradients);
    model_close(model);
    model_description_free(description);
    device->close(device);
}

#define COUNT(table) (sizeof(table) / sizeof *(table))

static void the_reference_device_agrees_with_pytorch(void **state)
{
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "reference", 1e-12);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "reference", 1e-12);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "reference", 1e-12);
}

/* To what eight bits of activations leave, or eleven. */
static void mixed_precision_agrees_with_pytorch(void **state)
{
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu-bf16", 0.03);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu-bf16", 0.03);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu-bf16", 0.03);
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu-f16", 0.004);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu-f16", 0.004);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu-f16", 0.004);
}

static void the_fast_device_agrees_with_pytorch(void **state)
{
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu", 1e-5);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu", 1e-5);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu", 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_device_agrees_with_pytorch),
        cmocka_unit_test(the_fast_device_agrees_with_pytorch),
        cmocka_unit_test(mixed_precision_agrees_with_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
