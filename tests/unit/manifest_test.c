/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest says all that is needed, or is refused with the reason. */
#include "training/checkpoint/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define FILES  "\"files\":[{\"name\":\"model.safetensors\",\"bytes\":3,\"sha256\":\"" DIGEST "\"}]"
#define STATE  "\"step\":1,\"position\":2,\"seed\":3,\"model\":{}"
#define HEAD   "\"format\":\"weft-checkpoint\",\"version\":1,\"library\":\"0.1.0\""

/* Seal and parse a body: a JSON object without its closing bracket. */
static weft_status parse(const char *body, struct manifest *manifest, struct error *error)
{
    char *text = NULL;
    assert_int_equal(manifest_seal(body, strlen(body), &text, NULL), WEFT_OK);
    weft_status status = manifest_parse(text, strlen(text), "'m'", manifest, error);
    free(text);
    return status;
}

static void what_is_written_reads_back(void **state)
{
    cJSON *model = cJSON_Parse("{\"kind\":\"gpt\",\"layers\":[1,2]}"), *training = cJSON_Parse("{\"rate\":0.1}");
    struct checkpoint_state written = {UINT64_MAX, 1ull << 60, 7, model, training, false};
    struct checkpoint_record records[2] = {{"model-00001-of-00002.safetensors", {1ull << 55, {1, 2, 255}}},
                                           {"model-00002-of-00002.safetensors", {0, {0}}}};
    char *text = NULL;
    struct manifest read;
    assert_int_equal(manifest_format(&written, records, 2, &text, NULL), WEFT_OK);
    assert_int_equal(manifest_parse(text, strlen(text), "'m'", &read, NULL), WEFT_OK);
    assert_true(read.state.step == UINT64_MAX && read.state.position == 1ull << 60 && read.state.seed == 7);
    assert_true(cJSON_Compare(read.state.model, model, true) && cJSON_Compare(read.state.training, training, true));
    assert_string_equal(read.library, weft_version());
    assert_int_equal(read.count, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(read.records[i].name, records[i].name);
        assert_memory_equal(&read.records[i].digest, &records[i].digest, sizeof records[i].digest);
    }
    manifest_free(&read);
    free(text);
    cJSON_Delete(model);
    cJSON_Delete(training);
}

static void training_may_be_missing(void **state)
{
    struct manifest manifest;
    assert_int_equal(parse("{" HEAD "," STATE "," FILES, &manifest, NULL), WEFT_OK);
    assert_null(manifest.state.training);
    manifest_free(&manifest);
}

static void bad_manifests(void **state)
{
    static const struct {
        const char *body, *word;
    } bad[] = {
        {"", "no valid JSON"},
        {"[1", "no valid JSON"},
        {"{\"x\":1", "lacks 'format'"},
        {"{\"format\":\"other\"", "format 'other'"},
        {"{\"format\":\"weft-checkpoint\"", "lacks 'version'"},
        {"{\"format\":\"weft-checkpoint\",\"version\":2", "has version 2, but this Weft"},
        {"{\"format\":\"weft-checkpoint\",\"version\":1", "lacks 'library'"},
        {"{" HEAD, "lacks 'step'"},
        {"{" HEAD ",\"step\":-1", "'step' in 'm' is not"},
        {"{" HEAD ",\"step\":1", "lacks 'position'"},
        {"{" HEAD ",\"step\":1,\"position\":2", "lacks 'seed'"},
        {"{" HEAD ",\"step\":1,\"position\":2,\"seed\":3", "lacks 'model'"},
        {"{" HEAD "," STATE ",\"training\":1", "'training' in 'm' is not an object"},
        {"{" HEAD "," STATE, "lacks 'files'"},
        {"{" HEAD "," STATE ",\"files\":[]", "lists no files"},
        {"{" HEAD "," STATE ",\"files\":[1]", "lacks 'name'"},
        {"{" HEAD "," STATE ",\"files\":[{\"name\":\"model.safetensors\"}]", "lacks 'bytes'"},
        {"{" HEAD "," STATE ",\"files\":[{\"name\":\"../model.safetensors\",\"bytes\":3,\"sha256\":\"" DIGEST "\"}]",
         "not a valid name for"},
        {"{" HEAD "," STATE ",\"files\":[{\"name\":\".safetensors\",\"bytes\":3,\"sha256\":\"" DIGEST "\"}]",
         "not a valid name for"},
        {"{" HEAD "," STATE ",\"files\":[{\"name\":\"m.safetensors\",\"bytes\":3,\"sha256\":\"ba78\"}]",
         "not 64 hexadecimal"},
        {"{" HEAD "," STATE ",\"files\":[{\"name\":\"m.safetensors\",\"bytes\":3,\"sha256\":\"" DIGEST "\"},"
         "{\"name\":\"m.safetensors\",\"bytes\":3,\"sha256\":\"" DIGEST "\"}]",
         "twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct manifest manifest;
        struct error error = {0};
        if (parse(bad[i].body, &manifest, &error) != WEFT_ERROR_DATA)
            fail_msg("taken: %s", bad[i].body);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
    }
}

static void a_configuration_is_an_object(void **state)
{
    cJSON *number = cJSON_CreateNumber(1), *object = cJSON_CreateObject();
    struct checkpoint_record record = {.name = "model.safetensors"};
    struct error error = {0};
    char *text = NULL;
    assert_int_equal(manifest_format(&(struct checkpoint_state){.model = number}, &record, 1, &text, &error),
                     WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "model"));
    error_clear(&error);
    assert_int_equal(
        manifest_format(&(struct checkpoint_state){.model = object, .training = number}, &record, 1, &text, &error),
        WEFT_ERROR_ARGUMENT);
    assert_non_null(strstr(error.text, "training"));
    assert_null(text);
    cJSON_Delete(number);
    cJSON_Delete(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(training_may_be_missing),
        cmocka_unit_test(bad_manifests),
        cmocka_unit_test(a_configuration_is_an_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
