/* folder.c: see folder.h. */
#include "server/folder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"

enum { TOKEN_BYTES = 32, TOKEN_FILE_BYTES_MAX = 8192 };

static int read_token(const char *path, struct buf *ret, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(TOKEN_FILE_BYTES_MAX);
    int r = file_read(path, &text);
    if (r == -ENOENT)
        return 0;
    if (r < 0)
        return err_set(err, ERR_IO, "cannot read %.160s: %s", path, strerror(-r));
    struct str token = buf_str(&text);
    while (token.n > 0 && (token.p[token.n - 1] == '\n' || token.p[token.n - 1] == ' '))
        token.n--;
    if (token.n < 16)
        return err_set(err, ERR_CONFIG, "%.160s: holds no token of at least 16 characters", path);
    buf_add_str(ret, token);
    return 0;
}

int folder_operator_token(const char *path, struct buf *ret, struct err *err)
{
    _cleanup_free_ char *file = mem_printf("%s/operator.token", path);
    int r = read_token(file, ret, err);
    if (r < 0 || ret->len > 0)
        return r;
    char token[2 * TOKEN_BYTES + 2];
    random_hex(TOKEN_BYTES, token);
    buf_addz(ret, token);
    token[2 * TOKEN_BYTES] = '\n';
    return file_replace(file, (struct str){token, 2 * TOKEN_BYTES + 1}, true, err);
}

int folder_write_server(const char *path, const char *url, struct err *err)
{
    _cleanup_free_ char *file = mem_printf("%s/server.json", path);
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    struct json_out j = JSON_OUT(&b);
    json_object(&j, NULL);
    json_stringz(&j, "url", url);
    json_int(&j, "pid", getpid());
    json_end(&j);
    buf_addc(&b, '\n');
    return file_replace(file, buf_str(&b), true, err);
}

void folder_remove_server(const char *path)
{
    _cleanup_free_ char *file = mem_printf("%s/server.json", path);
    unlink(file);
}
