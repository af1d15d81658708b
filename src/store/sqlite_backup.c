/*
 * sqlite_backup.c: a copy of the store while it works.
 *
 * sqlite3_backup reads from the one connection there is. Pages that a commit changes after they
 * were copied are written to the copy at that commit, so the finished copy is the store as of the
 * last step, not of the first. A transaction that is rolled back starts the copying over.
 *
 * The copy is a new file or none: it has no journal of its own, it is removed unless it was
 * finished, and finished means that the file and its directory entry are on disk. A failed fsync of
 * the copy costs the copy only; nothing acknowledged depends on it.
 */
#include "store/sqlite_store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/planted.h"

struct store_backup {
    struct store *store;
    sqlite3 *db;
    sqlite3_backup *copy;
    char *path;
    int fd; /* -1 with a VFS of tests, which has no descriptors */
    bool created, finished;
};

static int fail(struct store_backup *b, int rc, struct err *err)
{
    REQUIRE_F(rc != SQLITE_NOMEM, "backup to %s", b->path);
    return err_set(err, rc == SQLITE_FULL ? ERR_UNAVAILABLE : ERR_IO, "backup to %s: %s", b->path,
                   sqlite3_errstr(rc));
}

static int create_file(struct store_backup *b, struct err *err)
{
    if (b->store->vfs)
        return 0;
    int fd = sqlite_create_private(b->path);
    if (fd == -EEXIST)
        return err_set(err, ERR_INVALID_PARAMS, "%s exists", b->path);
    if (fd < 0)
        return err_set(err, ERR_IO, "cannot create %s: %s", b->path, strerror(-fd));
    b->fd = fd;
    return 0;
}

static int open_copy(struct store_backup *b, struct err *err)
{
    struct store *s = b->store;
    int r = create_file(b, err);
    if (r < 0)
        return r;
    b->created = true;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (s->vfs ? SQLITE_OPEN_CREATE : 0);
    int rc = sqlite3_open_v2(b->path, &b->db, flags, s->vfs);
    if (rc == SQLITE_OK)
        rc = sqlite_exec(b->db, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF;"
                                "PRAGMA synchronous = FULL; PRAGMA cache_size = -256");
    if (rc == SQLITE_OK && planted(BACKUP_NOT_SYNCED))
        rc = sqlite_exec(b->db, "PRAGMA synchronous = OFF");
    if (rc != SQLITE_OK)
        return fail(b, rc, err);
    b->copy = sqlite3_backup_init(b->db, "main", s->db, "main");
    return b->copy ? 0 : fail(b, sqlite3_errcode(b->db), err);
}

int store_backup_begin(struct store *s, const char *path, struct store_backup **ret,
                       struct err *err)
{
    struct store_backup *b = mem_zalloc(sizeof *b);
    *b = (struct store_backup){.store = s, .path = mem_strdup(path), .fd = -1};
    int r = open_copy(b, err);
    if (r < 0) {
        store_backup_free(b);
        return r;
    }
    *ret = b;
    return 0;
}

/* SQLite has synced the content; what is missing is its name. */
static int sync_folder(const char *path)
{
    _cleanup_free_ char *copy = mem_strdup(path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static int close_copy(struct store_backup *b)
{
    int rc = sqlite3_backup_finish(TAKE_PTR(b->copy));
    int rc_close = sqlite3_close(TAKE_PTR(b->db));
    return rc != SQLITE_OK ? rc : rc_close;
}

static int finish(struct store_backup *b, struct err *err)
{
    int rc = close_copy(b);
    if (rc != SQLITE_OK)
        return fail(b, rc, err);
    int r = b->store->vfs ? 0 : sync_folder(b->path);
    if (r < 0)
        return err_set(err, ERR_IO, "backup to %s: %s", b->path, strerror(-r));
    b->finished = true;
    return STORE_DONE;
}

int store_backup_step(struct store_backup *b, int pages, struct err *err)
{
    REQUIRE(!store_in_transaction(b->store));
    REQUIRE(b->copy);
    int rc = sqlite3_backup_step(b->copy, pages);
    if (rc == SQLITE_DONE)
        return finish(b, err);
    if (rc != SQLITE_OK)
        return fail(b, rc, err);
    if (b->fd >= 0) /* so that the fsync at the end finds little to do, and holds up no tick */
        sync_file_range(b->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return STORE_ROW;
}

struct store_backup *store_backup_free(struct store_backup *b)
{
    if (!b)
        return NULL;
    close_copy(b);
    if (b->created && !b->finished) {
        sqlite3_vfs *vfs = sqlite3_vfs_find(b->store->vfs);
        vfs->xDelete(vfs, b->path, 0);
    }
    if (b->fd >= 0)
        close(b->fd);
    free(b->path);
    free(b);
    return NULL;
}
