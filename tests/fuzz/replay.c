/*
 * replay.c: a main() for fuzzers where there is no libFuzzer: runs files instead of inventing them.
 *
 *     ./replay_json tests/fuzz/corpus/json crash-0123…
 *
 * Each argument is a file or a folder, walked in the order of names; TAP out, a line per file. A
 * finding ends the process (an assertion, a sanitizer), and the plan that is then missing makes the
 * run a failure. The input sits at the end of a block of exactly its size, so that a sanitizer sees
 * the first byte read past it.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_count, failures;

static uint8_t *read_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(size ? size : 1);
    if (!f || !data || fread(data, 1, size, f) != size) {
        free(data);
        data = NULL;
    }
    if (f)
        fclose(f);
    return data;
}

static void replay_file(const char *path, size_t size)
{
    uint8_t *data = read_file(path, size);
    if (data)
        LLVMFuzzerTestOneInput(data, size);
    else
        failures++;
    printf("%s %d - %s\n", data ? "ok" : "not ok", ++file_count, path);
    fflush(stdout);
    free(data);
}

static void replay(const char *path);

static void replay_folder(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *inside = NULL;
        if (entries[i]->d_name[0] != '.' &&
            asprintf(&inside, "%s/%s", path, entries[i]->d_name) > 0)
            replay(inside);
        free(inside);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        printf("not ok %d - %s: not there\n", ++file_count, path);
        failures++;
    } else if (S_ISDIR(st.st_mode)) {
        replay_folder(path);
    } else {
        replay_file(path, (size_t)st.st_size);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (file_count == 0) { /* a corpus that got lost must not pass */
        printf("not ok 1 - nothing to replay\n");
        failures = file_count = 1;
    }
    printf("1..%d\n", file_count);
    return failures ? 1 : 0;
}
