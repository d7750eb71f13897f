/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAR_BLOCK       512u
#define TAR_HEADER_MOST ((uint64_t)1 << 20) /* bytes of a header that a member has for itself */

/* POSIX.1-1988, ustar. Numbers are octal text. */
struct tar_header {
    char name[100], mode[8], owner[8], group[8], size[12], changed[12], checksum[8];
    char kind, link[100], magic[6], version[2], owner_name[32], group_name[32], major[8], minor[8];
    char prefix[155], rest[12];
};

_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is one block");

struct tar_reading {
    int descriptor;
    const char *path;
    uint64_t size, at;
    char name[TAR_NAME_BYTES]; /* of the next member, from a header of its own; "": none */
};

static weft_status tar_damaged(const struct tar_reading *reading, const char *what, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA, "the archive '%s' is damaged at byte %" PRIu64 ": %s; get it again",
                     reading->path, reading->at, what);
}

static weft_status tar_cut(const struct tar_reading *reading, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA,
                     "the archive '%s' is cut: it has %" PRIu64 " bytes and no end mark; get it again", reading->path,
                     reading->size);
}

/* An octal number that ends at a space, a NUL or the field's end. */
static bool tar_number(const char *field, size_t size, uint64_t *number)
{
    size_t i = 0;
    while (i < size && field[i] == ' ')
        i++;
    const size_t first = i;
    for (*number = 0; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        *number = *number * 8 + (uint64_t)(field[i] - '0');
    return i > first && (i == size || field[i] == ' ' || field[i] == '\0');
}

/* The sum of a header's bytes, those of the sum itself as spaces. */
static uint64_t tar_checksum(const struct tar_header *header)
{
    const uint8_t *bytes = (const uint8_t *)header;
    const size_t begin = offsetof(struct tar_header, checksum), end = begin + sizeof header->checksum;
    uint64_t sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++)
        sum += i >= begin && i < end ? ' ' : bytes[i];
    return sum;
}

static weft_status tar_set_name(struct tar_reading *reading, const char *name, size_t size, struct error *error)
{
    if (size >= sizeof reading->name)
        return error_set(error, WEFT_ERROR_DATA,
                         "the archive '%s' has a path of %zu bytes at byte %" PRIu64
                         ", and at most %u are read; write it again with shorter paths",
                         reading->path, size, reading->at, TAR_NAME_BYTES - 1);
    memcpy(reading->name, name, size);
    reading->name[size] = '\0';
    return WEFT_OK;
}

/* The path in a pax header's records, "LENGTH path=NAME\n" among others. */
static weft_status tar_find_pax_path(struct tar_reading *reading, const char *records, size_t size, struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < size && status == WEFT_OK;) {
        char *after;
        const unsigned long length = strtoul(records + at, &after, 10);
        const size_t begin = (size_t)(after - records);
        if (length > size - at || begin >= at + length || *after != ' ')
            break;
        const char *key = after + 1;
        const size_t rest = at + length - begin - 1;
        if (rest > strlen("path=") + 1 && memcmp(key, "path=", strlen("path=")) == 0)
            status = tar_set_name(reading, key + strlen("path="), rest - strlen("path=") - 1, error);
        at += length;
    }
    return status;
}

/* A member that has the name of the next one. */
static weft_status tar_read_name(struct tar_reading *reading, char kind, uint64_t size, struct error *error)
{
    if (size > TAR_HEADER_MOST)
        return error_set(error, WEFT_ERROR_DATA,
                         "the archive '%s' has a header of %" PRIu64 " bytes at byte %" PRIu64
                         ", and at most 1 MiB is read; write it again without such headers",
                         reading->path, size, reading->at);
    char *text = malloc(size + 1);
    if (!text)
        return error_memory(error, size + 1, "a header of an archive");
    weft_status status =
        file_read_at(reading->descriptor, reading->path, reading->size, reading->at, text, size, error);
    text[size] = '\0';
    if (status == WEFT_OK)
        status = kind == 'x' ? tar_find_pax_path(reading, text, size, error)
                             : tar_set_name(reading, text, strnlen(text, size), error);
    free(text);
    return status;
}

static weft_status tar_visit(struct tar_reading *reading, const struct tar_header *header, uint64_t size,
                             const struct tar_visitor *visitor, struct error *error)
{
    if (header->kind == 'x' || header->kind == 'L')
        return tar_read_name(reading, header->kind, size, error);
    weft_status status = WEFT_OK;
    if (header->kind == '0' || header->kind == '\0') {
        const bool has_prefix = memcmp(header->magic, "ustar", sizeof header->magic) == 0 && header->prefix[0];
        if (!reading->name[0])
            snprintf(reading->name, sizeof reading->name, "%.*s%s%.*s", has_prefix ? (int)sizeof header->prefix : 0,
                     header->prefix, has_prefix ? "/" : "", (int)sizeof header->name, header->name);
        const struct tar_member member = {reading->name, reading->at, size};
        status = visitor->visit(visitor->context, &member, error);
    }
    if (header->kind != 'g')
        reading->name[0] = '\0';
    return status;
}

weft_status tar_read(int descriptor, const char *path, uint64_t size, const struct tar_visitor *visitor,
                     struct error *error)
{
    static const struct tar_header end;
    struct tar_reading reading = {descriptor, path, size, 0, ""};
    for (;;) {
        struct tar_header header;
        uint64_t checksum, bytes;
        if (size - reading.at < TAR_BLOCK)
            return tar_cut(&reading, error);
        weft_status status = file_read_at(descriptor, path, size, reading.at, &header, TAR_BLOCK, error);
        if (status != WEFT_OK || memcmp(&header, &end, TAR_BLOCK) == 0)
            return status;
        if (!tar_number(header.checksum, sizeof header.checksum, &checksum) || checksum != tar_checksum(&header))
            return tar_damaged(&reading, "the checksum of a header is wrong", error);
        if (!tar_number(header.size, sizeof header.size, &bytes))
            return tar_damaged(&reading, "the size of a member is not an octal number", error);
        reading.at += TAR_BLOCK;
        if (bytes > size - reading.at)
            return tar_cut(&reading, error);
        status = tar_visit(&reading, &header, bytes, visitor, error);
        if (status != WEFT_OK)
            return status;
        const uint64_t padded = (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (padded > size - reading.at)
            return tar_cut(&reading, error);
        reading.at += padded;
    }
}

/* ---- writing ---- */

static const char tar_zeros[2 * TAR_BLOCK];

weft_status tar_append(struct file_writer *writer, const char *name, const void *bytes, size_t size,
                       struct error *error)
{
    struct tar_header header = {.kind = '0', .magic = "ustar", .version = {'0', '0'}};
    if (strlen(name) >= sizeof header.name)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the name '%s' is too long for a member of the archive '%s'", name,
                         writer->path);
    memcpy(header.name, name, strlen(name));
    snprintf(header.mode, sizeof header.mode, "%07o", 0644u);
    snprintf(header.owner, sizeof header.owner, "%07o", 0u);
    snprintf(header.group, sizeof header.group, "%07o", 0u);
    snprintf(header.size, sizeof header.size, "%011" PRIo64, (uint64_t)size);
    snprintf(header.changed, sizeof header.changed, "%011o", 0u);
    snprintf(header.checksum, sizeof header.checksum, "%06" PRIo64, tar_checksum(&header));
    header.checksum[7] = ' ';
    weft_status status = file_writer_append(writer, &header, sizeof header, error);
    if (status == WEFT_OK)
        status = file_writer_append(writer, bytes, size, error);
    if (status == WEFT_OK && size % TAR_BLOCK)
        status = file_writer_append(writer, tar_zeros, TAR_BLOCK - size % TAR_BLOCK, error);
    return status;
}

weft_status tar_finish(struct file_writer *writer, struct error *error)
{
    return file_writer_append(writer, tar_zeros, sizeof tar_zeros, error);
}
