/* SPDX-License-Identifier: Apache-2.0 */
/** Inside pages.c: the table that tools/embed-pages writes, sorted by path. */
#ifndef WEFT_PLATFORM_HTTP_INTERNAL_PAGES_TABLE_H
#define WEFT_PLATFORM_HTTP_INTERNAL_PAGES_TABLE_H

#include "platform/http/pages.h"

extern const struct page pages_table[];
extern const size_t pages_table_count;

#endif
