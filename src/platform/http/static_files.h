/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The files of the pages, in memory, given by the program. A path is looked up among their names, never on disk, so no
 * path leads anywhere else. Answers carry an ETag (BLAKE2b of the content), so that a browser that asks again gets 304,
 * and a Content-Security-Policy that allows no other origins.
 */
#ifndef WEFT_PLATFORM_HTTP_STATIC_FILES_H
#define WEFT_PLATFORM_HTTP_STATIC_FILES_H

#include "base/error.h"
#include "platform/http/http.h"

#define STATIC_FILES_MOST 512
#define STATIC_BYTES_MOST ((size_t)16 << 20) /**< of a file */

/** A file that the program brings. */
struct static_file {
    const char *path; /**< "/index.html" */
    const void *bytes;
    size_t size;
};

struct static_files;

weft_status static_files_new(struct static_files **files, struct error *error);
void static_files_free(struct static_files *files);

/** Add a file, which is copied. Errors: ARGUMENT: a path that is no plain one, or there already. */
weft_status static_files_add(struct static_files *files, const struct static_file *file, struct error *error);

/** Answer a request for `path` (decoded) if there is such a file: "/" is "/index.html". False: there is none. GET and
 * HEAD are served, anything else is answered with 405. */
bool static_files_serve(const struct static_files *files, const char *path, struct http_request *request);

/** Answer with 404 and "/not-found.html", if there is that page and it is a browser that asks for one (by Accept).
 * False: otherwise; nothing is answered. */
bool static_files_serve_missing(const struct static_files *files, struct http_request *request);

#endif
