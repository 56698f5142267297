/* SPDX-License-Identifier: BSD-2-Clause */
/* Stands in for libFuzzer: runs one fuzz target over every file of the folders that are named. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *dir, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    /* An exact-size heap copy, so that a sanitizer sees a read past the end. */
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    size_t got = data && size > 0 ? fread(data, 1, (size_t)size, file) : 0;
    fclose(file);
    if (!data || got != (size_t)size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        free(data);
        return -1;
    }
    LLVMFuzzerTestOneInput(data, got);
    free(data);
    return 0;
}

static int replay_dir(const char *dir, int *count)
{
    DIR *stream = opendir(dir);
    if (!stream) {
        perror(dir);
        return -1;
    }
    int rc = 0;
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (entry->d_name[0] == '.')
            continue;
        if (replay_file(dir, entry->d_name))
            rc = -1;
        else
            ++*count;
    }
    closedir(stream);
    return rc;
}

int main(int argc, char **argv)
{
    int count = 0;
    int rc = 0;
    for (int i = 1; i < argc; i++) {
        if (replay_dir(argv[i], &count))
            rc = -1;
    }
    printf("%d inputs replayed\n", count);
    return rc || !count;
}
