/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/snapshot/internal/secret_files.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <errno.h>
#include <pcre2.h>
#include <string.h>
#include <unistd.h>

/* A row for each kind: its name, its patterns, and what a file of it must contain. The last pattern that fits decides. Names with a slash fit below any directory by their "**". */
static const struct secret_kind kinds[] = {
    {"SSH keys", ".ssh/", {NULL}},
    {"SSH key", "id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk", {NULL}},
    {"PuTTY key", "*.ppk", {NULL}},
    {"GnuPG keys", ".gnupg/", {NULL}},
    {"passwords", ".password-store/ **/.local/share/keyrings/ .netrc _netrc .pgpass .my.cnf .htpasswd *.kdbx", {NULL}},
    {"Git credentials", ".git-credentials **/.config/git/credentials", {NULL}},
    {"GitHub token", "**/.config/gh/hosts.yml **/.config/hub", {NULL}},
    {"GitLab token", "**/.config/glab-cli/config.yml", {NULL}},
    {"Weft token", "**/weft/token", {NULL}},
    {"AWS credentials", "**/.aws/credentials **/.aws/cli/cache/ **/.aws/sso/cache/", {NULL}},
    {"S3 credentials", ".s3cfg", {NULL}},
    {"cloud credentials", ".boto", {NULL}},
    {"Azure credentials", ".azure/", {NULL}},
    {"Google Cloud credentials", "**/.config/gcloud/ application_default_credentials.json", {NULL}},
    {"service account", "service-account*.json service_account*.json", {NULL}},
    {"OAuth secret", "client_secret*.json", {NULL}},
    {"credentials", "credentials.json", {NULL}},
    {"Docker credentials", "**/.docker/config.json .dockercfg", {NULL}},
    {"registry credentials", "**/containers/auth.json", {NULL}},
    {"Kubernetes credentials", "**/.kube/config kubeconfig *.kubeconfig", {NULL}},
    {"Vault token", ".vault-token", {NULL}},
    {"Terraform state", "*.tfstate *.tfstate.backup", {NULL}},
    {"Terraform credentials", ".terraformrc credentials.tfrc.json", {NULL}},
    {"Hugging Face token", "**/.huggingface/token **/huggingface/token **/huggingface/stored_tokens", {NULL}},
    {"Kaggle token", "kaggle.json", {NULL}},
    {"PyPI credentials", ".pypirc", {NULL}},
    {"npm token", ".npmrc", {"_auth", "_password"}},
    {"npm token", ".yarnrc.yml", {"npmAuth"}},
    {"Cargo token", "**/.cargo/credentials **/.cargo/credentials.toml", {NULL}},
    {"RubyGems token", "**/.gem/credentials", {NULL}},
    {"key store", "*.p12 *.pfx *.jks *.keystore", {NULL}},
    {"environment file", ".env .env.* .envrc", {NULL}},
    {NULL, ".env.example .env.sample .env.template .env.dist", {NULL}},
    {"shell history",
     ".bash_history .zsh_history .sh_history .histfile fish_history .python_history .node_repl_history "
     ".psql_history .mysql_history .sqlite_history",
     {NULL}},
};

/* ---- names ---- */

weft_status secret_names_open(struct secret_names *names, struct error *error)
{
    weft_status status = WEFT_OK;
    *names = (struct secret_names){0};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        for (const char *at = kinds[i].patterns; status == WEFT_OK && *at; at += *at == ' ') {
            const size_t size = strcspn(at, " ");
            assert(names->patterns.count < SECRET_PATTERNS_MOST);
            names->rows[names->patterns.count] = (struct secret_row){&kinds[i], at[size - 1] == '/'};
            status = ignore_add(&names->patterns, at, size, "the table of secrets", error);
            at += size;
        }
    return status;
}

void secret_names_close(struct secret_names *names)
{
    ignore_free(&names->patterns);
}

const struct secret_kind *secret_names_find(const struct secret_names *names, const char *path, bool directory)
{
    size_t which;
    if (ignore_match(&names->patterns, path, directory, &which) == IGNORE_UNNAMED)
        return NULL;
    const struct secret_row *row = &names->rows[which];
    return row->kind->what && row->directories == directory ? row->kind : NULL;
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
