/* task_call.c: see task_call.h. */
#include "cli/task_call.h"

#include "cli/connect.h"
#include "cli/input.h"
#include "cli/print.h"

/* ---- the call ---- */

void task_call_write(struct buf *out, const struct json *task)
{
    struct str held = json_get_text(task, "held");
    buf_addf(out, "task %lld %lld:", (long long)json_get_int(task, "task", -1),
             (long long)json_get_int(task, "conversation", -1));
    print_clean(out, json_get_text(task, "role"), PRINT_TEXT_CHARS_MAX);
    buf_addc(out, ' ');
    print_clean(out, json_get_text(task, "status"), PRINT_TEXT_CHARS_MAX);
    buf_addf(out, " epoch=%lld attempts=%lld", (long long)json_get_int(task, "epoch", -1),
             (long long)json_get_int(task, "attempts", -1));
    if (held.n) {
        buf_addz(out, " held=");
        print_clean(out, held, PRINT_TEXT_CHARS_MAX);
    }
    buf_addc(out, '\n');
}

/* The task of the answer, or for task.progress how long the claim lasts. */
static void show_task(struct buf *out, const struct json *result)
{
    const struct json *task = json_get(result, "task");
    if (task && task->type == JSON_OBJECT) {
        task_call_write(out, task);
        return;
    }
    buf_addz(out, "active until ");
    print_clean(out, json_get_text(result, "activeUntil"), PRINT_TEXT_CHARS_MAX);
    buf_addc(out, '\n');
}

/* ---- params ---- */

int task_call_begin(struct json_out *w, const struct cli_args *args, bool has_epoch,
                    struct err *err)
{
    int64_t task, epoch = 0;
    if (!str_to_int(str_of(args->words[0]), &task) || task < 1)
        return err_set(err, ERR_USAGE, "'%s' is no number of a task", args->words[0]);
    if (has_epoch && cli_int(args, "epoch", 0, &epoch, err) < 0)
        return -ERR_USAGE;
    json_object(w, NULL);
    json_int(w, "task", task);
    if (has_epoch)
        json_int(w, "epoch", epoch);
    return 0;
}

void task_call_add(struct json_out *w, const struct cli_args *args, const char *option,
                   const char *param)
{
    const char *value = cli_value(args, option);
    if (value)
        json_stringz(w, param, value);
}

int task_call_add_json(struct json_out *w, const struct cli_args *args, const char *option,
                       const char *param, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    const char *text = cli_value(args, option);
    const struct json *value;
    if (!text)
        return 0;
    int r = input_json(&a, str_of(text), option, &value, err);
    if (r == 0)
        json_value(w, param, value);
    return r;
}

int task_call_add_text_or_json(struct json_out *w, const struct cli_args *args, size_t word,
                               const char *option, const char *param, struct err *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(INPUT_BYTES_MAX);
    if (args->word_count <= word)
        return task_call_add_json(w, args, option, param, err);
    if (cli_value(args, option))
        return err_set(err, ERR_USAGE, "a text and --%s say two things; give one of them", option);
    int r = input_text(args->words[word], &text, err);
    if (r == 0)
        json_string(w, param, buf_str(&text));
    return r;
}

int task_call_end(const struct cli_args *args, const char *method, struct json_out *w, int r,
                  task_call_show_fn *show, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf out = BUF_INIT(PRINT_BYTES_MAX);
    const struct json *result;
    if (r < 0)
        return r;
    json_end(w);
    r = cli_call(args, method, w->buf, &a, &result, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(result, err);
    (show ? show : show_task)(&out, result);
    return print_flush(&out, err);
}
