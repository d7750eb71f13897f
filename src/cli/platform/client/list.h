/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Lists of the platform, read page by page, and the line that says where one was cut.
 *
 * A page is GET path?CURSOR=N&most=M, where N is the number of the last element of the page before; its "more" says
 * whether another follows (docs/http-interface.md). Numbers never change, so elements that come or go meanwhile make
 * none of the others appear twice or not at all.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_LIST_H
#define WEFT_CLI_PLATFORM_CLIENT_LIST_H

#include "cli/platform/client/client.h"

/** What a list is. */
struct platform_list {
    const char *name;   /**< its key in the reply: "runs" */
    const char *cursor; /**< "before" or "after" */
    const char *number; /**< the key of what the cursor takes in an element: "run"; a number or a name */
    int64_t page;       /**< the largest page that the server gives */
    int64_t least;      /**< the smallest that may be asked for */
};

extern const struct platform_list platform_list_runs, platform_list_ledger, platform_list_audit,
    platform_list_host_events, platform_list_metrics;

/** What was read of one; platform_listed_free() frees it. Zeroed, it is empty. */
struct platform_listed {
    cJSON *items; /**< an array */
    cJSON *first; /**< the first reply without its list: totals */
    bool more;    /**< there are more than `limit` */
};

/** Read the first `limit` elements, or all of them where it is 0. `path` has no cursor and no "most". */
weft_status platform_list_get(struct platform *platform, const struct platform_path *path,
                              const struct platform_list *list, int64_t limit, struct platform_listed *listed,
                              struct error *error);

/** The same, each element given to `each` as its page comes and then forgotten: for lists that may be long. */
weft_status platform_list_each(struct platform *platform, const struct platform_path *path,
                               const struct platform_list *list, int64_t limit,
                               void (*each)(void *context, const cJSON *item), void *context, struct error *error);

/** The same, each as a line of JSON. */
weft_status platform_list_print(struct platform *platform, const struct platform_path *path,
                                const struct platform_list *list, int64_t limit, FILE *output, struct error *error);
void platform_listed_free(struct platform_listed *listed);

/**
 * Print the line below a list of which only the first are shown: "9,996 runs wait; the first 50 are shown (--all shows
 * all, --limit N more or fewer)". `which` is "first" or "newest"; `how` is what stands in parentheses. A `total` below
 * 0 is not known: "only the newest 20 entries are shown (...)".
 */
void platform_list_cut(FILE *output, const char *what, const char *which, int64_t total, int64_t shown,
                       const char *how);

#endif
