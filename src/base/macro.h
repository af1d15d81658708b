/*
 * macro.h: the handful of macros every file may use.
 *
 * Ownership is spoken in three words. `_cleanup_(fn)` frees an owned local on every way out of a
 * block; `TAKE_PTR(p)` and `TAKE_FD(fd)` hand ownership over and leave NULL or -1 behind.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))
#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _noreturn_ __attribute__((noreturn))
#define _unused_ __attribute__((unused))
#define _must_check_ __attribute__((warn_unused_result))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define MIN(a, b)                          \
    ({                                     \
        __typeof__(a) min_a_ = (a);        \
        __typeof__(b) min_b_ = (b);        \
        min_a_ < min_b_ ? min_a_ : min_b_; \
    })
#define MAX(a, b)                          \
    ({                                     \
        __typeof__(a) max_a_ = (a);        \
        __typeof__(b) max_b_ = (b);        \
        max_a_ > max_b_ ? max_a_ : max_b_; \
    })

#define TAKE_PTR(p)                  \
    ({                               \
        __typeof__(p) take_v_ = (p); \
        (p) = NULL;                  \
        take_v_;                     \
    })
#define TAKE_FD(fd)         \
    ({                      \
        int take_v_ = (fd); \
        (fd) = -1;          \
        take_v_;            \
    })
