/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the router share: route.c (tables, finding), platform/http/route/call.c (a request's way to its handler),
 * platform/http/route/parameters.c (values), platform/http/route/document.c (OpenAPI). */
#ifndef WEFT_PLATFORM_HTTP_ROUTE_INTERNAL_TABLE_H
#define WEFT_PLATFORM_HTTP_ROUTE_INTERNAL_TABLE_H

#include "platform/http/rate.h"
#include "platform/http/route/route.h"

#define ROUTE_SEGMENTS_MOST 12
#define ROUTE_TEXT_MOST     1024

/** A route with its path taken apart. */
struct router_entry {
    const struct route *route;
    const char *tag;
    void *context;
    unsigned segment_count;
    struct {
        const char *text; /* points into `path`; a parameter's name without its braces */
        bool parameter;
    } segments[ROUTE_SEGMENTS_MOST];
    char *path;
};

struct router {
    struct router_config config;
    struct rate *rate;
    struct schema_set *schemas;
    struct router_entry *entries;
    size_t count, room;
    char *document;
    size_t document_size;
};

/** A path of a request taken apart and decoded. */
struct route_path {
    unsigned segment_count;
    const char *segments[ROUTE_SEGMENTS_MOST];
};

/** The entry for a method and path, or NULL. HEAD finds GET. `allowed` collects the methods that the path has, as the
 * Allow header has them; "": there is no such path. */
const struct router_entry *router_find(const struct router *router, const char *method, const struct route_path *path,
                                       char *allowed, size_t room);

bool route_is_path_parameter(const struct route *route, const char *name);
size_t route_parameter_count(const struct route *route);

/** Fill a call's values from path and query. False: answered with 400 already. */
bool route_read_parameters(struct route_call *call, const struct router_entry *entry, const struct route_path *path);

/** Make the document of all routes. */
weft_status router_write_document(struct router *router, struct error *error);

/** http_application's functions. */
void router_begin(void *context, struct http_request *request, size_t *body_most);
void router_handle(void *context, struct http_request *request);
bool router_still(void *context, struct http_request *request);

#endif
