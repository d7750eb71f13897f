/* SPDX-License-Identifier: Apache-2.0 */
/* Files that hold credentials are known by their names and by their content; others are not taken for such. */
#include "platform/snapshot/internal/secret_files.h"

#include "temporary.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static void knows_names(void **state)
{
    static const char *const secrets[] = {
        "id_rsa",
        "keys/id_ed25519",
        ".netrc",
        ".git-credentials",
        ".aws/credentials",
        "home/.docker/config.json",
        ".kube/config",
        ".pypirc",
        ".env",
        "app/.env.production",
        ".config/weft/token",
        ".cache/huggingface/token",
        ".config/gh/hosts.yml",
        "credentials.json",
        "service-account-ml.json",
        "x.p12",
        "x.keystore",
        "x.kdbx",
        ".vault-token",
        "terraform.tfstate",
        ".bash_history",
        ".zsh_history",
    };
    static const char *const others[] = {"id_rsa.pub",  ".env.example",       ".env.template",  "config.json",
                                         "environment", "tokens.py",          "credentials.py", "config",
                                         "token",       "docker/config.json", "x.pem",          ".ssh"};
    struct secret_names names;
    assert_int_equal(secret_names_open(&names, NULL), WEFT_OK);
    for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
        if (!secret_names_find(&names, secrets[i], false))
            fail_msg("'%s' is not known", secrets[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (secret_names_find(&names, others[i], false))
            fail_msg("'%s' is taken for a secret", others[i]);
    assert_string_equal(secret_names_find(&names, "a/.ssh", true)->what, "SSH keys");
    assert_non_null(secret_names_find(&names, ".config/gcloud", true));
    assert_non_null(secret_names_find(&names, ".gnupg", true));
    assert_null(secret_names_find(&names, ".env", true)); /* as some call a virtual environment */
    const struct secret_kind *npm = secret_names_find(&names, ".npmrc", false);
    assert_non_null(npm);
    assert_string_equal(npm->only_with[0], "_auth");
    secret_names_close(&names);
}

static const char *content(const char *directory, const char *text, size_t size, size_t before,
                           const struct secret_kind *kind)
{
    static uint8_t piece[4096];
    const char *path = temporary_path(directory, "file");
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < before; i++)
        fputc(i % 70 ? 'x' : '\n', file);
    if (before)
        fputc('\n', file);
    fwrite(text, 1, size, file);
    fclose(file);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    const char *what = secret_content(descriptor, kind, piece, sizeof piece);
    close(descriptor);
    return what;
}

static void knows_keys(void **state)
{
    static const char *const keys[] = {
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "-----BEGIN PRIVATE KEY-----\r\nMIIE",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIE",
        "-----BEGIN EC PRIVATE KEY-----\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ",
        "\xEF\xBB\xBF-----BEGIN RSA PRIVATE KEY-----\nMIIE",
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMII",
        "key: |\n    -----BEGIN PRIVATE KEY-----\n    MII",
        "{\"private_key\": \"-----BEGIN PRIVATE KEY-----\\nMIIEvQ\\n\"}",
        "KEY=\"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\"",
        "PuTTY-User-Key-File-3: ssh-ed25519\n",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n",
        "# created\nAGE-SECRET-KEY-1QQ",
    };
    static const char *const others[] = {
        "",
        "-----BEGIN CERTIFICATE-----\nMIID\n",
        "-----BEGIN PUBLIC KEY-----\nMIID\n",
        "if line == \"-----BEGIN RSA PRIVATE KEY-----\":\n",
        "text = '-----BEGIN RSA PRIVATE KEY-----\\n' + body",
        "A key begins with -----BEGIN PRIVATE KEY-----\nand ends later.",
        "#define HEADER \"PuTTY-User-Key-File-2\"\n",
    };
    const char *directory = temporary_directory();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t before = 0; before < 20000; before += before == 0 ? 3600 : before < 4300 ? 21 : 5000)
            if (!content(directory, keys[i], strlen(keys[i]), before, NULL) && !(before && (uint8_t)keys[i][0] == 0xEF))
                fail_msg("no key after %zu bytes: %s", before, keys[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (content(directory, others[i], strlen(others[i]), 0, NULL))
            fail_msg("taken for a key: %s", others[i]);
    const struct secret_kind npm = {"npm token", ".npmrc", {"_auth"}};
    assert_string_equal(content(directory, "//r/:_authToken=1\n", 18, 0, &npm), "npm token");
    assert_null(content(directory, "registry=https://r\n", 19, 0, &npm));
    file_remove_tree(directory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_names),
        cmocka_unit_test(knows_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
