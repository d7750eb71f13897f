/* SPDX-License-Identifier: Apache-2.0 */
/** Inside pages.c: the table that tools/embed-pages writes, sorted by path. */
#ifndef WEFT_SERVER_PAGES_TABLE_H
#define WEFT_SERVER_PAGES_TABLE_H

#include "server/pages.h"

extern const struct page pages_table[];
extern const size_t pages_table_count;

#endif
