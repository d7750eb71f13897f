/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/secret_files.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The last pattern that fits decides. Names with a slash fit below any directory by their "**". */
static const struct secret_kind kinds[] = {
    {".ssh/", "SSH keys", {NULL}},
    {"id_rsa", "SSH key", {NULL}},
    {"id_dsa", "SSH key", {NULL}},
    {"id_ecdsa", "SSH key", {NULL}},
    {"id_ecdsa_sk", "SSH key", {NULL}},
    {"id_ed25519", "SSH key", {NULL}},
    {"id_ed25519_sk", "SSH key", {NULL}},
    {"*.ppk", "PuTTY key", {NULL}},
    {".gnupg/", "GnuPG keys", {NULL}},
    {".password-store/", "passwords", {NULL}},
    {"**/.local/share/keyrings/", "passwords", {NULL}},
    {".netrc", "passwords", {NULL}},
    {"_netrc", "passwords", {NULL}},
    {".pgpass", "passwords", {NULL}},
    {".my.cnf", "passwords", {NULL}},
    {".htpasswd", "passwords", {NULL}},
    {"*.kdbx", "passwords", {NULL}},
    {".git-credentials", "Git credentials", {NULL}},
    {"**/.config/git/credentials", "Git credentials", {NULL}},
    {"**/.config/gh/hosts.yml", "GitHub token", {NULL}},
    {"**/.config/hub", "GitHub token", {NULL}},
    {"**/.config/glab-cli/config.yml", "GitLab token", {NULL}},
    {"**/weft/token", "Weft token", {NULL}},
    {"**/.aws/credentials", "AWS credentials", {NULL}},
    {"**/.aws/cli/cache/", "AWS credentials", {NULL}},
    {"**/.aws/sso/cache/", "AWS credentials", {NULL}},
    {".s3cfg", "S3 credentials", {NULL}},
    {".boto", "cloud credentials", {NULL}},
    {".azure/", "Azure credentials", {NULL}},
    {"**/.config/gcloud/", "Google Cloud credentials", {NULL}},
    {"application_default_credentials.json", "Google Cloud credentials", {NULL}},
    {"service-account*.json", "service account", {NULL}},
    {"service_account*.json", "service account", {NULL}},
    {"client_secret*.json", "OAuth secret", {NULL}},
    {"credentials.json", "credentials", {NULL}},
    {"**/.docker/config.json", "Docker credentials", {NULL}},
    {".dockercfg", "Docker credentials", {NULL}},
    {"**/containers/auth.json", "registry credentials", {NULL}},
    {"**/.kube/config", "Kubernetes credentials", {NULL}},
    {"kubeconfig", "Kubernetes credentials", {NULL}},
    {"*.kubeconfig", "Kubernetes credentials", {NULL}},
    {".vault-token", "Vault token", {NULL}},
    {"*.tfstate", "Terraform state", {NULL}},
    {"*.tfstate.backup", "Terraform state", {NULL}},
    {".terraformrc", "Terraform credentials", {NULL}},
    {"credentials.tfrc.json", "Terraform credentials", {NULL}},
    {"**/.huggingface/token", "Hugging Face token", {NULL}},
    {"**/huggingface/token", "Hugging Face token", {NULL}},
    {"**/huggingface/stored_tokens", "Hugging Face token", {NULL}},
    {"kaggle.json", "Kaggle token", {NULL}},
    {".pypirc", "PyPI credentials", {NULL}},
    {".npmrc", "npm token", {"_auth", "_password"}},
    {".yarnrc.yml", "npm token", {"npmAuth"}},
    {"**/.cargo/credentials", "Cargo token", {NULL}},
    {"**/.cargo/credentials.toml", "Cargo token", {NULL}},
    {"**/.gem/credentials", "RubyGems token", {NULL}},
    {"*.p12", "key store", {NULL}},
    {"*.pfx", "key store", {NULL}},
    {"*.jks", "key store", {NULL}},
    {"*.keystore", "key store", {NULL}},
    {".env", "environment file", {NULL}},
    {".env.*", "environment file", {NULL}},
    {".envrc", "environment file", {NULL}},
    {".env.example", NULL, {NULL}},
    {".env.sample", NULL, {NULL}},
    {".env.template", NULL, {NULL}},
    {".env.dist", NULL, {NULL}},
    {".bash_history", "shell history", {NULL}},
    {".zsh_history", "shell history", {NULL}},
    {".sh_history", "shell history", {NULL}},
    {".histfile", "shell history", {NULL}},
    {"fish_history", "shell history", {NULL}},
    {".python_history", "shell history", {NULL}},
    {".node_repl_history", "shell history", {NULL}},
    {".psql_history", "shell history", {NULL}},
    {".mysql_history", "shell history", {NULL}},
    {".sqlite_history", "shell history", {NULL}},
};

#define KINDS (sizeof kinds / sizeof *kinds)

/* ---- names ---- */

weft_status secret_names_open(struct secret_names *names, struct error *error)
{
    weft_status status = WEFT_OK;
    *names = (struct secret_names){0};
    for (size_t i = 0; status == WEFT_OK && i < KINDS; i++) /* one rule each, so that a rule's number is its line's */
        status = ignore_add(&names->names, kinds[i].pattern, strlen(kinds[i].pattern), "the table of secrets", error);
    return status;
}

void secret_names_close(struct secret_names *names)
{
    ignore_free(&names->names);
}

static bool is_for_directories(const struct secret_kind *kind)
{
    return kind->pattern[strlen(kind->pattern) - 1] == '/';
}

const struct secret_kind *secret_names_find(const struct secret_names *names, const char *path, bool directory)
{
    size_t which;
    if (ignore_match(&names->names, path, directory, &which) == IGNORE_UNNAMED)
        return NULL;
    const struct secret_kind *kind = &kinds[which];
    return kind->what && is_for_directories(kind) == directory ? kind : NULL;
}

/* ---- content ---- */

#define OVERLAP 512 /* bytes of a piece that are looked at again with the next: a header and what is around it */

static bool is_base64(char letter)
{
    return isalnum((unsigned char)letter) || letter == '+' || letter == '/';
}

/* Whether only blanks stand between the beginning of the line and `at`. */
static bool begins_line(const char *text, const char *at)
{
    while (at > text && (at[-1] == ' ' || at[-1] == '\t'))
        at--;
    return at == text || at[-1] == '\n' || at[-1] == '\r' || (uint8_t)at[-1] == 0xBF /* the end of a byte order mark */;
}

/* Behind "-----BEGIN ": "RSA PRIVATE KEY-----" and what follows it. NULL: something else. */
static const char *header_end(const char *at, const char *end)
{
    static const char *const names[] = {"PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"};
    for (const char *most = end - at > 64 ? at + 64 : end; at < most; at++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if ((size_t)(end - at) >= strlen(names[i]) && memcmp(at, names[i], strlen(names[i])) == 0)
                return at + strlen(names[i]);
        if (!isupper((unsigned char)*at) && !isdigit((unsigned char)*at) && *at != ' ')
            return NULL;
    }
    return NULL;
}

/* Whether a key follows a header that begins at `begin` and ends at `at`. */
static bool key_follows(const char *text, const char *begin, const char *at, const char *end)
{
    bool own_line = begins_line(text, begin);
    while (at < end && (*at == ' ' || *at == '\r'))
        at++;
    if (at == end || *at == '\n') {
        const char *line = at < end ? at + 1 : at;
        size_t length = 0;
        while (line + length < end && is_base64(line[length]))
            length++;
        return own_line || length >= 16;
    }
    for (int i = 0; i < 2 && end - at >= 2 && at[0] == '\\' && (at[1] == 'r' || at[1] == 'n'); i++) {
        bool newline = at[1] == 'n';
        at += 2;
        if (newline)
            return at < end && is_base64(*at);
    }
    return false;
}

static bool has(const char *text, const char *end, const char *word)
{
    return memmem(text, (size_t)(end - text), word, strlen(word)) != NULL;
}

/* A line that begins with `word`. */
static bool has_line(const char *text, const char *end, const char *word)
{
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, strlen(word))); at++)
        if (begins_line(text, at))
            return true;
    return false;
}

static bool has_private_key(const char *text, const char *end)
{
    static const char begin[] = "-----BEGIN ";
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), begin, sizeof begin - 1)); at++) {
        const char *behind = header_end(at + sizeof begin - 1, end);
        if (behind && key_follows(text, at, behind, end))
            return true;
    }
    return has_line(text, end, "PuTTY-User-Key-File-") ||
           has_line(text, end, "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY") || has_line(text, end, "AGE-SECRET-KEY-1");
}

const char *secret_content(int file, const struct secret_kind *kind, uint8_t *piece, size_t room)
{
    for (off_t at = 0;;) {
        size_t size = 0;
        ssize_t n = 1;
        while (size < room && n != 0) {
            n = pread(file, piece + size, room - size, at + (off_t)size);
            if (n < 0 && errno != EINTR)
                return NULL;
            size += n > 0 ? (size_t)n : 0;
        }
        const char *text = (const char *)piece, *end = text + size;
        if (has_private_key(text, end))
            return "private key";
        for (size_t i = 0; kind && i < 2 && kind->only_with[i]; i++)
            if (has(text, end, kind->only_with[i]))
                return kind->what;
        if (size < room)
            return NULL;
        at += (off_t)(room - OVERLAP);
    }
}
