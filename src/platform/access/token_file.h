/* SPDX-License-Identifier: Apache-2.0 */
/** A file that holds a user's token, for that user alone: mode 0600, like an ssh key. */
#ifndef WEFT_PLATFORM_ACCESS_TOKEN_FILE_H
#define WEFT_PLATFORM_ACCESS_TOKEN_FILE_H

#include "base/error.h"
#include "base/file/file.h"
#include "platform/access/tokens.h"

/** Where it is: WEFT_TOKEN_FILE, or weft/token in XDG_CONFIG_HOME, or in .config at home. "" where there is no home. */
weft_status token_file_path(char path[FILE_PATH_BYTES], struct error *error);

/** Read it. Errors: SYSTEM: it cannot be read; DATA: others may read or write it, or it holds no token. */
weft_status token_file_read(const char *path, char text[TOKEN_TEXT_BYTES], struct error *error);

/** Write it, whole or not at all, in a directory that is made where it is missing. */
weft_status token_file_write(const char *path, const char *text, struct error *error);

#endif
