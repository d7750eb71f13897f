/* SPDX-License-Identifier: Apache-2.0 */
/** The file with a user's token, readable by that user only: mode 0600, like an ssh key. */
#ifndef WEFT_PLATFORM_ACCESS_TOKEN_FILE_H
#define WEFT_PLATFORM_ACCESS_TOKEN_FILE_H

#include "base/error.h"
#include "base/file/file.h"
#include "platform/access/tokens.h"

/** Its path: $WEFT_TOKEN_FILE, or weft/token in $XDG_CONFIG_HOME or ~/.config. "" if there is no home directory. */
weft_status token_file_path(char path[FILE_PATH_BYTES], struct error *error);

/** Read the token. Errors: SYSTEM: the file cannot be read; DATA: other users may access it, or it holds no token. */
weft_status token_file_read(const char *path, char text[TOKEN_TEXT_BYTES], struct error *error);

/** Write the token atomically; make the directory if it is missing. */
weft_status token_file_write(const char *path, const char *text, struct error *error);

#endif
