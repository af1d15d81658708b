/*
 * json.h: the one place that reads and writes JSON.
 *
 * What is no JSON is refused: RFC 8259, valid UTF-8 only, nothing but white space after the value.
 * What is JSON, but not what we want to store for ever and hand to others, is dealt with by kind:
 *   - half a surrogate pair ("\ud83d" alone) becomes U+FFFD, in the tree and in what is forwarded
 *   - "\u0000" is taken: a decoded string may hold NUL, and the text that is forwarded has the
 *     escape; who needs a plain text has to look (params.c does)
 *   - a duplicate key, an integer beyond int64, a real beyond double, and nesting beyond
 *     `depth_max` are defects: json_parse() refuses the document, json_read() notes the defect at
 *     its place in the tree and leaves the verdict to the caller
 * A number without '.', 'e' or 'E' is an integer.
 *
 * A document is parsed into a tree in the caller's arena; the text must outlive the tree, which
 * points into it. Cost: one pass, O(n) time (duplicate keys are found by hashing, with a
 * per-process random seed, so that nobody can choose keys that collide) and at most 32 bytes of
 * arena per byte of text, reached by "[0,0,0": a node is 64 bytes and takes two bytes of text at
 * least. The stack is bounded by `depth_max`; what is nested deeper is read without recursion.
 *
 * A value keeps the span of text it came from, so what is only stored and forwarded is copied, not
 * rebuilt: json_write_value() copies the span if it is fit to be forwarded, else writes it anew
 * without white space. Strings and numbers are forwarded as they were written, lone surrogates
 * apart.
 *
 * Errors: ERR_PARSE with data.offset (byte) and a reason. The caller caps the size of the text
 * before it comes here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,
    JSON_REAL,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* X(name, text) */
#define JSON_DEFECT_LIST(X)                \
    X(DUPLICATE_KEY, "duplicate key")      \
    X(OUT_OF_RANGE, "number out of range") \
    X(TOO_DEEP, "nested too deeply")

enum json_defect {
    JSON_SOUND,
    JSON_DEFECT_INSIDE, /* in an item or member, or further down */
#define X(name, text) JSON_##name,
    JSON_DEFECT_LIST(X)
#undef X
};

struct json {
    enum json_type type : 8; /* narrow, so that a node is one cache line */
    enum json_defect defect : 8;
    bool compact;      /* span has no white space outside strings, and no lone surrogate */
    uint32_t count;    /* items of an array, members of an object */
    struct str span;   /* exactly as received, without surrounding white space */
    struct str key;    /* decoded; only if this is a member of an object */
    struct json *next; /* next item or member, in order of appearance */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct str string;  /* decoded, not NUL-terminated */
        struct json *first; /* array, object */
    };
};

enum { JSON_DEPTH_DEFAULT = 64, JSON_DEPTH_MAX = 1000 };

/* A scalar has depth 0, [] has 1. `depth_max` is JSON_DEPTH_MAX at most. */
int json_parse(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
               struct err *err);
/*
 * Takes every text that is JSON. Where `defect` of the result is not JSON_SOUND the tree is good
 * for saying so: from a value with JSON_DEFECT_INSIDE an item or member with a defect leads on. The
 * second of two equal keys has the defect. A number out of range reads as 0, what is nested too
 * deeply as empty; their span is what was written.
 */
int json_read(struct arena *a, struct str text, unsigned depth_max, const struct json **ret,
              struct err *err);
const char *json_defect_text(enum json_defect defect); /* of one in JSON_DEFECT_LIST */

/* The member of an object, or NULL; NULL too if `object` is NULL or no object. */
const struct json *json_get(const struct json *object, const char *key);

/* Members of a known type; the fallback (no text, false) if it is absent or of another one. */
struct str json_get_text(const struct json *object, const char *key);
int64_t json_get_int(const struct json *object, const char *key, int64_t fallback);
bool json_get_bool(const struct json *object, const char *key);

#define JSON_FOREACH(item, container) \
    for (const struct json *item = (container)->first; item; item = item->next)

const char *json_type_name(enum json_type type); /* "string", "integer", … */

/*
 * A hash of what the value means, not of how it was written: members sorted by key, strings
 * decoded, numbers by value (1.0 and 1 differ: a real is not an integer), white space ignored.
 * `skip`, a NULL-terminated list, names members of the top object to leave out; may be NULL.
 */
void json_canonical_hash(const struct json *value, const char *const *skip, uint8_t ret[32]);

/* ---- writing ---- */

/*
 * Quoted and escaped. NUL and bytes that are not valid UTF-8 become U+FFFD, so that whoever reads
 * it gets a plain text.
 */
void json_write_string(struct buf *out, struct str s);
void json_write_value(struct buf *out, const struct json *value); /* NULL → null */

/*
 * Objects and arrays without counting commas:
 *
 *     struct json_out w = JSON_OUT(&buf);
 *     json_object(&w, NULL);
 *     json_int(&w, "seq", 7);
 *     json_array(&w, "agents");
 *     json_string(&w, NULL, name);
 *     json_end(&w);
 *     json_end(&w);
 *
 * `key` is NULL at the top and inside arrays, else a key that needs no escaping. At most 64 levels.
 * json_end() knows what it closes.
 */
struct json_out {
    struct buf *buf;
    uint64_t is_array; /* a bit per level */
    unsigned depth;
    bool comma;
};

#define JSON_OUT(b) ((struct json_out){.buf = (b)})

void json_object(struct json_out *w, const char *key);
void json_array(struct json_out *w, const char *key);
void json_end(struct json_out *w);
void json_int(struct json_out *w, const char *key, int64_t value);
/* The shortest text that reads back as the same real; what is not finite → null. */
void json_real(struct json_out *w, const char *key, double value);
void json_bool(struct json_out *w, const char *key, bool value);
void json_null(struct json_out *w, const char *key);
void json_string(struct json_out *w, const char *key, struct str value);   /* p == NULL → null */
void json_stringz(struct json_out *w, const char *key, const char *value); /* NULL → null */
/* A value that is already valid, compact JSON text. */
void json_raw(struct json_out *w, const char *key, struct str text);
void json_value(struct json_out *w, const char *key, const struct json *value);
/* Milliseconds since the epoch as ISO 8601 UTC: "2026-11-15T09:30:00.123Z". */
void json_time(struct json_out *w, const char *key, int64_t ms);
