/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/static_files.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kept_file {
    char *path;
    char *bytes;
    size_t size;
    const char *type;
    char tag[36]; /* in quotes, as the header has it */
};

struct static_files {
    size_t count;
    struct kept_file files[STATIC_FILES_MOST];
};

weft_status static_files_new(struct static_files **files, struct error *error)
{
    if (sodium_init() < 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium cannot be used on this machine");
    *files = calloc(1, sizeof **files);
    return *files ? WEFT_OK : error_memory(error, sizeof **files, "the pages");
}

void static_files_free(struct static_files *files)
{
    for (size_t i = 0; files && i < files->count; i++) {
        free(files->files[i].path);
        free(files->files[i].bytes);
    }
    free(files);
}

static const char *type_of(const char *path)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".json", "application/json"},
        {".txt", "text/plain; charset=utf-8"},
        {".woff2", "font/woff2"},
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof types / sizeof *types; i++)
        if (strcmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

static const struct kept_file *static_files_find(const struct static_files *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->files[i].path, path) == 0)
            return &files->files[i];
    return NULL;
}

weft_status static_files_add(struct static_files *files, const struct static_file *file, struct error *error)
{
    uint8_t digest[16];
    char hex[33];
    if (file->path[0] != '/' || strstr(file->path, "//") || strstr(file->path, "/."))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "'%s' is no path for a page: it begins with one '/', and no part "
                         "of it with a dot",
                         file->path);
    if (static_files_find(files, file->path))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the page '%s' is there already", file->path);
    if (files->count == STATIC_FILES_MOST || file->size > STATIC_BYTES_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the page '%s' is one too many (at most %d), or too large (%zu bytes; at most %zu)",
                         file->path, STATIC_FILES_MOST, file->size, STATIC_BYTES_MOST);
    struct kept_file *kept = &files->files[files->count];
    *kept = (struct kept_file){strdup(file->path), malloc(file->size + 1), file->size, type_of(file->path), ""};
    if (!kept->path || !kept->bytes) {
        free(kept->path);
        free(kept->bytes);
        return error_memory(error, file->size, "a page");
    }
    memcpy(kept->bytes, file->bytes, file->size);
    crypto_generichash(digest, sizeof digest, file->bytes, file->size, NULL, 0);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    snprintf(kept->tag, sizeof kept->tag, "\"%s\"", hex);
    files->count++;
    return WEFT_OK;
}

/* Whether If-None-Match names the tag, or all: a weak comparison (RFC 9110, section 13.1.2). */
static bool has_it(const char *list, const char *tag)
{
    size_t length = strlen(tag);
    for (; list && *list; list += strcspn(list, ",")) {
        list += strspn(list, " \t,");
        if (strncmp(list, "W/", 2) == 0)
            list += 2;
        if (*list == '*' || strncmp(list, tag, length) == 0)
            return true;
    }
    return false;
}

/* What goes with every page. */
static void put_headers(struct http_request *request)
{
    http_reply_header(request, "Cache-Control", "no-cache");
    http_reply_header(request, "Content-Security-Policy",
                      "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
                      "base-uri 'none'; form-action 'self'; frame-ancestors 'none'");
    http_reply_header(request, "Referrer-Policy", "same-origin");
    if (http_request_is_encrypted(request) || http_request_is_local(request)) /* else browsers ignore it */
        http_reply_header(request, "Cross-Origin-Opener-Policy", "same-origin");
}

bool static_files_serve(const struct static_files *files, const char *path, struct http_request *request)
{
    const struct kept_file *file = static_files_find(files, strcmp(path, "/") == 0 ? "/index.html" : path);
    const char *method = http_request_method(request);
    if (!file)
        return false;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        http_reply_header(request, "Allow", "GET, HEAD");
        http_fail(request, 405, "%s cannot be done to a page", method);
        return true;
    }
    http_reply_header(request, "ETag", file->tag);
    put_headers(request);
    if (has_it(http_request_header(request, "If-None-Match"), file->tag))
        http_reply(request, 304, NULL, NULL, 0);
    else
        http_reply_kept(request, 200, file->type, file->bytes, file->size, NULL, NULL);
    return true;
}

bool static_files_serve_missing(const struct static_files *files, struct http_request *request)
{
    const struct kept_file *file = static_files_find(files, "/not-found.html");
    const char *method = http_request_method(request), *accept = http_request_header(request, "Accept");
    if (!file || !accept || !strstr(accept, "text/html") || (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0))
        return false;
    put_headers(request);
    http_reply_kept(request, 404, file->type, file->bytes, file->size, NULL, NULL);
    return true;
}
