/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/http/pages.h"

#include "platform/http/internal/pages_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_MOST 512

static int pages_by_path(const void *path, const void *page)
{
    return strcmp(path, ((const struct page *)page)->path);
}

const struct page *page_find(const char *path)
{
    char index[PATH_MOST];
    const size_t length = strlen(path);
    if (length > 0 && path[length - 1] == '/') {
        if ((size_t)snprintf(index, sizeof index, "%sindex.html", path) >= sizeof index)
            return NULL;
        path = index;
    }
    return bsearch(path, pages_table, pages_table_count, sizeof *pages_table, pages_by_path);
}

const struct page *pages_all(size_t *count)
{
    *count = pages_table_count;
    return pages_table;
}
