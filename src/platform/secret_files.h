/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which files hold credentials, by their names and by their content: what a snapshot leaves out unless it is told to
 * take it (snapshot_filter.h). The table of names is in secret_files.c.
 *
 * Known by content, whatever the name: private keys in PEM (PKCS, OpenSSH, PGP), of PuTTY, of SSH2 and of age. The
 * header of a PEM key counts where a key follows it: a line of its own, or a string with "\n" after the header, as
 * JSON has it. A program that merely compares with the header is no key.
 *
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_SECRET_FILES_H
#define WEFT_PLATFORM_SECRET_FILES_H

#include "platform/ignore.h"

#include <stdint.h>

/** A line of the table. */
struct secret_kind {
    const char *pattern;      /**< in gitignore's language; files only, or with a slash at the end directories only */
    const char *what;         /**< "SSH key"; NULL: no secret, though an earlier pattern fits */
    const char *only_with[2]; /**< a secret only if the file has one of these in it; NULL: always */
};

/** The table, ready to be compared with. */
struct secret_names {
    struct ignore names;
};

weft_status secret_names_open(struct secret_names *names, struct error *error);
void secret_names_close(struct secret_names *names);

/** The kind of secret that is called `path` (relative to any directory); NULL: none. */
const struct secret_kind *secret_names_find(const struct secret_names *names, const char *path, bool folder);

/**
 * What secret the content of `file` is: "private key" or, where `kind` is not NULL, what that one says. NULL: none, or
 * the file cannot be read. `piece` has `room` bytes to read into, at least 4096.
 */
const char *secret_content(int file, const struct secret_kind *kind, uint8_t *piece, size_t room);

#endif
