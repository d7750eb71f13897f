/* SPDX-License-Identifier: Apache-2.0 */
/**
 * HTTP/1.1 messages (RFC 9112), strictly: what two readers could understand in two ways is refused. Server and client
 * read with it. Nothing here touches a connection. Thread-safe; a struct belongs to one thread at a time.
 *
 * Refused, with a message: lines that do not end in CR LF, control characters, white space before a colon, folded
 * lines, more than MESSAGE_HEADERS_MOST headers, a length that is not digits alone or given twice, a length beside
 * chunks, codings other than chunked, no Host or two, a first line that names another host than Host does.
 */
#ifndef WEFT_PLATFORM_HTTP_MESSAGE_H
#define WEFT_PLATFORM_HTTP_MESSAGE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_HEADERS_MOST 64
#define MESSAGE_LENGTH_MOST  ((uint64_t)1 << 50) /**< no body is longer */

struct message_header {
    const char *name;  /**< as it was written: names are compared without regard to case */
    const char *value; /**< without white space around it */
};

/** How the end of the body is determined. */
enum message_framing {
    MESSAGE_NO_BODY,
    MESSAGE_LENGTH,      /**< by Content-Length */
    MESSAGE_CHUNKED,     /**< by the chunks themselves */
    MESSAGE_UNTIL_CLOSE, /**< by the end of the connection: replies alone */
};

/** A head that was read. Every text points into the bytes it was read from. */
struct message {
    const char *method, *target; /**< of a request; "" where it could not be read. The target begins with '/' */
    unsigned status;             /**< of a reply */
    unsigned minor;              /**< HTTP/1.`minor`: 0 or 1 */
    size_t header_count;
    struct message_header headers[MESSAGE_HEADERS_MOST];
    enum message_framing framing;
    uint64_t length; /**< of the body, where framing is MESSAGE_LENGTH */
    bool keep_alive; /**< the connection may serve for another message */
    bool expects_continue;
};

/**
 * Read the head of a request: `size` bytes that end with the empty line. The bytes are changed (a NUL ends each text).
 * On an error `*code` is the status to answer with (400, 417, 501 or 505). Errors: DATA.
 */
weft_status message_read_request(char *head, size_t size, struct message *message, unsigned *code, struct error *error);

/** The same of a reply; `to_head`: the request was HEAD, so that no body follows. Errors: DATA. */
weft_status message_read_reply(char *head, size_t size, bool to_head, struct message *message, struct error *error);

/** The value of the first header of that name, or NULL. */
const char *message_header(const struct message *message, const char *name);

/** Whether a header's value, a list with commas, has `word` in it, without regard to case. */
bool message_has_word(const char *list, const char *word);

/**
 * Take the percent signs out of `length` bytes, in place, and end them with a NUL (text[length] must be there to be
 * written). False: an unfinished %XX, a control character or NUL, or something that is not UTF-8.
 * `plus`: '+' is a space, as in the part after the question mark.
 */
bool message_decode(char *text, size_t length, bool plus);

/** Whether `size` bytes are UTF-8 throughout. */
bool message_is_utf8(const char *bytes, size_t size);

/** The name of a status ("Not Found"). */
const char *message_reason(unsigned status);

/* ---- bodies in chunks ---- */

/** Where in a body of chunks its reader is; begin with zeros. */
struct chunks {
    int state;
    uint64_t left;   /**< of this chunk */
    uint32_t digits; /**< of this chunk's size */
    uint32_t spent;  /**< bytes of extensions and trailers, which nobody reads */
};

enum chunks_result {
    CHUNKS_MORE, /**< all was taken; more is needed */
    CHUNKS_DATA, /**< a piece of the body was found; call again with what is left */
    CHUNKS_END,  /**< the body has ended */
    CHUNKS_WRONG,
};

/** Read on; `*taken` of the bytes are done with. With CHUNKS_DATA, `*data` points to `*data_size` bytes among them. */
enum chunks_result chunks_read(struct chunks *chunks, const char *bytes, size_t size, size_t *taken, const char **data,
                               size_t *data_size);

#endif
