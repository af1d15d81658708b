/*
 * fuzz_file.h: bytes as a file, for readers that take a path, until the descriptor is closed.
 *
 *     char path[32];
 *     int fd = fuzz_file_open(data, size, path);
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/mem.h"

static inline int fuzz_file_open(const uint8_t *data, size_t size, char path[32])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    REQUIRE(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size));
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}
