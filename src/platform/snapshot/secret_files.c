/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/secret_files.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <errno.h>
#include <pcre2.h>
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

/* Private keys, as a regular expression. */
#define BASE64       "[A-Za-z0-9+/]"
#define LINE_BEGIN   "(?:\\A|[\\n\\r\\xBF])[ \\t]*" /* 0xBF is the end of a byte order mark */
#define KEY_HEADER   "-----BEGIN [A-Z0-9 ]{0,63}?PRIVATE KEY(?: BLOCK)?-----[ \\r]*"
#define ON_OWN_LINE  LINE_BEGIN KEY_HEADER "(?:\\z|\\n)"
#define BEFORE_KEY   KEY_HEADER "\\n" BASE64 "{16}"
#define IN_STRING    KEY_HEADER "(?:\\\\r)?\\\\n" BASE64 /* with "\n" after it, as in JSON */
#define OTHER_KEYS   LINE_BEGIN "(?:PuTTY-User-Key-File-|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY|AGE-SECRET-KEY-1)"
#define PRIVATE_KEYS ON_OWN_LINE "|" BEFORE_KEY "|" IN_STRING "|" OTHER_KEYS

static bool secret_has(const char *text, size_t size, const char *word)
{
    return memmem(text, size, word, strlen(word)) != NULL;
}

static bool has_private_key(const char *text, size_t size)
{
    int code;
    PCRE2_SIZE place;
    if (!secret_has(text, size, "PRIVATE KEY") && !secret_has(text, size, "PuTTY-User-Key-File-") &&
        !secret_has(text, size, "AGE-SECRET-KEY-1")) /* nearly all files; this is faster than the expression */
        return false;
    pcre2_code *keys = pcre2_compile((PCRE2_SPTR)PRIVATE_KEYS, PCRE2_ZERO_TERMINATED, 0, &code, &place, NULL);
    if (keys)
        pcre2_jit_compile(keys, PCRE2_JIT_COMPLETE); /* 15 times as fast; a failure does not matter */
    pcre2_match_data *found = keys ? pcre2_match_data_create_from_pattern(keys, NULL) : NULL;
    int result = found ? pcre2_match(keys, (PCRE2_SPTR)text, size, 0, 0, found, NULL) : PCRE2_ERROR_NOMEMORY;
    pcre2_match_data_free(found);
    pcre2_code_free(keys);
    return result != PCRE2_ERROR_NOMATCH; /* after a failure, better left out */
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
        const char *text = (const char *)piece;
        if (has_private_key(text, size))
            return "private key";
        for (size_t i = 0; kind && i < 2 && kind->only_with[i]; i++)
            if (secret_has(text, size, kind->only_with[i]))
                return kind->what;
        if (size < room)
            return NULL;
        at += (off_t)(room - OVERLAP);
    }
}
