/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files that hold credentials, recognized by name or by content. A snapshot leaves them out unless a pattern includes
 * them (platform/snapshot/internal/filter.h). The table of names is in secret_files.c.
 *
 * Recognized by content, whatever the name: private keys in PEM (PKCS, OpenSSH, PGP), and those of PuTTY, SSH2 and age.
 * The header of a PEM key counts only if a key can follow it: on a line of its own, or with "\n" after it in a string,
 * as in JSON. A program that compares text with the header does not count.
 *
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SNAPSHOT_INTERNAL_SECRET_FILES_H
#define WEFT_PLATFORM_SNAPSHOT_INTERNAL_SECRET_FILES_H

#include "platform/snapshot/internal/ignore.h"

#include <stdint.h>

/** A row of the table. */
struct secret_kind {
    const char *what;         /**< "SSH key"; NULL: no secret, though an earlier pattern matches */
    const char *patterns;     /**< in gitignore's language, divided by spaces; each for files only, or with a slash at
                                 the end for directories only */
    const char *only_with[2]; /**< a secret only if the file contains one of these; NULL: always */
};

#define SECRET_PATTERNS_MOST 128

/** The table, ready to be compared with. */
struct secret_names {
    struct ignore patterns;
    struct secret_row {
        const struct secret_kind *kind;
        bool directories;
    } rows[SECRET_PATTERNS_MOST]; /**< of each pattern */
};

weft_status secret_names_open(struct secret_names *names, struct error *error);
void secret_names_close(struct secret_names *names);

/** The kind of secret that a file named `path` (relative to any directory) holds; NULL: none. */
const struct secret_kind *secret_names_find(const struct secret_names *names, const char *path, bool directory);

/**
 * The secret that the content of `file` holds: "private key", or kind->what if `kind` is not NULL. NULL: none, or the
 * file cannot be read. `piece` has `room` bytes to read into, at least 4096.
 */
const char *secret_content(int file, const struct secret_kind *kind, uint8_t *piece, size_t room);

#endif
