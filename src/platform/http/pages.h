/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The files of the pages, web/, which are inside the command: nothing is read from disk, and nothing is installed
 * beside it. Thread-safe.
 */
#ifndef WEFT_PLATFORM_HTTP_PAGES_H
#define WEFT_PLATFORM_HTTP_PAGES_H

#include <stddef.h>

struct page {
    const char *path;           /**< below web/: "/vendor/uplot/uPlot.min.css" */
    const char *type;           /**< content type: "text/css; charset=utf-8" */
    const char *tag;            /**< 32 hexadecimal digits of the SHA-256 of its bytes: an ETag, without its quotes */
    const unsigned char *bytes; /**< and a NUL after them */
    size_t size;                /**< of the bytes, without that NUL */
};

/** The page at `path`, decoded and without a query, or NULL; a directory's ("/") is that directory's index.html. */
const struct page *page_find(const char *path);

/** All pages by path, and how many there are. */
const struct page *pages_all(size_t *count);

#endif
