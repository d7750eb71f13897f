/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/access/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

weft_status token_file_path(char path[FILE_PATH_BYTES], struct error *error)
{
    const char *given = getenv("WEFT_TOKEN_FILE"), *configuration = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    path[0] = '\0';
    if (given && *given)
        return file_join(path, ".", given, error) == WEFT_OK && snprintf(path, FILE_PATH_BYTES, "%s", given) > 0
                   ? WEFT_OK
                   : WEFT_ERROR_ARGUMENT;
    if (configuration && *configuration == '/')
        return file_join(path, configuration, "weft/token", error);
    return home && *home ? file_join(path, home, ".config/weft/token", error) : WEFT_OK;
}

weft_status token_file_read(const char *path, char text[TOKEN_TEXT_BYTES], struct error *error)
{
    struct stat kind;
    char bytes[TOKEN_TEXT_BYTES + 2];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0 || fstat(descriptor, &kind) != 0) {
        weft_status status = error_system(error, "cannot read the token in '%s'", path);
        if (descriptor >= 0)
            close(descriptor);
        return status;
    }
    ssize_t size = S_ISREG(kind.st_mode) ? read(descriptor, bytes, sizeof bytes - 1) : 0;
    close(descriptor);
    if (!S_ISREG(kind.st_mode))
        return error_set(error, WEFT_ERROR_DATA, "'%s' is not a regular file, so it holds no token", path);
    if (kind.st_mode & 077)
        return error_set(error, WEFT_ERROR_DATA,
                         "others may read the token in '%s' (mode %04o): make it yours alone with 'chmod 600 %s', and "
                         "a new token if others could use the machine",
                         path, (unsigned)(kind.st_mode & 07777), path);
    if (size < 0)
        return error_system(error, "cannot read the token in '%s'", path);
    while (size > 0 && strchr(" \t\r\n", bytes[size - 1]) && bytes[size - 1])
        size--;
    bytes[size] = '\0';
    if (size == 0 || (size_t)size >= TOKEN_TEXT_BYTES || strlen(bytes) != (size_t)size ||
        strncmp(bytes, "weft_", 5) != 0 ||
        strspn(bytes, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != (size_t)size)
        return error_set(error, WEFT_ERROR_DATA, "'%s' holds no token: one line that begins with 'weft_'", path);
    memcpy(text, bytes, (size_t)size + 1);
    return WEFT_OK;
}

weft_status token_file_write(const char *path, const char *text, struct error *error)
{
    char temporary[FILE_PATH_BYTES + 8];
    weft_status status = file_make_directory_of(path, error);
    if (status != WEFT_OK)
        return status;
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int descriptor = mkostemp(temporary, O_CLOEXEC); /* with mode 0600 */
    if (descriptor < 0)
        return error_system(error, "cannot write the token to '%s'", path);
    size_t size = strlen(text);
    bool written = write(descriptor, text, size) == (ssize_t)size && write(descriptor, "\n", 1) == 1 &&
                   fsync(descriptor) == 0 && rename(temporary, path) == 0;
    if (!written) {
        status = error_system(error, "cannot write the token to '%s'", path);
        unlink(temporary);
    }
    close(descriptor);
    return status;
}
