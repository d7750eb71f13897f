/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a safetensors file: every check of the reference implementation, before any value is used. */
#include "base/file/file.h"
#include "base/format/json.h"
#include "training/checkpoint/safetensors.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MOST ((uint64_t)100000000)

struct safetensors {
    struct file_map map; /* empty after safetensors_parse() */
    cJSON *header;       /* owns the names */
    const cJSON *metadata;
    struct named_tensor *tensors;
    size_t count;
    char where[]; /* names it in messages */
};

/* Where a tensor's elements lie, while the header is being read. */
struct safetensors_read_place {
    struct named_tensor tensor;
    uint64_t begin, end;
};

static const char *const type_names[WEFT_TYPES] = {
    [WEFT_F32] = "F32", [WEFT_F64] = "F64", [WEFT_F16] = "F16",   [WEFT_BF16] = "BF16",
    [WEFT_I8] = "I8",   [WEFT_U8] = "U8",   [WEFT_I32] = "I32",   [WEFT_U32] = "U32",
    [WEFT_I64] = "I64", [WEFT_U64] = "U64", [WEFT_BOOL] = "BOOL",
};

const char *safetensors_type_name(weft_type type)
{
    return (unsigned)type < WEFT_TYPES ? type_names[type] : "unknown";
}

/* ---- the header as text ---- */

/* The length of the UTF-8 character (RFC 3629) at `text`, which has `left` bytes; 0 if it is invalid. */
static unsigned character_bytes(const uint8_t *text, uint64_t left)
{
    uint8_t first = text[0];
    if (first < 0x80)
        return 1;
    unsigned bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < bytes)
        return 0;
    uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (text[1] < least || text[1] > most)
        return 0;
    for (unsigned i = 2; i < bytes; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return bytes;
}

/* The first byte that no JSON text in UTF-8 has at its place; `size` if there is none. */
static uint64_t find_bad_byte(const uint8_t *text, uint64_t size)
{
    for (uint64_t i = 0; i < size;) {
        bool control = text[i] < 0x20 && text[i] != '\t' && text[i] != '\n' && text[i] != '\r';
        unsigned bytes = control ? 0 : character_bytes(text + i, size - i);
        if (bytes == 0)
            return i;
        i += bytes;
    }
    return size;
}

/* Find the header's text and parse it. */
static weft_status safetensors_read_header(const uint8_t *bytes, uint64_t size, const char *where, cJSON **header,
                                           uint64_t *header_size, struct error *error)
{
    if (size < 8)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s is not a safetensors file: it has %" PRIu64 " bytes, less than the 8 of the header's size",
                         where, size);
    uint64_t told;
    memcpy(&told, bytes, 8);
    told = le64toh(told);
    if (told > HEADER_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s is not a safetensors file: its header would have %" PRIu64
                         " bytes, more than the allowed %" PRIu64,
                         where, told, HEADER_MOST);
    if (told > size - 8)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s is truncated: its header has %" PRIu64 " bytes, but only %" PRIu64 " follow", where, told,
                         size - 8);
    const uint8_t *text = bytes + 8;
    if (told == 0 || text[0] != '{')
        return error_set(error, WEFT_ERROR_DATA, "%s is not a safetensors file: its header does not begin with '{'",
                         where);
    uint64_t bad = find_bad_byte(text, told);
    if (bad < told)
        return error_set(error, WEFT_ERROR_DATA,
                         "the header of %s has byte 0x%02x at %" PRIu64 ", where UTF-8 text has none", where, text[bad],
                         bad);
    char what[FILE_PATH_BYTES + 64];
    snprintf(what, sizeof what, "the header of %s", where);
    *header_size = told;
    return json_parse((const char *)text, told, what, header, error);
}

/* ---- one tensor ---- */

/* The whole number that `item` is, exactly. */
static bool whole_number(const cJSON *item, uint64_t *number)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= (double)JSON_EXACT) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *number = (uint64_t)item->valuedouble;
    return true;
}

static weft_status read_type(const cJSON *entry, const char *where, weft_type *type, struct error *error)
{
    const char *name;
    weft_status status = json_get_text(entry, "dtype", where, &name, error);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < WEFT_TYPES; i++) {
        if (strcmp(name, type_names[i]) == 0) {
            *type = (weft_type)i;
            return WEFT_OK;
        }
    }
    return error_set(error, WEFT_ERROR_DATA, "%s has element type '%s', which Weft does not know", where, name);
}

static weft_status read_shape(const cJSON *entry, const char *where, struct named_tensor *tensor, struct error *error)
{
    const cJSON *shape;
    weft_status status = json_get_array(entry, "shape", where, &shape, error);
    if (status != WEFT_OK)
        return status;
    for (const cJSON *item = shape->child; item; item = item->next) {
        if (tensor->dimensions == NAMED_TENSOR_DIMENSIONS)
            return error_set(error, WEFT_ERROR_DATA, "%s has more than %d dimensions", where, NAMED_TENSOR_DIMENSIONS);
        if (!whole_number(item, &tensor->shape[tensor->dimensions]))
            return error_set(error, WEFT_ERROR_DATA, "dimension %u of %s is not a whole number", tensor->dimensions,
                             where);
        tensor->dimensions++;
    }
    return WEFT_OK;
}

static weft_status read_offsets(const cJSON *entry, const char *where, struct safetensors_read_place *place,
                                struct error *error)
{
    const cJSON *offsets;
    weft_status status = json_get_array(entry, "data_offsets", where, &offsets, error);
    if (status != WEFT_OK)
        return status;
    const cJSON *begin = offsets->child, *end = begin ? begin->next : NULL;
    if (!end || end->next || !whole_number(begin, &place->begin) || !whole_number(end, &place->end))
        return error_set(error, WEFT_ERROR_DATA, "the data offsets of %s are not two whole numbers", where);
    return WEFT_OK;
}

/* "piece NAME": "FIRST D0 D1 ...": what is stored flat is elements FIRST and following of a tensor of that shape. */
static weft_status safetensors_read_piece(const char *text, const char *where, struct named_tensor *tensor,
                                          struct error *error)
{
    struct named_tensor whole = *tensor;
    uint64_t numbers[NAMED_TENSOR_DIMENSIONS + 1] = {0};
    unsigned count = 0;
    for (const char *next = text; *next; count++) {
        char *end;
        errno = 0;
        unsigned long long number = count <= NAMED_TENSOR_DIMENSIONS ? strtoull(next, &end, 10) : 0;
        if (count > NAMED_TENSOR_DIMENSIONS || *next < '0' || *next > '9' || errno || (*end && *end != ' '))
            return error_set(error, WEFT_ERROR_DATA, "%s is a piece, but its place '%s' is not understood", where,
                             text);
        numbers[count] = number;
        next = *end ? end + 1 : end;
    }
    whole.dimensions = count ? count - 1 : 0;
    memcpy(whole.shape, numbers + 1, sizeof whole.shape);
    whole.first = numbers[0];
    whole.count = tensor->shape[0];
    uint64_t elements = named_tensor_elements(&whole);
    if (tensor->dimensions != 1 || count == 0 || elements == UINT64_MAX || whole.first > elements ||
        whole.count > elements - whole.first)
        return error_set(error, WEFT_ERROR_DATA, "%s is a piece that lies outside its tensor (its place is '%s')",
                         where, text);
    *tensor = whole;
    return WEFT_OK;
}

static weft_status safetensors_read_tensor(const struct safetensors *file, const cJSON *entry, const char *where_file,
                                           struct safetensors_read_place *place, struct error *error)
{
    char where[FILE_PATH_BYTES + 256], key[512];
    snprintf(where, sizeof where, "tensor '%.200s' of %s", entry->string, where_file);
    struct named_tensor *tensor = &place->tensor;
    tensor->name = entry->string;
    if (!*entry->string)
        return error_set(error, WEFT_ERROR_DATA, "a tensor of %s has no name", where_file);
    if (!cJSON_IsObject(entry))
        return error_set(error, WEFT_ERROR_DATA, "%s is not described by an object", where);
    weft_status status = read_type(entry, where, &tensor->type, error);
    if (status == WEFT_OK)
        status = read_shape(entry, where, tensor, error);
    if (status == WEFT_OK)
        status = read_offsets(entry, where, place, error);
    if (status != WEFT_OK)
        return status;
    uint64_t elements = named_tensor_elements(tensor), bytes;
    char shape[256];
    if (elements == UINT64_MAX || __builtin_mul_overflow(elements, weft_type_size(tensor->type), &bytes))
        return error_set(error, WEFT_ERROR_DATA, "%s has a shape that overflows: %s", where,
                         named_tensor_shape_text(tensor, shape, sizeof shape));
    if (place->end < place->begin || place->end - place->begin != bytes)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s has data from %" PRIu64 " to %" PRIu64 ", but its shape %s of %s takes %" PRIu64 " bytes",
                         where, place->begin, place->end, named_tensor_shape_text(tensor, shape, sizeof shape),
                         type_names[tensor->type], bytes);
    snprintf(key, sizeof key, "piece %s", entry->string);
    const char *piece = safetensors_metadata(file, key);
    return piece ? safetensors_read_piece(piece, where, tensor, error) : WEFT_OK;
}

/* ---- the file ---- */

static weft_status read_metadata(struct safetensors *file, const char *where, struct error *error)
{
    file->metadata = cJSON_GetObjectItemCaseSensitive(file->header, "__metadata__");
    if (!file->metadata)
        return WEFT_OK;
    if (!cJSON_IsObject(file->metadata))
        return error_set(error, WEFT_ERROR_DATA, "'__metadata__' of %s is not an object", where);
    for (const cJSON *item = file->metadata->child; item; item = item->next)
        if (!cJSON_IsString(item))
            return error_set(error, WEFT_ERROR_DATA, "'%.200s' in '__metadata__' of %s is not a text", item->string,
                             where);
    return WEFT_OK;
}

static int by_offset(const void *left, const void *right)
{
    const struct safetensors_read_place *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

static int safetensors_read_by_name(const void *left, const void *right)
{
    return strcmp(((const struct safetensors_read_place *)left)->tensor.name,
                  ((const struct safetensors_read_place *)right)->tensor.name);
}

/* Check that all places touch and fill `data_size` bytes, no name is there twice; leaves them in the order of the data.
 */
static weft_status check_places(struct safetensors_read_place *places, size_t count, uint64_t data_size,
                                const char *where, struct error *error)
{
    qsort(places, count, sizeof *places, safetensors_read_by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(places[i - 1].tensor.name, places[i].tensor.name) == 0)
            return error_set(error, WEFT_ERROR_DATA, "%s has tensor '%.200s' twice", where, places[i].tensor.name);
    qsort(places, count, sizeof *places, by_offset);
    uint64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        if (places[i].begin != end)
            return error_set(error, WEFT_ERROR_DATA,
                             "the data of tensor '%.200s' of %s begins at %" PRIu64
                             ", but what comes before it ends at %" PRIu64 "; there is %s",
                             places[i].tensor.name, where, places[i].begin, end,
                             places[i].begin < end ? "an overlap" : "a hole");
        end = places[i].end;
    }
    if (end != data_size)
        return error_set(error, WEFT_ERROR_DATA,
                         "%s should hold %" PRIu64 " bytes of data after its header, but holds %" PRIu64 "%s", where,
                         end, data_size, data_size < end ? "; it is truncated" : "");
    return WEFT_OK;
}

/* Read all of the header's entries into `places`, which has room. */
static weft_status read_tensors(const struct safetensors *file, const char *where,
                                struct safetensors_read_place *places, size_t *count, struct error *error)
{
    *count = 0;
    for (const cJSON *entry = file->header->child; entry; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0)
            continue;
        weft_status status = safetensors_read_tensor(file, entry, where, &places[*count], error);
        if (status != WEFT_OK)
            return status;
        (*count)++;
    }
    return WEFT_OK;
}

static weft_status safetensors_read_fill(struct safetensors *file, const uint8_t *bytes, uint64_t size,
                                         const char *where, struct error *error)
{
    uint64_t header_size = 0;
    weft_status status = safetensors_read_header(bytes, size, where, &file->header, &header_size, error);
    if (status == WEFT_OK)
        status = read_metadata(file, where, error);
    if (status != WEFT_OK)
        return status;
    size_t entries = (size_t)cJSON_GetArraySize(file->header) + 1;
    struct safetensors_read_place *places = calloc(entries, sizeof *places);
    file->tensors = calloc(entries, sizeof *file->tensors);
    if (!places || !file->tensors) {
        free(places);
        return error_memory(error, entries * (sizeof *places + sizeof *file->tensors), "a list of tensors");
    }
    status = read_tensors(file, where, places, &file->count, error);
    if (status == WEFT_OK)
        status = check_places(places, file->count, size - 8 - header_size, where, error);
    for (size_t i = 0; i < file->count && status == WEFT_OK; i++) {
        file->tensors[i] = places[i].tensor;
        file->tensors[i].data = (void *)(uintptr_t)(bytes + 8 + header_size + places[i].begin);
    }
    free(places);
    return status;
}

weft_status safetensors_parse(const uint8_t *bytes, uint64_t size, const char *where, struct safetensors **file,
                              struct error *error)
{
    const size_t length = strlen(where) + 1;
    struct safetensors *opened = calloc(1, sizeof *opened + length);
    if (!opened)
        return error_memory(error, sizeof *opened + length, "a safetensors file");
    memcpy(opened->where, where, length);
    weft_status status = safetensors_read_fill(opened, bytes, size, where, error);
    if (status != WEFT_OK) {
        safetensors_close(opened);
        return status;
    }
    *file = opened;
    return WEFT_OK;
}

weft_status safetensors_open(const char *path, struct safetensors **file, struct error *error)
{
    struct file_map map;
    weft_status status = file_map(path, &map, error);
    if (status != WEFT_OK)
        return status;
    char where[FILE_PATH_BYTES + 2];
    snprintf(where, sizeof where, "'%s'", path);
    status = safetensors_parse(map.bytes, map.size, where, file, error);
    if (status == WEFT_OK)
        (*file)->map = map;
    else
        file_unmap(&map);
    return status;
}

void safetensors_close(struct safetensors *file)
{
    if (!file)
        return;
    free(file->tensors);
    cJSON_Delete(file->header);
    file_unmap(&file->map);
    free(file);
}

size_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct named_tensor *safetensors_tensor(const struct safetensors *file, size_t index)
{
    return &file->tensors[index];
}

const char *safetensors_where(const struct safetensors *file)
{
    return file->where;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file->metadata, key));
}
