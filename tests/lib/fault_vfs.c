/*
 * fault_vfs.c: see fault_vfs.h.
 *
 * There is one object per file name, for ever: deleting it clears `exists`, so an undone deletion
 * brings back what was there. What is created again under the name is another file: it begins
 * empty, and the old one is kept as its ghost until the entry of either is on disk. Losing power
 * leaves one or the other or none, never a mixture of both.
 */
#include "fault_vfs.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/mem.h"

enum { SECTOR_BYTES = 512, FILES_MAX = 16, NAME_BYTES = 512, WAL_HEADER_BYTES = 32 };

struct bytes {
    unsigned char *p;
    size_t n, cap;
};

/* A write; or, without data, a truncation to `offset`. */
struct change {
    size_t offset, n;
    unsigned char *data;
};

struct disk_file {
    char name[NAME_BYTES];
    bool exists, exists_on_disk;
    struct bytes now, disk;
    struct change *pending;
    size_t pending_count, pending_cap;
    bool is_wal, wrote_since_sync, wrote_header_last;
    struct bytes ghost; /* a file of this name that was deleted, but not for good */
    bool has_ghost;
};

struct fault_vfs {
    sqlite3_vfs vfs; /* first: SQLite hands it back */
    char *name;
    uint64_t random;
    struct disk_file files[FILES_MAX];
    size_t file_count;
    unsigned generation; /* of the power */
    bool off;
    enum fault fault;
    uint64_t nth, operations;
    bool forever, struck;
    uint64_t capacity;
    bool skip_commit_syncs, is_paused, is_dying;
    fault_watch_fn *watch;
    void *watch_ctx;
    bool is_held_off;
};

struct handle {
    sqlite3_file base; /* first: SQLite hands it back */
    struct fault_vfs *v;
    struct disk_file *f;
    unsigned generation;
    bool sync_folder; /* with the next sync */
};

enum op { OP_READ, OP_WRITE, OP_SYNC, OP_TRUNCATE, OP_DELETE, OP_OPEN, OP_COUNT };

static const int error_of[OP_COUNT] = {
    [OP_READ] = SQLITE_IOERR_READ,     [OP_WRITE] = SQLITE_IOERR_WRITE,
    [OP_SYNC] = SQLITE_IOERR,          [OP_TRUNCATE] = SQLITE_IOERR_TRUNCATE,
    [OP_DELETE] = SQLITE_IOERR_DELETE, [OP_OPEN] = SQLITE_CANTOPEN,
};

uint64_t fault_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static uint64_t below(struct fault_vfs *v, uint64_t n)
{
    return fault_random(&v->random) % n;
}

/* Contents and pending changes. */

static void bytes_resize(struct bytes *b, size_t n)
{
    b->p = mem_grow(b->p, &b->cap, n, 1);
    if (n > b->n)
        memset(b->p + b->n, 0, n - b->n);
    b->n = n;
}

static void bytes_copy(struct bytes *to, const struct bytes *from)
{
    bytes_resize(to, from->n);
    if (from->n)
        memcpy(to->p, from->p, from->n);
}

static size_t size_after(const struct change *c, size_t size)
{
    return c->data ? MAX(size, c->offset + c->n) : c->offset;
}

static void change_apply(const struct change *c, struct bytes *b)
{
    size_t size = size_after(c, b->n);
    bytes_resize(b, c->data ? MAX(b->n, c->offset) : size); /* what is written need not be zero */
    b->p = mem_grow(b->p, &b->cap, size, 1);
    b->n = size;
    if (c->data)
        memcpy(b->p + c->offset, c->data, c->n);
}

static void add_pending(struct disk_file *f, struct change c)
{
    f->pending = mem_grow(f->pending, &f->pending_cap, f->pending_count + 1, sizeof *f->pending);
    f->pending[f->pending_count++] = c;
}

static struct change change_copy(const struct change *c)
{
    struct change copy = *c;
    if (c->data) {
        copy.data = mem_alloc(c->n);
        memcpy(copy.data, c->data, c->n);
    }
    return copy;
}

static void file_change(struct disk_file *f, struct change c)
{
    add_pending(f, c);
    change_apply(&c, &f->now);
}

static void file_truncate(struct disk_file *f, size_t size)
{
    file_change(f, (struct change){.offset = size});
}

static void file_write(struct disk_file *f, const void *data, size_t n, size_t offset)
{
    const struct change c = {.offset = offset, .n = n, .data = (unsigned char *)data};
    file_change(f, change_copy(&c));
}

static void file_forget_pending(struct disk_file *f)
{
    for (size_t i = 0; i < f->pending_count; i++)
        free(f->pending[i].data);
    f->pending_count = 0;
}

static void file_sync(struct disk_file *f)
{
    for (size_t i = 0; i < f->pending_count; i++)
        change_apply(&f->pending[i], &f->disk);
    file_forget_pending(f);
}

/* Losing power. */

static bool touches(const struct change *c, size_t start, size_t end)
{
    return c->offset < end && (!c->data || c->offset + c->n > start);
}

/* The part of a change that lies in one sector. */
static void apply_in_sector(const struct change *c, struct bytes *b, size_t start, size_t end)
{
    size_t from = MAX(c->offset, start);
    size_t to = c->data ? MIN(c->offset + c->n, end) : end;
    if (c->data)
        memcpy(b->p + from, c->data + (from - c->offset), to - from);
    else
        memset(b->p + from, 0, to - from);
}

static void cut_sector(struct fault_vfs *v, struct disk_file *f, size_t start)
{
    size_t end = start + SECTOR_BYTES, touching = 0;
    for (size_t i = 0; i < f->pending_count; i++)
        touching += touches(&f->pending[i], start, end);
    size_t survive = touching ? below(v, touching + 1) : 0;
    for (size_t i = 0; survive > 0; i++) {
        if (!touches(&f->pending[i], start, end))
            continue;
        apply_in_sector(&f->pending[i], &f->disk, start, end);
        survive--;
    }
}

static void cut_content(struct fault_vfs *v, struct disk_file *f)
{
    size_t size = f->disk.n, most = f->disk.n, sizes_survive = below(v, f->pending_count + 1);
    for (size_t i = 0; i < f->pending_count; i++) {
        if (i < sizes_survive)
            size = size_after(&f->pending[i], size);
        most = MAX(most, f->pending[i].offset + f->pending[i].n);
    }
    bytes_resize(&f->disk, (most + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES);
    for (size_t start = 0; start < most; start += SECTOR_BYTES)
        cut_sector(v, f, start);
    bytes_resize(&f->disk, size);
}

/* Besides sector by sector, all of it or nothing: likely in truth, unlikely by chance. */
static void cut_file(struct fault_vfs *v, struct disk_file *f, uint64_t manner)
{
    if (manner == 0)
        file_sync(f);
    else if (manner > 1 && f->pending_count > 0)
        cut_content(v, f);
    file_forget_pending(f);
    bytes_copy(&f->now, &f->disk);
    if (f->exists != f->exists_on_disk)
        f->exists = f->exists_on_disk = below(v, 2);
    if (f->has_ghost && !f->exists && below(v, 2)) {
        bytes_copy(&f->disk, &f->ghost);
        bytes_copy(&f->now, &f->ghost);
        f->exists = f->exists_on_disk = true;
    }
    f->has_ghost = false;
}

void fault_vfs_power_off(struct fault_vfs *v)
{
    v->off = true;
}

void fault_vfs_power_on(struct fault_vfs *v)
{
    REQUIRE(v->off);
    uint64_t manner = below(v, 8);
    for (size_t i = 0; i < v->file_count; i++)
        cut_file(v, &v->files[i], manner);
    v->generation++;
    v->off = v->is_dying = false;
}

/* Planned faults. */

static bool can_hit(enum fault fault, enum op op)
{
    switch (fault) {
    case FAULT_EIO:
        return op != OP_SYNC; /* which has a fault of its own */
    case FAULT_FULL:
    case FAULT_SHORT_WRITE:
        return op == OP_WRITE;
    case FAULT_SYNC:
        return op == OP_SYNC;
    case FAULT_CUT:
    case FAULT_DEATH:
        return op != OP_READ;
    case FAULT_CHANGE:
        return op != OP_READ && op != OP_SYNC;
    }
    return false;
}

/* True if this operation is to fail. */
static bool strikes(struct fault_vfs *v, enum op op)
{
    if (v->off || (v->is_dying && op != OP_READ))
        return true;
    if (v->is_paused || v->is_held_off)
        return false;
    if (v->watch && op != OP_READ)
        v->watch(v->watch_ctx);
    if (!can_hit(v->fault, op))
        return false;
    v->operations++;
    bool hit = v->nth > 0 && (v->forever ? v->operations >= v->nth : v->operations == v->nth);
    v->struck |= hit;
    v->off |= hit && v->fault == FAULT_CUT;
    v->is_dying |= hit && v->fault == FAULT_DEATH;
    return hit;
}

static bool is_dead(const struct handle *h)
{
    return h->v->off || h->generation != h->v->generation;
}

static int failure(const struct fault_vfs *v, enum op op)
{
    if (v->is_dying)
        return error_of[op];
    if (!v->off && op == OP_WRITE && v->fault != FAULT_EIO && v->fault != FAULT_CHANGE)
        return SQLITE_FULL;
    if (!v->off && op == OP_SYNC)
        return SQLITE_IOERR_FSYNC;
    return error_of[op];
}

static bool has_room(const struct fault_vfs *v, const struct disk_file *f, size_t end)
{
    if (v->capacity == 0 || end <= f->now.n)
        return true;
    uint64_t used = end - f->now.n;
    for (size_t i = 0; i < v->file_count; i++)
        used += v->files[i].exists ? v->files[i].now.n : 0;
    return used <= v->capacity;
}

/* The methods of an open file. */

static int on_close(sqlite3_file *file)
{
    (void)file;
    return SQLITE_OK;
}

static int on_read(sqlite3_file *file, void *out, int n, sqlite3_int64 at)
{
    struct handle *h = (struct handle *)file;
    if (is_dead(h) || strikes(h->v, OP_READ))
        return SQLITE_IOERR_READ;
    const struct bytes *b = &h->f->now;
    size_t offset = (size_t)at, have = offset < b->n ? MIN(b->n - offset, (size_t)n) : 0;
    if (have)
        memcpy(out, b->p + offset, have);
    memset((char *)out + have, 0, (size_t)n - have);
    return have == (size_t)n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int on_write(sqlite3_file *file, const void *data, int n, sqlite3_int64 at)
{
    struct handle *h = (struct handle *)file;
    size_t offset = (size_t)at, bytes = (size_t)n;
    if (is_dead(h))
        return SQLITE_IOERR_WRITE;
    if (strikes(h->v, OP_WRITE)) {
        if (h->v->fault == FAULT_SHORT_WRITE)
            file_write(h->f, data, bytes / 2, offset);
        return failure(h->v, OP_WRITE);
    }
    if (!has_room(h->v, h->f, offset + bytes))
        return SQLITE_FULL;
    file_write(h->f, data, bytes, offset);
    h->f->wrote_since_sync = true;
    h->f->wrote_header_last = offset == 0 && bytes == WAL_HEADER_BYTES;
    return SQLITE_OK;
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct handle *h = (struct handle *)file;
    if (is_dead(h) || strikes(h->v, OP_TRUNCATE))
        return SQLITE_IOERR_TRUNCATE;
    file_truncate(h->f, (size_t)size);
    return SQLITE_OK;
}

/* A commit syncs the WAL after writing frames; a checkpoint does with nothing written since, and a
 * restart of the WAL after its header. */
static bool is_commit_sync(const struct disk_file *f)
{
    return f->is_wal && f->wrote_since_sync && !f->wrote_header_last;
}

static void entry_sync(struct disk_file *f)
{
    f->exists_on_disk = f->exists;
    f->has_ghost = false;
}

static int on_sync(sqlite3_file *file, int flags)
{
    (void)flags;
    struct handle *h = (struct handle *)file;
    if (is_dead(h))
        return SQLITE_IOERR;
    if (strikes(h->v, OP_SYNC)) {
        if (!h->v->off && !h->v->is_dying)
            file_forget_pending(h->f);
        return failure(h->v, OP_SYNC);
    }
    bool skip = h->v->skip_commit_syncs && is_commit_sync(h->f);
    h->f->wrote_since_sync = false;
    if (skip)
        return SQLITE_OK;
    file_sync(h->f);
    entry_sync(h->f);
    for (size_t i = 0; h->sync_folder && i < h->v->file_count; i++)
        entry_sync(&h->v->files[i]);
    h->sync_folder = false;
    return SQLITE_OK;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *ret)
{
    struct handle *h = (struct handle *)file;
    if (is_dead(h))
        return SQLITE_IOERR_FSTAT;
    *ret = (sqlite3_int64)h->f->now.n;
    return SQLITE_OK;
}

static int on_lock(sqlite3_file *file, int level)
{
    (void)file, (void)level;
    return SQLITE_OK;
}

static int on_check_lock(sqlite3_file *file, int *ret)
{
    (void)file;
    *ret = 0;
    return SQLITE_OK;
}

static int on_control(sqlite3_file *file, int op, void *arg)
{
    (void)file, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int on_sector_size(sqlite3_file *file)
{
    (void)file;
    return 4096; /* as SQLite's own VFS says, whatever the disk */
}

static int on_characteristics(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_lock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

/* The methods of the file system. */

/* Made if it is not known; NULL: too many, or too long a name. */
static struct disk_file *find_file(struct fault_vfs *v, const char *name)
{
    for (size_t i = 0; i < v->file_count; i++)
        if (strcmp(v->files[i].name, name) == 0)
            return &v->files[i];
    if (v->file_count == FILES_MAX || strlen(name) >= NAME_BYTES)
        return NULL;
    struct disk_file *f = &v->files[v->file_count++];
    strcpy(f->name, name);
    return f;
}

static void file_begin_anew(struct disk_file *f)
{
    if (f->exists_on_disk) {
        bytes_copy(&f->ghost, &f->disk);
        f->has_ghost = true;
    }
    file_forget_pending(f);
    bytes_resize(&f->now, 0);
    bytes_resize(&f->disk, 0);
    f->exists_on_disk = false;
}

static int on_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                   int *ret_flags)
{
    struct fault_vfs *v = (struct fault_vfs *)vfs;
    struct handle *h = (struct handle *)file;
    h->base.pMethods = NULL;
    REQUIRE(name); /* all temporary files are in memory */
    struct disk_file *f = find_file(v, name);
    if (!f || (!f->exists && !(flags & SQLITE_OPEN_CREATE)))
        return SQLITE_CANTOPEN;
    if (strikes(v, OP_OPEN))
        return SQLITE_CANTOPEN;
    if (!f->exists)
        file_begin_anew(f);
    f->exists = true;
    f->is_wal = flags & SQLITE_OPEN_WAL;
    *h = (struct handle){.base = {&methods}, .v = v, .f = f, .generation = v->generation};
    h->sync_folder = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL);
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int on_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    struct fault_vfs *v = (struct fault_vfs *)vfs;
    struct disk_file *f = find_file(v, name);
    if (strikes(v, OP_DELETE))
        return SQLITE_IOERR_DELETE;
    if (!f || !f->exists)
        return SQLITE_IOERR_DELETE_NOENT;
    f->exists = false;
    if (sync_folder)
        entry_sync(f);
    return SQLITE_OK;
}

static int on_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
    (void)flags;
    struct fault_vfs *v = (struct fault_vfs *)vfs;
    if (v->off)
        return SQLITE_IOERR_ACCESS;
    const struct disk_file *f = find_file(v, name);
    *ret = f && f->exists;
    return SQLITE_OK;
}

static int on_full_path(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
    (void)vfs;
    sqlite3_snprintf(n, out, "%s", name);
    return SQLITE_OK;
}

static int on_randomness(sqlite3_vfs *vfs, int n, char *out)
{
    struct fault_vfs *v = (struct fault_vfs *)vfs;
    for (int i = 0; i < n; i++)
        out[i] = (char)below(v, 256);
    return n;
}

static int on_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int on_time(sqlite3_vfs *vfs, double *ret)
{
    (void)vfs;
    *ret = 2460000.5;
    return SQLITE_OK;
}

struct fault_vfs *fault_vfs_new(const char *name, uint64_t seed)
{
    struct fault_vfs *v = mem_zalloc(sizeof *v);
    v->name = mem_strdup(name);
    v->random = seed;
    v->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = sizeof(struct handle),
        .mxPathname = NAME_BYTES - 1,
        .zName = v->name,
        .xOpen = on_open,
        .xDelete = on_delete,
        .xAccess = on_access,
        .xFullPathname = on_full_path,
        .xRandomness = on_randomness,
        .xSleep = on_sleep,
        .xCurrentTime = on_time,
    };
    REQUIRE(sqlite3_vfs_register(&v->vfs, 0) == SQLITE_OK);
    return v;
}

struct fault_vfs *fault_vfs_free(struct fault_vfs *v)
{
    if (!v)
        return NULL;
    sqlite3_vfs_unregister(&v->vfs);
    for (size_t i = 0; i < v->file_count; i++) {
        file_forget_pending(&v->files[i]);
        free(v->files[i].pending);
        free(v->files[i].now.p);
        free(v->files[i].disk.p);
        free(v->files[i].ghost.p);
    }
    free(v->name);
    free(v);
    return NULL;
}

void fault_vfs_copy_files(struct fault_vfs *v, const struct fault_vfs *from)
{
    REQUIRE(v->file_count == 0);
    for (; v->file_count < from->file_count; v->file_count++) {
        const struct disk_file *source = &from->files[v->file_count];
        struct disk_file *f = &v->files[v->file_count];
        strcpy(f->name, source->name);
        f->exists = f->exists_on_disk = source->exists;
        bytes_copy(&f->now, &source->now);
        bytes_copy(&f->disk, &source->now);
    }
}

void fault_vfs_hold_off(struct fault_vfs *v, bool is_held_off)
{
    v->is_held_off = is_held_off;
}

void fault_vfs_watch(struct fault_vfs *v, fault_watch_fn *fn, void *ctx)
{
    v->watch = fn;
    v->watch_ctx = ctx;
}

struct fault_vfs *fault_vfs_after_cut(const struct fault_vfs *v, const char *name, uint64_t seed)
{
    struct fault_vfs *cut = fault_vfs_new(name, seed);
    for (; cut->file_count < v->file_count; cut->file_count++) {
        const struct disk_file *source = &v->files[cut->file_count];
        struct disk_file *f = &cut->files[cut->file_count];
        strcpy(f->name, source->name);
        f->exists = source->exists;
        f->exists_on_disk = source->exists_on_disk;
        bytes_copy(&f->disk, &source->disk);
        bytes_copy(&f->ghost, &source->ghost);
        f->has_ghost = source->has_ghost;
        for (size_t i = 0; i < source->pending_count; i++)
            add_pending(f, change_copy(&source->pending[i]));
    }
    fault_vfs_power_off(cut);
    fault_vfs_power_on(cut);
    return cut;
}

void fault_vfs_plan(struct fault_vfs *v, enum fault fault, uint64_t nth, bool forever)
{
    v->fault = fault;
    v->nth = nth;
    v->forever = forever;
    v->operations = 0;
    v->struck = false;
}

uint64_t fault_vfs_operations(const struct fault_vfs *v)
{
    return v->operations;
}

bool fault_vfs_has_struck(const struct fault_vfs *v)
{
    return v->struck;
}

bool fault_vfs_is_dying(const struct fault_vfs *v)
{
    return v->is_dying;
}

void fault_vfs_pause(struct fault_vfs *v, bool pause)
{
    v->is_paused = pause;
}

void fault_vfs_set_capacity(struct fault_vfs *v, uint64_t bytes)
{
    v->capacity = bytes;
}

void fault_vfs_skip_commit_syncs(struct fault_vfs *v, bool skip)
{
    v->skip_commit_syncs = skip;
}
