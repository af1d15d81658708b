/*
 * sqlite_error.c: what a failed SQLite call means.
 *
 * One table. The same result code means different things when opening (say what is wrong with the
 * file), reading (this answer cannot be given) and writing (this tick cannot be taken; the next may
 * be). Three kinds of failure end the process, because each way of going on is worse:
 *
 *   - A failed fsync. The kernel has reported the error once and may have marked the lost pages
 *     clean, so a second fsync would succeed without having written them (L80).
 *   - A damaged file. What is read from it is no longer what was acknowledged.
 *   - No memory, as everywhere else in the program (mem.h).
 *
 * Exit status 70 asks the service manager for a restart; the ordinary start recovers from the WAL.
 */
#include "store/sqlite_store.h"

#include <unistd.h>

#include "base/log.h"
#include "base/planted.h"

enum { EXIT_STORE_LOST = 70, FATAL = -1 };

static store_fatal_fn *fatal_hook;

void store_set_fatal_hook(store_fatal_fn *hook)
{
    fatal_hook = hook;
}

// clang-format off
static const struct meaning {
    int rc;
    int code[3]; /* by enum sqlite_doing; FATAL or an err_code */
} meanings[] = {
    /*                         opening          reading          writing */
    {SQLITE_IOERR_FSYNC,      {FATAL,           FATAL,           FATAL}},
    {SQLITE_IOERR_DIR_FSYNC,  {FATAL,           FATAL,           FATAL}},
    {SQLITE_IOERR_NOMEM,      {FATAL,           FATAL,           FATAL}},
    {SQLITE_NOMEM,            {FATAL,           FATAL,           FATAL}},
    {SQLITE_CORRUPT,          {ERR_IO,          FATAL,           FATAL}},
    {SQLITE_NOTADB,           {ERR_CONFIG,      FATAL,           FATAL}},
    {SQLITE_BUSY,             {ERR_LOCKED,      ERR_UNAVAILABLE, ERR_UNAVAILABLE}},
    {SQLITE_READONLY,         {ERR_CONFIG,      ERR_UNAVAILABLE, ERR_UNAVAILABLE}},
    {SQLITE_FULL,             {ERR_UNAVAILABLE, ERR_UNAVAILABLE, ERR_UNAVAILABLE}},
    {SQLITE_IOERR,            {ERR_IO,          ERR_IO,          ERR_UNAVAILABLE}},
    {SQLITE_CANTOPEN,         {ERR_IO,          ERR_IO,          ERR_UNAVAILABLE}},
    {SQLITE_TOOBIG,           {ERR_INTERNAL,    ERR_TOO_LARGE,   ERR_TOO_LARGE}},
};
// clang-format on

static int code_of(int rc, enum sqlite_doing doing)
{
    for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
        if (meanings[i].rc == rc)
            return meanings[i].code[doing];
    return rc == (rc & 0xff) ? ERR_INTERNAL : code_of(rc & 0xff, doing);
}

_noreturn_ static void end_process(struct store *s, int rc, const char *why)
{
    log_error("store", "lost", "path=%s sqlite=%d error=%s", log_quote(str_of(s->path)), rc,
              log_quote(str_of(why)));
    if (fatal_hook)
        fatal_hook(rc);
    _exit(EXIT_STORE_LOST);
}

void store_give_up(struct store *s, const char *why)
{
    end_process(s, sqlite3_errcode(s->db), why);
}

int sqlite_fail(struct store *s, int rc, enum sqlite_doing doing, struct err *err)
{
    static const char *const what[] = {
        [DOING_OPEN] = "cannot open the store",
        [DOING_READ] = "cannot read the store",
        [DOING_WRITE] = "the store cannot take writes now",
    };
    int code = code_of(planted(FAILED_SYNC_FORGIVEN) ? rc & 0xff : rc, doing);
    bool sync = rc == SQLITE_IOERR_FSYNC || rc == SQLITE_IOERR_DIR_FSYNC;
    if (code == FATAL)
        end_process(s, rc, sync ? "fsync failed" : sqlite3_errstr(rc));
    if (code == ERR_LOCKED)
        return err_set(err, ERR_LOCKED, "%s is in use by another server", s->path);
    if (code == ERR_INTERNAL)
        return err_set(err, ERR_INTERNAL, "unexpected answer of the store: %s",
                       sqlite3_errmsg(s->db));
    if (doing == DOING_OPEN)
        return err_set(err, (enum err_code)code, "%s %s: %s", what[doing], s->path,
                       sqlite3_errmsg(s->db));
    return err_set(err, (enum err_code)code, "%s: %s", what[doing], sqlite3_errstr(rc));
}
