/* agent_name.c: see agent_name.h. */
#include "cli/agent_name.h"

#include <string.h>

int agent_name_parse(const char *word, struct agent_name *ret, struct err *err)
{
    const char *colon = strchr(word, ':');
    struct str number = {word, colon ? (size_t)(colon - word) : 0};
    int64_t conversation;
    if (!colon || !colon[1] || !str_to_int(number, &conversation) || conversation < 0)
        return err_set(err, ERR_USAGE, "'%s' is no agent; write CONVERSATION:ROLE, like 12:builder",
                       word);
    *ret = (struct agent_name){.conversation = conversation, .role = colon + 1};
    return 0;
}

void agent_name_write(const struct agent_name *name, struct json_out *w)
{
    json_object(w, NULL);
    json_int(w, "conversation", name->conversation);
    json_stringz(w, "role", name->role);
}
