/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/registry/secret_store.h"

#include "base/file/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_BYTES   crypto_aead_xchacha20poly1305_ietf_KEYBYTES
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define FILE_MOST   (SECRET_MOST + NONCE_BYTES + TAG_BYTES)

bool secret_name_is_valid(const char *name)
{
    const size_t length = strlen(name);
    return length > 0 && length < SECRET_NAME_BYTES && !(*name >= '0' && *name <= '9') &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

char *secret_place(char place[SECRET_PLACE_BYTES], bool of_project, const char *owner, const char *name)
{
    snprintf(place, SECRET_PLACE_BYTES, "%s/%s/%s", of_project ? "projects" : "users", owner, name);
    return place;
}

/* ---- the key ---- */

/* Make the key unless there is one; atomically, because a truncated key would look like a lost one. */
static weft_status make_key(const char *path, struct error *error)
{
    unsigned char key[KEY_BYTES];
    struct file_writer writer;
    if (access(path, F_OK) == 0)
        return WEFT_OK;
    weft_status status = file_writer_open_beside(&writer, path, sizeof key, error);
    if (status != WEFT_OK)
        return status;
    randombytes_buf(key, sizeof key);
    if (fchmod(writer.descriptor, 0600) != 0)
        status = error_system(error, "cannot make the key of secrets '%s' private", path);
    if (status == WEFT_OK)
        status = file_writer_append(&writer, key, sizeof key, error);
    sodium_memzero(key, sizeof key);
    if (status == WEFT_OK)
        return file_writer_close_as(&writer, path, error);
    file_writer_discard(&writer);
    return status;
}

static weft_status secret_store_read_key(const char *directory, unsigned char key[KEY_BYTES], struct error *error)
{
    char path[FILE_PATH_BYTES];
    unsigned char more;
    struct stat info;
    weft_status status = file_join(path, directory, "key", error);
    if (status != WEFT_OK)
        return status;
    const int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0)
        status = error_system(error, "cannot read the key of secrets '%s'", path);
    else if (info.st_mode & 077)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the key of secrets '%s' has mode %o, but nobody else may read it: run "
                           "chmod 600 on it, and replace secrets that may have been read",
                           path, (unsigned)info.st_mode & 0777);
    else if (read(file, key, KEY_BYTES) != KEY_BYTES || read(file, &more, 1) != 0)
        status = error_set(error, WEFT_ERROR_DATA,
                           "the key of secrets '%s' is damaged: it has %lld bytes, and must have %d; restore it from a "
                           "backup, or remove the directory '%s' and set all secrets again",
                           path, (long long)info.st_size, (int)KEY_BYTES, directory);
    if (file >= 0)
        close(file);
    return status;
}

weft_status secret_store_open(const char *directory, struct error *error)
{
    char path[FILE_PATH_BYTES];
    unsigned char key[KEY_BYTES];
    if (sodium_init() < 0)
        return error_set(error, WEFT_ERROR_SYSTEM, "libsodium finds no random numbers on this machine");
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return error_system(error, "cannot make the directory of secrets '%s'", directory);
    weft_status status = file_join(path, directory, "key", error);
    if (status == WEFT_OK)
        status = make_key(path, error);
    if (status == WEFT_OK)
        status = secret_store_read_key(directory, key, error);
    sodium_memzero(key, sizeof key);
    return status;
}

/* ---- values ---- */

static weft_status check_value(const char *place, const void *value, size_t size, struct error *error)
{
    const char *name = strrchr(place, '/') + 1;
    if (!secret_name_is_valid(name))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the secret's name must be that of an environment variable: at most %d letters, digits and _, "
                         "beginning with a letter or _",
                         SECRET_NAME_BYTES - 1);
    if (size < SECRET_LEAST || size > SECRET_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the value of secret '%s' has %zu bytes; it must have %d to %d",
                         name, size, SECRET_LEAST, SECRET_MOST);
    if (memchr(value, 0, size))
        return error_set(error, WEFT_ERROR_ARGUMENT, "the value of secret '%s' contains a NUL byte", name);
    return WEFT_OK;
}

/* Make the directory of an owner, and see that one more secret may be in it. */
static weft_status secret_store_make_room(const char *directory, const char *place, struct error *error)
{
    char path[FILE_PATH_BYTES], owner[SECRET_PLACE_BYTES];
    struct string_list names = {0};
    snprintf(owner, sizeof owner, "%s", place);
    for (char *slash = strchr(owner, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        snprintf(path, sizeof path, "%s/%s", directory, owner);
        *slash = '/';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return error_system(error, "cannot make the directory '%s'", path);
    }
    if (secret_store_has(directory, place))
        return WEFT_OK;
    *strrchr(owner, '/') = '\0';
    const bool of_project = strncmp(owner, "projects/", 9) == 0;
    weft_status status = secret_store_names(directory, of_project, strchr(owner, '/') + 1, &names, error);
    if (status == WEFT_OK && names.count >= SECRETS_MOST)
        status = error_set(error, WEFT_ERROR_STATE, "'%s' has %d secrets, the maximum: remove one first",
                           strchr(owner, '/') + 1, SECRETS_MOST);
    string_list_free(&names);
    return status;
}

weft_status secret_store_put(const char *directory, const char *place, const void *value, size_t size,
                             struct error *error)
{
    unsigned char key[KEY_BYTES], *bytes = NULL;
    char path[FILE_PATH_BYTES];
    unsigned long long written = 0;
    weft_status status = check_value(place, value, size, error);
    if (status == WEFT_OK)
        status = secret_store_make_room(directory, place, error);
    if (status == WEFT_OK)
        status = file_join(path, directory, place, error);
    if (status == WEFT_OK)
        status = secret_store_read_key(directory, key, error);
    if (status == WEFT_OK && !(bytes = malloc(FILE_MOST)))
        status = error_memory(error, FILE_MOST, "a secret");
    if (status == WEFT_OK) {
        randombytes_buf(bytes, NONCE_BYTES);
        crypto_aead_xchacha20poly1305_ietf_encrypt(bytes + NONCE_BYTES, &written, value, size,
                                                   (const unsigned char *)place, strlen(place), NULL, bytes, key);
        status = file_write(path, bytes, NONCE_BYTES + (size_t)written, error);
    }
    sodium_memzero(key, sizeof key);
    free(bytes);
    return status;
}

weft_status secret_store_get(const char *directory, const char *place, char **value, size_t *size, struct error *error)
{
    unsigned char key[KEY_BYTES];
    char path[FILE_PATH_BYTES], *bytes = NULL, *made = NULL;
    size_t count = 0;
    unsigned long long read = 0;
    if (!secret_store_has(directory, place))
        return error_set(error, WEFT_ERROR_STATE, "there is no secret '%s'", place);
    weft_status status = file_join(path, directory, place, error);
    if (status == WEFT_OK)
        status = secret_store_read_key(directory, key, error);
    if (status == WEFT_OK)
        status = file_read(path, FILE_MOST, &bytes, &count, error);
    if (status == WEFT_OK && !(made = calloc(1, count + 1)))
        status = error_memory(error, count, "a secret");
    if (status == WEFT_OK &&
        (count < NONCE_BYTES + TAG_BYTES ||
         crypto_aead_xchacha20poly1305_ietf_decrypt(
             (unsigned char *)made, &read, NULL, (unsigned char *)bytes + NONCE_BYTES, count - NONCE_BYTES,
             (const unsigned char *)place, strlen(place), (unsigned char *)bytes, key) != 0))
        status =
            error_set(error, WEFT_ERROR_DATA,
                      "the secret '%s' cannot be decrypted: its file is damaged, or the key '%s/key' is not the one "
                      "that encrypted it; set it again",
                      place, directory);
    sodium_memzero(key, sizeof key);
    free(bytes);
    if (status != WEFT_OK) {
        free(made);
        return status;
    }
    made[read] = '\0';
    *value = made;
    *size = (size_t)read;
    return WEFT_OK;
}

weft_status secret_store_remove(const char *directory, const char *place, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, directory, place, error);
    if (status == WEFT_OK && !secret_store_has(directory, place))
        status = error_set(error, WEFT_ERROR_STATE, "there is no secret '%s'", place);
    if (status == WEFT_OK && unlink(path) != 0)
        status = error_system(error, "cannot remove the secret '%s'", path);
    return status;
}

bool secret_store_has(const char *directory, const char *place)
{
    char path[FILE_PATH_BYTES];
    return secret_name_is_valid(strrchr(place, '/') + 1) && file_join(path, directory, place, NULL) == WEFT_OK &&
           file_exists(path);
}

weft_status secret_store_names(const char *directory, bool of_project, const char *owner, struct string_list *names,
                               struct error *error)
{
    char place[SECRET_PLACE_BYTES], path[FILE_PATH_BYTES];
    *names = (struct string_list){0};
    weft_status status = file_join(path, directory, secret_place(place, of_project, owner, ""), error);
    DIR *listing = status == WEFT_OK ? opendir(path) : NULL;
    if (status == WEFT_OK && !listing && errno != ENOENT)
        return error_system(error, "cannot read the directory '%s'", path);
    for (struct dirent *entry; listing && status == WEFT_OK && (entry = readdir(listing));)
        if (secret_name_is_valid(entry->d_name))
            status = string_list_add(names, entry->d_name, error);
    if (listing)
        closedir(listing);
    if (status != WEFT_OK)
        string_list_free(names);
    string_list_sort(names);
    return status;
}
