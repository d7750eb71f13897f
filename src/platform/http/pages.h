/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The files of the pages, web/, which are compiled into the command, so that nothing has to be installed beside
 * it. Thread-safe.
 */
#ifndef WEFT_PLATFORM_HTTP_PAGES_H
#define WEFT_PLATFORM_HTTP_PAGES_H

#include <stddef.h>

struct page {
    const char *path;           /**< below web/: "/vendor/uplot/uPlot.min.css" */
    const unsigned char *bytes; /**< and a NUL after them */
    size_t size;                /**< of the bytes, without that NUL */
};

/** All of them, sorted by path; written by tools/embed-pages. */
extern const struct page pages_table[];
extern const size_t pages_table_count;

#endif
