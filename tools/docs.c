/*
 * docs.c: writes what is generated from tables into docs/, or checks that it is up to date.
 *
 *     docs-tool docs             writes
 *     docs-tool --check docs     exits 1 and names the file if one differs
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/options.h"
#include "cli/help.h"
#include "cli/verbs.h"
#include "rpc/method.h"
#include "watch/cause.h"
#include "watch/ladder.h"

enum { DOCUMENT_BYTES_MAX = 4 << 20 };

static void write_configuration(struct buf *out)
{
    buf_addz(
        out,
        "# Configuration\n\nGenerated from the options table (`src/base/options.h`) by "
        "`make docs`.\n\nSources in rising order: default, file (`section { key = value }`, "
        "given by `--config`), environment, `--set section.key=value`. `reeve config check` "
        "prints what holds and where it came from. [docs/glossary.md](glossary.md) explains the "
        "words, [docs/agents.md](agents.md) the limits that an agent runs into.\n\n");
    options_write_markdown(out);
}

static const struct {
    const char *file;
    void (*write)(struct buf *out);
} documents[] = {
    {"protocol.md", method_write_docs},
    {"cli.md", cli_write_markdown},
    {"configuration.md", write_configuration},
    {"ladder.md", ladder_write_docs},
    {"why.md", cause_write_docs},
};

static bool is_same(const char *path, const struct buf *text)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    char *have = mem_alloc(DOCUMENT_BYTES_MAX);
    size_t n = fread(have, 1, DOCUMENT_BYTES_MAX, f);
    bool same = str_eq((struct str){have, n}, buf_str(text));
    free(have);
    fclose(f);
    return same;
}

static bool put(const char *path, const struct buf *text)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool ok = fwrite(text->data, 1, text->len, f) == text->len;
    return fclose(f) == 0 && ok;
}

/* `reeve serve` is in the list of verbs; the tool documents it without running it. */
int cmd_serve(const struct cli_args *args, struct err *err)
{
    (void)args;
    return err_set(err, ERR_USAGE, "this is the documentation tool");
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    if (argc != 2 && !check) {
        fprintf(stderr, "usage: docs-tool [--check] FOLDER\n");
        return 2;
    }
    int status = 0;
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        _cleanup_free_ char *path = mem_printf("%s/%s", argv[argc - 1], documents[i].file);
        _cleanup_buf_ struct buf text = BUF_INIT(DOCUMENT_BYTES_MAX);
        documents[i].write(&text);
        if (check ? is_same(path, &text) : put(path, &text))
            continue;
        fprintf(stderr, check ? "%s is out of date: make docs\n" : "cannot write %s\n", path);
        status = 1;
    }
    return status;
}
