/* receipt.c: see receipt.h. */
#include "cli/receipt.h"

#include "base/buf.h"
#include "cli/print.h"

int receipt_print(const struct cli_args *args, const struct json *result, struct err *err)
{
    if (cli_flag(args, "json"))
        return print_result(result, err);
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    buf_addf(
        &out,
        "%lld:%lld.%lld seq=%lld id=%lld ts=", (long long)json_get_int(result, "conversation", -1),
        (long long)json_get_int(result, "turn", -1), (long long)json_get_int(result, "event", -1),
        (long long)json_get_int(result, "seq", -1), (long long)json_get_int(result, "id", -1));
    print_clean(&out, json_get_text(result, "ts"), PRINT_TEXT_CHARS_MAX);
    buf_addc(&out, '\n');
    return print_flush(&out, err);
}
