/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Lists of the platform, read page by page, and the line that says where a list was cut.
 *
 * A page is GET path?CURSOR=N&most=M, where N is the number of the last element of the page before; "more" in the reply
 * says whether another page follows (docs/http-interface.md). Numbers never change: each element appears once, even if
 * others come or go meanwhile.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_LIST_H
#define WEFT_CLI_PLATFORM_CLIENT_LIST_H

#include "cli/platform/client/client.h"

/** A kind of list. */
struct platform_list {
    const char *name;   /**< its key in the reply: "runs" */
    const char *cursor; /**< "before" or "after" */
    const char *number; /**< key of an element's cursor: "run"; a number or a name */
    int64_t page;       /**< the largest page */
    int64_t least;      /**< the smallest page that may be requested */
};

extern const struct platform_list platform_list_runs, platform_list_ledger, platform_list_audit,
    platform_list_host_events, platform_list_metrics;

/** The elements of a list that were read. platform_listed_free() frees it; all zero is empty. */
struct platform_listed {
    cJSON *items; /**< an array */
    cJSON *first; /**< the first reply without its list: totals */
    bool more;    /**< there are more than `limit` */
};

/** Read the first `limit` elements (0: all). `path` has no cursor and no "most". */
weft_status platform_list_get(struct platform *platform, const struct platform_path *path,
                              const struct platform_list *list, int64_t limit, struct platform_listed *listed,
                              struct error *error);

/** The same for lists that may be long: `each` gets the elements page by page, and they are not kept. */
weft_status platform_list_each(struct platform *platform, const struct platform_path *path,
                               const struct platform_list *list, int64_t limit,
                               void (*each)(void *context, const cJSON *item), void *context, struct error *error);

/** The same; print each element as a line of JSON. */
weft_status platform_list_print(struct platform *platform, const struct platform_path *path,
                                const struct platform_list *list, int64_t limit, FILE *output, struct error *error);
void platform_listed_free(struct platform_listed *listed);

/**
 * Print the line below a list that was cut: "9,996 runs wait; the first 50 are shown (--all shows all, --limit N more or
 * fewer)". `which` is "first" or "newest"; `how` is the text in parentheses. If `total` is unknown (negative): "only the
 * newest 20 entries are shown (...)".
 */
void platform_list_cut(FILE *output, const char *what, const char *which, int64_t total, int64_t shown,
                       const char *how);

#endif
