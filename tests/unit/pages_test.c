/* SPDX-License-Identifier: Apache-2.0 */
/* The pages inside the command are the files below web/, byte for byte. */
#include "platform/http/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file/file.h"

static void every_page_is_its_file(void **state)
{
    const struct page *pages = pages_table;
    assert_true(pages_table_count >= 3);
    for (size_t i = 0; i < pages_table_count; i++) {
        char path[FILE_PATH_BYTES], *content;
        size_t size;
        assert_int_equal(file_join(path, WEB, pages[i].path + 1, NULL), WEFT_OK);
        assert_int_equal(file_read(path, 64 << 20, &content, &size, NULL), WEFT_OK);
        assert_int_equal(pages[i].size, size);
        assert_memory_equal(pages[i].bytes, content, size + 1);
        assert_true(i == 0 || strcmp(pages[i - 1].path, pages[i].path) < 0);
        free(content);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_page_is_its_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
