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
#include "base/sha256.h"

static void every_page_is_its_file(void **state)
{
    size_t count;
    const struct page *pages = pages_all(&count);
    assert_true(count >= 3);
    for (size_t i = 0; i < count; i++) {
        char path[FILE_PATH_BYTES], text[SHA256_TEXT_BYTES], *content;
        uint8_t digest[SHA256_BYTES];
        size_t size;
        assert_int_equal(file_join(path, WEB, pages[i].path + 1, NULL), WEFT_OK);
        assert_int_equal(file_read(path, 64 << 20, &content, &size, NULL), WEFT_OK);
        assert_int_equal(pages[i].size, size);
        assert_memory_equal(pages[i].bytes, content, size + 1);
        assert_int_equal(sha256_of(content, size, digest, NULL), WEFT_OK);
        assert_int_equal(strlen(pages[i].tag), 32);
        assert_memory_equal(pages[i].tag, sha256_text(digest, text), 32);
        free(content);
    }
}

static void every_page_is_found_by_its_path(void **state)
{
    size_t count;
    const struct page *pages = pages_all(&count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(page_find(pages[i].path), &pages[i]);
        assert_true(i == 0 || strcmp(pages[i - 1].path, pages[i].path) < 0);
    }
}

static void types_are_those_of_the_names(void **state)
{
    assert_string_equal(page_find("/vendor/uplot/uPlot.iife.min.js")->type, "text/javascript; charset=utf-8");
    assert_string_equal(page_find("/vendor/uplot/uPlot.min.css")->type, "text/css; charset=utf-8");
    assert_string_equal(page_find("/vendor/uplot/LICENSE")->type, "text/plain; charset=utf-8");
}

static void other_paths_lead_nowhere(void **state)
{
    static const char *const paths[] = {"",
                                        "vendor/uplot/LICENSE",
                                        "/vendor/uplot",
                                        "/vendor/uplot/",
                                        "/vendor/uplot/LICENSE/",
                                        "/vendor/uplot/README.md",
                                        "/vendor/uplot/license",
                                        "/vendor/../vendor/uplot/LICENSE",
                                        "//vendor/uplot/LICENSE",
                                        "/meson.build",
                                        "/../src/server/pages.c",
                                        "/etc/passwd"};
    char longest[4096];
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        assert_null(page_find(paths[i]));
    memset(longest, '/', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(page_find(longest));
}

static void a_directory_is_its_index(void **state)
{
    assert_ptr_equal(page_find("/"), page_find("/index.html"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_its_file),       cmocka_unit_test(every_page_is_found_by_its_path),
        cmocka_unit_test(types_are_those_of_the_names), cmocka_unit_test(other_paths_lead_nowhere),
        cmocka_unit_test(a_directory_is_its_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
