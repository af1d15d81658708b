/*
 * spawns_recover.c: what an earlier machine left in this folder.
 *
 * A crash at any point leaves a folder per spawn, which says enough:
 *     no `about`           nothing was started; removed
 *     `ended`              told, unless the outbox says that it was
 *     another boot         nothing of it lives; told as an end nobody saw
 *     `seen`, shim alive   followed again: pidfd, line (L56)
 *     `seen`, shim gone    orphaned
 *     no `seen`            the shim has just begun, or never did. If it listens it is followed;
 *                          else whatever carries the mark is killed, and the server, which has seen
 *                          nothing confirmed, gives the command again
 */
#include "machine/spawn.h"

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/mem.h"
#include "base/planted.h"
#include "machine/tree.h"

static void recover_ended(struct spawn *sp, const struct ended *e)
{
    spawn_end(sp, e, planted(END_UNTOLD) || facts_has_last_word(sp->table->config.outbox, sp->id));
}

static void recover_other_boot(struct spawn *sp)
{
    const struct ended e = {.ending = ENDING_EXITED,
                            .code = -1,
                            .text = STR("the host was started again: nobody saw how it ended")};
    recover_ended(sp, &e);
}

static void follow(struct spawn *sp, int pidfd, int line, enum spawn_state state)
{
    spawn_set_state(sp, state, "found again");
    spawn_follow(sp, pidfd, line);
    log_info("spawn", "found again", "agent=%lld:%s kind=%s spawn=%s pid=%d",
             (long long)sp->about.conversation, sp->about.role, sp->about.kind, sp->id,
             (int)sp->agent.pid);
}

static void recover_seen(struct spawn *sp, const struct seen *seen)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct ended ended;
    sp->shim = seen->shim;
    sp->agent = seen->agent;
    int pidfd = tree_open(&seen->shim);
    if (pidfd >= 0)
        follow(sp, pidfd, spawn_folder_connect(sp->folder), SPAWN_RUNNING);
    else if (ended_read(&a, sp->folder, &ended, NULL) == 0) /* just now */
        recover_ended(sp, &ended);
    else
        spawn_orphan(sp);
}

/* Who listens at the other end. -1: it has gone in between. */
static int open_peer(int line, struct process_id *ret)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(line, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
        tree_process_id(peer.pid, ret, NULL) < 0)
        return -1;
    return tree_open(ret);
}

/* Its shim has said nothing yet. True if it is there, and is followed. */
static bool recover_begun(struct spawn *sp)
{
    int line = spawn_folder_connect(sp->folder);
    int pidfd = line >= 0 ? open_peer(line, &sp->shim) : -1;
    if (pidfd >= 0) {
        follow(sp, pidfd, line, SPAWN_STARTING);
        return true;
    }
    if (line >= 0)
        close(line);
    while (tree_kill_marked(sp->id))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return false;
}

/* False if there is nothing to be known about it. */
static bool recover(struct spawn *sp)
{
    _cleanup_(arena_release) struct arena a = ARENA_INIT;
    struct spawns *s = sp->table;
    struct ended ended;
    struct seen seen;
    if (spawn_folder_about(sp->folder, &sp->about, NULL) < 0)
        return false;
    bool is_this_boot = strcmp(sp->about.boot_id, s->config.boot_id) == 0;
    bool is_seen = seen_read(sp->folder, &seen, NULL) == 0;
    if (ended_read(&a, sp->folder, &ended, NULL) == 0)
        recover_ended(sp, &ended);
    else if (is_seen && !is_this_boot)
        recover_other_boot(sp);
    else if (is_seen)
        recover_seen(sp, &seen);
    else
        return is_this_boot && recover_begun(sp);
    return true;
}

int spawns_recover(struct spawns *s, struct err *err)
{
    _cleanup_free_ char *path = mem_printf("%s/spawns", s->config.data_folder);
    int r = file_make_folder(path, err);
    DIR *folders = r == 0 ? opendir(path) : NULL;
    if (!folders)
        return r < 0 ? r : file_error(err, "read", path);
    for (struct dirent *e; (e = readdir(folders));) {
        if (!spawn_id_is_valid(str_of(e->d_name)))
            continue;
        struct spawn *sp = spawn_add(s, str_of(e->d_name), SPAWN_WAITING);
        if (recover(sp))
            continue;
        spawn_folder_remove(sp->folder);
        sp->state = SPAWN_ENDED;
        sp->is_fact_gone = true;
        spawn_forget_if_over(sp);
    }
    closedir(folders);
    return 0;
}
