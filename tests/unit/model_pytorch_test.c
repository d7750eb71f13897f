/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss and gradients of small networks as PyTorch 1.13 computes them in double precision, from the same weights and
 * tokens. The tables are what model_pytorch.py prints.
 */
#include "../bert_support.h"
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

static const struct model_shape bert = {
    .kind = "bert", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY};
static const struct model_shape bert_classes = {
    .kind = "bert", .layers = 2, .heads = 2, .width = 16, .context = 12, .vocabulary = VOCABULARY, .classes = 3};

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
#define BERT_LOSS 4.04896446917353
static const struct expected expected_bert[] = {
    {"bert.embeddings.word_embeddings.weight", 0.385507948538684, -0.0299071091006029},
    {"bert.embeddings.position_embeddings.weight", 0.00882100363309672, 0.000736325296008655},
    {"bert.embeddings.token_type_embeddings.weight", 0.00733684674686078, -0.00239899597027454},
    {"bert.embeddings.LayerNorm.weight", 0.0291670185434053, 0.00815679773659967},
    {"bert.embeddings.LayerNorm.bias", 0.0192441552649658, 0.0206608401418904},
    {"bert.encoder.layer.0.attention.self.query.weight", 0.00318036351643599, 0.000343875173038846},
    {"bert.encoder.layer.0.attention.self.query.bias", 0.00180192108357548, -0.00253384206326799},
    {"bert.encoder.layer.0.attention.self.key.weight", 0.00234093777213837, 8.78308787740712e-05},
    {"bert.encoder.layer.0.attention.self.key.bias", 6.29748347024842e-19, 1.15159753792937e-19},
    {"bert.encoder.layer.0.attention.self.value.weight", 0.0268946678844609, 0.00650121550854813},
    {"bert.encoder.layer.0.attention.self.value.bias", 0.0153334316420752, -0.00924797092590363},
    {"bert.encoder.layer.0.attention.output.dense.weight", 0.0250053518303166, 0.00122003692251433},
    {"bert.encoder.layer.0.attention.output.dense.bias", 0.0106791452665939, 0.0115285576753255},
    {"bert.encoder.layer.0.attention.output.LayerNorm.weight", 0.039458190969404, -0.00122490194628911},
    {"bert.encoder.layer.0.attention.output.LayerNorm.bias", 0.0299352801640467, -0.0305450192300045},
    {"bert.encoder.layer.0.intermediate.dense.weight", 0.0432711786878125, -0.0229715190112445},
    {"bert.encoder.layer.0.intermediate.dense.bias", 0.0235323418354063, 0.00303965131750544},
    {"bert.encoder.layer.0.output.dense.weight", 0.0463081263140427, 0.0219764790451378},
    {"bert.encoder.layer.0.output.dense.bias", 0.0140257922426192, -0.0118307481876503},
    {"bert.encoder.layer.0.output.LayerNorm.weight", 0.0405985067252549, 0.0263458416470499},
    {"bert.encoder.layer.0.output.LayerNorm.bias", 0.0569369714925669, -0.030099187762546},
    {"bert.encoder.layer.1.attention.self.query.weight", 4.03175414075546e-05, 3.48825739195662e-05},
    {"bert.encoder.layer.1.attention.self.query.bias", 2.12081940162796e-05, -2.99737908928266e-05},
    {"bert.encoder.layer.1.attention.self.key.weight", 6.27148510177993e-05, -5.63520346113183e-05},
    {"bert.encoder.layer.1.attention.self.key.bias", 1.34551970597179e-18, 2.39028263525397e-18},
    {"bert.encoder.layer.1.attention.self.value.weight", 0.0731514292406226, -0.0249827106762283},
    {"bert.encoder.layer.1.attention.self.value.bias", 0.0371383132584964, 0.0210676479825385},
    {"bert.encoder.layer.1.attention.output.dense.weight", 0.0566693405477005, 0.00358145136358711},
    {"bert.encoder.layer.1.attention.output.dense.bias", 0.0383596988114282, -0.00450880412257292},
    {"bert.encoder.layer.1.attention.output.LayerNorm.weight", 0.0529365214234022, 0.00484797895297784},
    {"bert.encoder.layer.1.attention.output.LayerNorm.bias", 0.0568028028330468, 0.0114658808065952},
    {"bert.encoder.layer.1.intermediate.dense.weight", 0.0675082289022478, 0.169263836786352},
    {"bert.encoder.layer.1.intermediate.dense.bias", 0.0544467927841381, -0.044735360678058},
    {"bert.encoder.layer.1.output.dense.weight", 0.0727400981740747, 0.00929584141066186},
    {"bert.encoder.layer.1.output.dense.bias", 0.0480458164606808, 0.0144163910101055},
    {"bert.encoder.layer.1.output.LayerNorm.weight", 0.129063270932181, -0.103730438477769},
    {"bert.encoder.layer.1.output.LayerNorm.bias", 0.12874038864308, -0.137191699871733},
    {"bert.pooler.dense.weight", 0.0956999316364608, -0.0884216367503506},
    {"bert.pooler.dense.bias", 0.0642520617631169, 0.0595689820445112},
    {"cls.predictions.transform.dense.weight", 0.121473475221982, -0.0184775917850275},
    {"cls.predictions.transform.dense.bias", 0.084671227469065, 0.114839029230626},
    {"cls.predictions.transform.LayerNorm.weight", 0.424901353649265, 0.311422794901159},
    {"cls.predictions.transform.LayerNorm.bias", 0.561574953244821, -0.0629571350586694},
    {"cls.predictions.bias", 0.457017032615261, 0.703596460506862},
    {"cls.seq_relationship.weight", 0.119442870855576, -0.0809916813651877},
    {"cls.seq_relationship.bias", 0.0714688877585452, -0.0232313448116293},
};
#define BERT_CLASSES_LOSS 1.05890544122024
static const struct expected expected_bert_classes[] = {
    {"bert.embeddings.word_embeddings.weight", 0.0250761236397594, 0.0140614847766827},
    {"bert.embeddings.position_embeddings.weight", 0.0229354078834126, 0.00512576207446242},
    {"bert.embeddings.token_type_embeddings.weight", 0.0235305043598092, -0.00337687685990492},
    {"bert.embeddings.LayerNorm.weight", 0.0575075837500337, 0.053152982314397},
    {"bert.embeddings.LayerNorm.bias", 0.0718528309065544, 0.0185816898853043},
    {"bert.encoder.layer.0.attention.self.query.weight", 0.00161244813938554, 0.000126516394015672},
    {"bert.encoder.layer.0.attention.self.query.bias", 0.000874982576549901, -0.000626853730363674},
    {"bert.encoder.layer.0.attention.self.key.weight", 0.00160050239540594, 0.00109431493791415},
    {"bert.encoder.layer.0.attention.self.key.bias", 4.04985399594203e-19, 4.43493777375602e-19},
    {"bert.encoder.layer.0.attention.self.value.weight", 0.0735874112401649, -0.0183633862225698},
    {"bert.encoder.layer.0.attention.self.value.bias", 0.044532798867388, -0.0145189929537786},
    {"bert.encoder.layer.0.attention.output.dense.weight", 0.0753963347943582, 0.0205301776590423},
    {"bert.encoder.layer.0.attention.output.dense.bias", 0.0347512521629112, -0.0279231035864604},
    {"bert.encoder.layer.0.attention.output.LayerNorm.weight", 0.105919755851812, 0.0418388543288754},
    {"bert.encoder.layer.0.attention.output.LayerNorm.bias", 0.105139771281175, -0.137685435305609},
    {"bert.encoder.layer.0.intermediate.dense.weight", 0.160383873078114, -0.0236802012707615},
    {"bert.encoder.layer.0.intermediate.dense.bias", 0.0896456977497209, 0.0788657578393182},
    {"bert.encoder.layer.0.output.dense.weight", 0.174938785384498, -0.0780796729249939},
    {"bert.encoder.layer.0.output.dense.bias", 0.0532977504459784, -0.0495615362861916},
    {"bert.encoder.layer.0.output.LayerNorm.weight", 0.157061839900086, -0.0142661724258995},
    {"bert.encoder.layer.0.output.LayerNorm.bias", 0.299450713109787, 0.012932478482031},
    {"bert.encoder.layer.1.attention.self.query.weight", 0.000204163336081227, 0.000181557076600883},
    {"bert.encoder.layer.1.attention.self.query.bias", 0.000105292016912044, 2.74218344171564e-05},
    {"bert.encoder.layer.1.attention.self.key.weight", 0.000312662356916465, -0.000158931545218869},
    {"bert.encoder.layer.1.attention.self.key.bias", 1.0371821649426e-18, -2.50272181694866e-19},
    {"bert.encoder.layer.1.attention.self.value.weight", 0.319748792072958, -0.0854167839356007},
    {"bert.encoder.layer.1.attention.self.value.bias", 0.166614369215006, 0.0967070760699474},
    {"bert.encoder.layer.1.attention.output.dense.weight", 0.193368548892598, -0.0390279901336896},
    {"bert.encoder.layer.1.attention.output.dense.bias", 0.148417604366043, 0.00572044104461104},
    {"bert.encoder.layer.1.attention.output.LayerNorm.weight", 0.191706987251955, -0.274596092045856},
    {"bert.encoder.layer.1.attention.output.LayerNorm.bias", 0.292868359763332, 0.35645383142247},
    {"bert.encoder.layer.1.intermediate.dense.weight", 0.226239922569073, -0.166539482444794},
    {"bert.encoder.layer.1.intermediate.dense.bias", 0.205471557346837, 0.0713095098741013},
    {"bert.encoder.layer.1.output.dense.weight", 0.267809477511359, -0.0464455162962428},
    {"bert.encoder.layer.1.output.dense.bias", 0.177051145407854, 0.0939243249364209},
    {"bert.encoder.layer.1.output.LayerNorm.weight", 0.352887414210862, 0.286576413096141},
    {"bert.encoder.layer.1.output.LayerNorm.bias", 0.369078399864941, -0.0445308067185274},
    {"bert.pooler.dense.weight", 0.395940734296894, -0.175269552768659},
    {"bert.pooler.dense.bias", 0.276437324150989, 0.131998977685428},
    {"classifier.weight", 0.61214629717471, -0.514357928709232},
    {"classifier.bias", 0.366932966330971, -0.0503187473184708},
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
    struct bert_sample_arrays samples;
    struct model_batch batch = {.tokens = tokens, .targets = tokens + 1};
    if (strcmp(shape->kind, "bert") == 0)
        batch = bert_batch_make(&samples, 300, BATCH, SEQUENCE, VOCABULARY, shape->classes);
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
        if (!(error <= tolerance * fmax(expected[i].norm, 0.01))) /* a bias of all keys changes nothing */
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
    compare(&bert, BERT_LOSS, expected_bert, COUNT(expected_bert), "reference", 1e-12);
    compare(&bert_classes, BERT_CLASSES_LOSS, expected_bert_classes, COUNT(expected_bert_classes), "reference", 1e-12);
}

/* To what eight bits of activations leave, or eleven. */
static void mixed_precision_agrees_with_pytorch(void **state)
{
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu-bf16", 0.03);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu-bf16", 0.03);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu-bf16", 0.03);
    compare(&bert, BERT_LOSS, expected_bert, COUNT(expected_bert), "cpu-bf16", 0.1);
    compare(&bert_classes, BERT_CLASSES_LOSS, expected_bert_classes, COUNT(expected_bert_classes), "cpu-bf16", 0.1);
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu-f16", 0.004);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu-f16", 0.004);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu-f16", 0.004);
    compare(&bert, BERT_LOSS, expected_bert, COUNT(expected_bert), "cpu-f16", 0.0125);
    compare(&bert_classes, BERT_CLASSES_LOSS, expected_bert_classes, COUNT(expected_bert_classes), "cpu-f16", 0.0125);
}

static void the_fast_device_agrees_with_pytorch(void **state)
{
    compare(&gpt, GPT_LOSS, expected_gpt, COUNT(expected_gpt), "cpu", 1e-5);
    compare(&llama, LLAMA_LOSS, expected_llama, COUNT(expected_llama), "cpu", 1e-5);
    compare(&mlp, MLP_LOSS, expected_mlp, COUNT(expected_mlp), "cpu", 1e-5);
    compare(&bert, BERT_LOSS, expected_bert, COUNT(expected_bert), "cpu", 1e-5);
    compare(&bert_classes, BERT_CLASSES_LOSS, expected_bert_classes, COUNT(expected_bert_classes), "cpu", 1e-5);
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
