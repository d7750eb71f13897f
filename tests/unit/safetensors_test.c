/* SPDX-License-Identifier: Apache-2.0 */
/* The safetensors format: what is written reads back, and whatever the reference implementation refuses is refused. */
#include "temporary.h"
#include "training/checkpoint/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *directory;

/* A safetensors file in memory: header text, then `data` zero bytes. */
static uint64_t make_file(uint8_t *bytes, const char *header, uint64_t told, uint64_t data)
{
    uint64_t length = strlen(header);
    memcpy(bytes, &told, 8);
    memcpy(bytes + 8, header, length);
    memset(bytes + 8 + length, 0, data);
    return 8 + length + data;
}

static weft_status parse(const char *header, uint64_t data, struct error *error)
{
    static uint8_t bytes[1 << 16];
    uint64_t size = make_file(bytes, header, strlen(header), data);
    /* A copy of exactly this size, so that the address sanitizer sees any step beyond its end. */
    uint8_t *exact = malloc(size);
    memcpy(exact, bytes, size);
    struct safetensors *file = NULL;
    weft_status status = safetensors_parse(exact, size, "'test'", &file, error);
    if (status == WEFT_OK)
        safetensors_close(file);
    else
        assert_null(file);
    free(exact);
    return status;
}

static void every_type_and_shape_reads_back(void **state)
{
    static uint64_t data[64];
    for (int i = 0; i < 64; i++)
        data[i] = 0x0102030405060708u * (unsigned)(i + 1);
    struct named_tensor tensors[WEFT_TYPES + 3];
    char names[WEFT_TYPES][16];
    for (int i = 0; i < WEFT_TYPES; i++) {
        snprintf(names[i], sizeof names[i], "t \"%d\\ é", i);
        tensors[i] = (struct named_tensor){names[i], (weft_type)i, 2, {3, 5}, 0, 0, data};
    }
    tensors[WEFT_TYPES] = (struct named_tensor){"scalar", WEFT_F32, 0, {0}, 0, 0, data};
    tensors[WEFT_TYPES + 1] = (struct named_tensor){"empty", WEFT_F32, 3, {2, 0, 7}, 0, 0, NULL};
    tensors[WEFT_TYPES + 2] = (struct named_tensor){"deep", WEFT_U8, 8, {1, 2, 1, 2, 1, 2, 1, 2}, 0, 0, data};
    struct file_digest digest;
    struct error error = {0};
    const char *path = temporary_path(directory, "all.safetensors");
    if (safetensors_write(path, tensors, WEFT_TYPES + 3, &digest, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    struct safetensors *file = NULL;
    if (safetensors_open(path, &file, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_int_equal(safetensors_count(file), WEFT_TYPES + 3);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    for (size_t i = 0; i < WEFT_TYPES + 3; i++) {
        size_t t = 0;
        while (strcmp(safetensors_tensor(file, t)->name, tensors[i].name) != 0)
            t++;
        const struct named_tensor *got = safetensors_tensor(file, t);
        assert_int_equal(got->type, tensors[i].type);
        assert_true(named_tensor_same_shape(got, &tensors[i]));
        assert_true(named_tensor_is_whole(got));
        uint64_t bytes = named_tensor_elements(got) * weft_type_size(got->type);
        assert_int_equal((uintptr_t)got->data % weft_type_size(got->type), 0);
        if (bytes)
            assert_memory_equal(got->data, data, bytes);
    }
    safetensors_close(file);
    char *content;
    size_t size;
    uint8_t sha256[SHA256_BYTES];
    assert_int_equal(file_read(path, 1 << 20, &content, &size, NULL), WEFT_OK);
    assert_int_equal(size, digest.bytes);
    assert_int_equal(sha256_of(content, size, sha256, NULL), WEFT_OK);
    assert_memory_equal(sha256, digest.sha256, sizeof sha256);
    free(content);
}

static void no_tensors_at_all(void **state)
{
    struct file_digest digest;
    struct safetensors *file = NULL;
    const char *path = temporary_path(directory, "none.safetensors");
    assert_int_equal(safetensors_write(path, NULL, 0, &digest, NULL), WEFT_OK);
    assert_int_equal(safetensors_open(path, &file, NULL), WEFT_OK);
    assert_int_equal(safetensors_count(file), 0);
    safetensors_close(file);
}

static void pieces_know_their_place(void **state)
{
    float data[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct named_tensor pieces[] = {
        {"matrix", WEFT_F32, 2, {4, 5}, 7, 10, data},
        {"nothing", WEFT_F32, 1, {5}, 5, 0, data},
    };
    struct file_digest digest;
    struct safetensors *file = NULL;
    const char *path = temporary_path(directory, "piece.safetensors");
    assert_int_equal(safetensors_write(path, pieces, 2, &digest, NULL), WEFT_OK);
    assert_int_equal(safetensors_open(path, &file, NULL), WEFT_OK);
    const struct named_tensor *got = safetensors_tensor(file, 0);
    assert_string_equal(got->name, "matrix");
    assert_true(named_tensor_same_shape(got, &pieces[0]));
    assert_int_equal(got->first, 7);
    assert_int_equal(named_tensor_held(got), 10);
    assert_memory_equal(got->data, data, sizeof data);
    assert_int_equal(named_tensor_held(safetensors_tensor(file, 1)), 0);
    safetensors_close(file);
}

static void bad_tensors_are_not_written(void **state)
{
    static float data[4];
    static const struct {
        struct named_tensor tensor;
        const char *word;
    } bad[] = {
        {{"", WEFT_F32, 1, {4}, 0, 0, data}, "not a valid name"},
        {{"__metadata__", WEFT_F32, 1, {4}, 0, 0, data}, "not a valid name"},
        {{"x", (weft_type)99, 1, {4}, 0, 0, data}, "type number 99"},
        {{"x", WEFT_F32, 9, {4}, 0, 0, data}, "9 dimensions"},
        {{"x", WEFT_F32, 2, {1ull << 40, 1ull << 40}, 0, 0, data}, "overflows"},
        {{"x", WEFT_F32, 1, {4}, 5, 0, data}, "do not exist"},
        {{"x", WEFT_F32, 1, {4}, 2, 3, data}, "do not exist"},
        {{"x", WEFT_F32, 1, {4}, 0, 0, NULL}, "no data"},
        {{"double", WEFT_F32, 1, {4}, 0, 0, data}, "two tensors"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct named_tensor tensors[2] = {bad[i].tensor, {"double", WEFT_I32, 1, {4}, 0, 0, data}};
        struct error error = {0};
        struct file_digest digest;
        const char *path = temporary_path(directory, "bad.safetensors");
        assert_int_equal(safetensors_write(path, tensors, 2, &digest, &error), WEFT_ERROR_ARGUMENT);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
        assert_false(file_exists(path));
    }
}

#define TENSOR(name, dtype, shape, offsets)                                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void good_headers(void **state)
{
    static const struct {
        const char *header;
        uint64_t data;
    } good[] = {
        {"{}", 0},
        {"{}      ", 0},
        {"{\"__metadata__\":{}}", 0},
        {"{\"__metadata__\":{\"a\":\"b\"}," TENSOR("x", "F32", "[2,3]", "[0,24]") "}", 24},
        {"{" TENSOR("x", "I64", "[]", "[0,8]") "}", 8},
        {"{" TENSOR("x", "U8", "[0,9]", "[0,0]") "}", 0},
        {"{" TENSOR("b", "U8", "[3]", "[1,4]") "," TENSOR("a", "U8", "[1]", "[0,1]") "}", 4},
        {"{" TENSOR("e", "U8", "[0]", "[1,1]") "," TENSOR("a", "U8", "[1]", "[0,1]") "," TENSOR("b", "U8", "[1]",
                                                                                                "[1,2]") "}",
         2},
        {"{" TENSOR("x", "F16", "[1]", "[0,2],\"more\":1") "}", 2},
        {"{" TENSOR("\xc3\xa9\xe2\x82\xac\xf0\x9f\xa7\xb5", "U8", "[1]", "[0,1]") "}", 1},
        {"{\"__metadata__\":{\"piece x\":\"3 2 5\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct error error = {0};
        if (parse(good[i].header, good[i].data, &error) != WEFT_OK)
            fail_msg("%s: %s", good[i].header, error.text);
    }
}

static void bad_headers(void **state)
{
    static const struct {
        const char *header;
        uint64_t data;
        const char *word;
    } bad[] = {
        {"", 0, "begin with '{'"},
        {" {}", 0, "begin with '{'"},
        {"[]", 0, "begin with '{'"},
        {"{", 0, "no valid JSON"},
        {"{}x", 0, "after its end"},
        {"{}{}", 0, "after its end"},
        {"{}", 1, "0 bytes of data"},
        {"{\"x\":1}", 0, "not described by an object"},
        {"{\"x\":{}}", 0, "lacks 'dtype'"},
        {"{\"\":{}}", 0, "no name"},
        {"{\"__metadata__\":[]}", 0, "not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "not a text"},
        {"{" TENSOR("x", "F33", "[1]", "[0,4]") "}", 4, "'F33'"},
        {"{" TENSOR("x", "f32", "[1]", "[0,4]") "}", 4, "'f32'"},
        {"{" TENSOR("x", "F32", "1", "[0,4]") "}", 4, "not an array"},
        {"{" TENSOR("x", "F32", "[-1]", "[0,4]") "}", 4, "not a whole number"},
        {"{" TENSOR("x", "F32", "[1.5]", "[0,4]") "}", 4, "not a whole number"},
        {"{" TENSOR("x", "F32", "[\"1\"]", "[0,4]") "}", 4, "not a whole number"},
        {"{" TENSOR("x", "F32", "[1e300]", "[0,4]") "}", 4, "not a whole number"},
        {"{" TENSOR("x", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "more than 8"},
        {"{" TENSOR("x", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows"},
        {"{" TENSOR("x", "F64", "[1073741824,2147483648]", "[0,0]") "}", 0, "overflows"},
        {"{" TENSOR("x", "F32", "[1]", "[0]") "}", 4, "not two whole numbers"},
        {"{" TENSOR("x", "F32", "[1]", "[0,4,8]") "}", 4, "not two whole numbers"},
        {"{" TENSOR("x", "F32", "[1]", "[0,-4]") "}", 4, "not two whole numbers"},
        {"{" TENSOR("x", "F32", "[1]", "[4,0]") "}", 4, "takes 4 bytes"},
        {"{" TENSOR("x", "F32", "[2]", "[0,4]") "}", 4, "takes 8 bytes"},
        {"{" TENSOR("x", "F32", "[1]", "[0,4]") "}", 3, "truncated"},
        {"{" TENSOR("x", "F32", "[1]", "[0,4]") "}", 5, "holds 5"},
        {"{" TENSOR("x", "F32", "[1]", "[4,8]") "}", 8, "a hole"},
        {"{" TENSOR("x", "U8", "[2]", "[0,2]") "," TENSOR("y", "U8", "[2]", "[1,3]") "}", 3, "an overlap"},
        {"{" TENSOR("x", "U8", "[2]", "[0,2]") "," TENSOR("y", "U8", "[2]", "[3,5]") "}", 5, "a hole"},
        {"{" TENSOR("x", "U8", "[1]", "[0,1]") "," TENSOR("x", "U8", "[1]", "[1,2]") "}", 2, "twice"},
        {"{" TENSOR("\xff", "U8", "[1]", "[0,1]") "}", 1, "byte 0xff"},
        {"{" TENSOR("\xc0\xaf", "U8", "[1]", "[0,1]") "}", 1, "byte 0xc0"},
        {"{" TENSOR("\xed\xa0\x80", "U8", "[1]", "[0,1]") "}", 1, "byte 0xed"},
        {"{\"\xe2\x82", 0, "byte 0xe2"},
        {"{" TENSOR("\x01", "U8", "[1]", "[0,1]") "}", 1, "byte 0x01"},
        {"{\"__metadata__\":{\"piece x\":\"7 2 5\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4, "outside its tensor"},
        {"{\"__metadata__\":{\"piece x\":\"\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4, "outside its tensor"},
        {"{\"__metadata__\":{\"piece x\":\"0 9\"}," TENSOR("x", "U8", "[2,2]", "[0,4]") "}", 4, "outside its tensor"},
        {"{\"__metadata__\":{\"piece x\":\"0 a\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4, "not understood"},
        {"{\"__metadata__\":{\"piece x\":\"0 1 1 1 1 1 1 1 1 1\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4,
         "not understood"},
        {"{\"__metadata__\":{\"piece x\":\"0 99999999999999999999\"}," TENSOR("x", "U8", "[4]", "[0,4]") "}", 4,
         "not understood"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        if (parse(bad[i].header, bad[i].data, &error) != WEFT_ERROR_DATA)
            fail_msg("taken: %s", bad[i].header);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
    }
}

static void bad_header_sizes(void **state)
{
    static const struct {
        uint64_t told;
        const char *word;
    } bad[] = {{3, "truncated"},
               {100000000, "truncated"},
               {100000001, "more than the allowed"},
               {UINT64_MAX, "more than the allowed"}};
    uint8_t bytes[16];
    struct safetensors *file = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error = {0};
        uint64_t size = make_file(bytes, "{}", bad[i].told, 0);
        assert_int_equal(safetensors_parse(bytes, size, "'test'", &file, &error), WEFT_ERROR_DATA);
        if (!strstr(error.text, bad[i].word))
            fail_msg("'%s' is not in: %s", bad[i].word, error.text);
    }
    for (uint64_t size = 0; size < 8; size++)
        assert_int_equal(safetensors_parse(bytes, size, "'test'", &file, NULL), WEFT_ERROR_DATA);
}

static void a_missing_file_is_named(void **state)
{
    struct error error = {0};
    struct safetensors *file = NULL;
    assert_int_equal(safetensors_open(temporary_path(directory, "nowhere"), &file, &error), WEFT_ERROR_SYSTEM);
    assert_non_null(strstr(error.text, "nowhere"));
}

int main(void)
{
    directory = temporary_directory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_shape_reads_back),
        cmocka_unit_test(no_tensors_at_all),
        cmocka_unit_test(pieces_know_their_place),
        cmocka_unit_test(bad_tensors_are_not_written),
        cmocka_unit_test(good_headers),
        cmocka_unit_test(bad_headers),
        cmocka_unit_test(bad_header_sizes),
        cmocka_unit_test(a_missing_file_is_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    file_remove_tree(directory, NULL);
    return failed;
}
