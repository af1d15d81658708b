/*
 * cmd_why.c: `reeve why`: where a conversation, an agent, a task or a machine stands, why, and what
 * comes next.
 *
 * The answer is the server's (conversation.why, agent.why, task.why, machine.why), with its
 * sentence; here it is laid out (why_page.h).
 */
#include "cli/agent_name.h"
#include "cli/connect.h"
#include "cli/print.h"
#include "cli/verbs.h"
#include "cli/why_page.h"

enum { TITLE_CHARS_MAX = 60, SUBJECT_BYTES_MAX = 2048, COMMAND_BYTES_MAX = 1024 };

static void add_clean(struct buf *out, const struct json *why, const char *key)
{
    print_clean(out, json_get_text(why, key), PRINT_TEXT_CHARS_MAX);
}

/* ---- what may be asked for ---- */

static int write_agent(const char *word, struct json_out *w, struct err *err)
{
    struct agent_name name;
    int r = agent_name_parse(word, &name, err);
    if (r < 0)
        return r;
    agent_name_write(&name, w);
    json_end(w);
    return 0;
}

static void add_agent(struct buf *out, const struct json *why, struct str title)
{
    (void)title;
    buf_addz(out, "Agent ");
    add_clean(out, why, "agent");
    buf_addz(out, " (");
    add_clean(out, why, "view");
    buf_addc(out, ')');
}

static int write_conversation(const char *word, struct json_out *w, struct err *err)
{
    int64_t number;
    int r = cli_conversation(word, &number, err);
    if (r < 0)
        return r;
    json_object(w, NULL);
    json_int(w, "conversation", number);
    json_end(w);
    return 0;
}

static void add_conversation(struct buf *out, const struct json *why, struct str title)
{
    buf_addf(out, "Conversation %lld", (long long)json_get_int(why, "conversation", -1));
    if (title.n) {
        buf_addz(out, " \"");
        print_clean(out, title, TITLE_CHARS_MAX);
        buf_addc(out, '"');
    }
    buf_addz(out, " (");
    add_clean(out, why, "status");
    buf_addc(out, ')');
}

static int write_task(const char *word, struct json_out *w, struct err *err)
{
    int64_t number;
    if (!str_to_int(str_of(word), &number) || number <= 0)
        return err_set(err, ERR_USAGE, "'%s' is no task; give its number, like 7", word);
    json_object(w, NULL);
    json_int(w, "task", number);
    json_end(w);
    return 0;
}

static void add_task(struct buf *out, const struct json *why, struct str title)
{
    (void)title;
    buf_addf(out, "Task %lld (", (long long)json_get_int(why, "task", -1));
    add_clean(out, why, "status");
    buf_addz(out, ") of ");
    add_clean(out, why, "agent");
}

static int write_machine(const char *word, struct json_out *w, struct err *err)
{
    (void)err;
    json_object(w, NULL);
    json_stringz(w, "machine", word);
    json_end(w);
    return 0;
}

static void add_machine(struct buf *out, const struct json *why, struct str title)
{
    (void)title;
    buf_addz(out, "Machine ");
    add_clean(out, why, "machine");
    buf_addz(out, " (");
    add_clean(out, why, "status");
    buf_addc(out, ')');
}

static const struct subject {
    const char *word; /* the first of two words; NULL: it is known by its form */
    const char *method;
    int (*write)(const char *word, struct json_out *w, struct err *err);
    void (*add)(struct buf *out, const struct json *why, struct str title);
    const char *title; /* the method that knows its title; NULL: it has none */
} subjects[] = {
    {NULL, "conversation.why", write_conversation, add_conversation, "conversation.get"},
    {NULL, "agent.why", write_agent, add_agent, NULL},
    {"task", "task.why", write_task, add_task, NULL},
    {"machine", "machine.why", write_machine, add_machine, NULL},
};

static int find_subject(const struct cli_args *args, const struct subject **ret, struct err *err)
{
    if (args->word_count == 1) {
        *ret = &subjects[strchr(args->words[0], ':') != NULL];
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
        if (subjects[i].word && strcmp(args->words[0], subjects[i].word) == 0) {
            *ret = &subjects[i];
            return 0;
        }
    return err_set(err, ERR_USAGE,
                   "'%s %s' is neither a task nor a machine; try 'reeve why task 7'",
                   args->words[0], args->words[1]);
}

/* ---- the verb ---- */

static void add_page(struct buf *out, const struct subject *subject, const struct cli_args *args,
                     const struct json *why, struct str title)
{
    _cleanup_buf_ struct buf name = BUF_INIT(SUBJECT_BYTES_MAX),
                             command = BUF_INIT(COMMAND_BYTES_MAX);
    subject->add(&name, why, title);
    buf_addz(&command, "reeve why");
    for (size_t i = 0; i < args->word_count; i++) {
        buf_addc(&command, ' ');
        print_clean(&command, str_of(args->words[i]), TITLE_CHARS_MAX);
    }
    why_page_add(out, buf_str(&name), why, buf_str(&command), cli_flag(args, "all"));
}

static int run(const struct cli_args *args, struct err *err)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    _cleanup_buf_ struct buf params = BUF_INIT(PARAMS_BYTES_MAX), out = BUF_INIT(PRINT_BYTES_MAX);
    struct json_out w = JSON_OUT(&params);
    const struct subject *subject = NULL;
    const struct json *why, *titled = NULL;
    int r = find_subject(args, &subject, err);
    if (r == 0)
        r = subject->write(args->words[args->word_count - 1], &w, err);
    if (r == 0)
        r = cli_call(args, subject->method, &params, &a, &why, err);
    if (r < 0)
        return r;
    if (cli_flag(args, "json"))
        return print_result(why, err);
    if (subject->title)
        r = cli_call(args, subject->title, &params, &a, &titled, err);
    if (r < 0)
        return r;
    add_page(&out, subject, args, why, json_get_text(titled, "title"));
    return print_flush(&out, err);
}

static const struct verb_option options[] = {
    {"all", 0, NULL, 0, "all of it, also on a terminal, where it is twenty lines otherwise"},
    OPTIONS_END,
};

const struct verb verb_why = {
    .name = "why",
    .synopsis = "WHAT [NUMBER|NAME]",
    .summary = "tell where something stands, why, what to do, and what happens next",
    .details =
        "12 is a conversation, 12:builder an agent of it, 'task 7' a task, 'machine m1' a "
        "machine.\n"
        "One sentence with the cause, the next move that will really happen and what to type; "
        "then\n"
        "the evidence with its age, the clocks that are counting and what was done so far.\n"
        "Everything is computed from what the rules themselves act on; docs/why.md lists every\n"
        "cause.",
    .flags = VERB_CLIENT | VERB_JSON,
    .options = options,
    .run = run,
};
