/* fuzz_replay.c - runs a fuzz target without a fuzzer: `fuzz_x FOLDER [MUTATIONS]` feeds each file
 * of the folder, and for each so many mutations of it (2000 if not given): cuts, flipped bits,
 * overwritten bytes, repeated pieces; the same ones every time. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/rng.h>

#define MAX_BYTES 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Feeds an exact-size heap copy, so that a checker sees any access outside it. */
static int feed(const uint8_t *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes ? bytes : 1);
    if (!copy)
        return 1;
    if (bytes > 0)
        memcpy(copy, data, bytes);
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    return 0;
}

static size_t mutate(uint8_t *data, size_t bytes, vv_rng *rng)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};
    const int64_t changes = 1 + vv_rng_below(rng, 4);
    for (int64_t i = 0; i < changes && bytes > 0; i++) {
        const size_t at = (size_t)vv_rng_below(rng, (int64_t)bytes);
        switch (vv_rng_below(rng, 4)) {
        case 0:
            bytes = at;
            break;
        case 1:
            data[at] ^= (uint8_t)(1u << vv_rng_below(rng, 8));
            break;
        case 2:
            data[at] = edges[vv_rng_below(rng, sizeof edges)];
            break;
        default: {
            const size_t piece = bytes - at;
            if (bytes + piece <= MAX_BYTES) {
                memmove(data + bytes, data + at, piece);
                bytes += piece;
            }
        }
        }
    }
    return bytes;
}

static int replay(const char *path, int64_t mutations)
{
    static uint8_t seed[MAX_BYTES], data[MAX_BYTES];
    FILE *file = fopen(path, "rb");
    if (!file)
        return 1;
    const size_t bytes = fread(seed, 1, sizeof seed, file);
    fclose(file);
    int failed = feed(seed, bytes);
    for (int64_t i = 0; i < mutations && !failed; i++) {
        vv_rng rng = vv_rng_at(0, "fuzz", (uint64_t)i);
        memcpy(data, seed, bytes);
        failed = feed(data, mutate(data, bytes, &rng));
    }
    return failed;
}

int main(int argc, char **argv)
{
    const int64_t mutations = argc > 2 ? strtoll(argv[2], NULL, 10) : 2000;
    DIR *list = argc > 1 ? opendir(argv[1]) : NULL;
    int files = 0, failed = 0;
    if (!list) {
        fprintf(stderr, "usage: %s FOLDER [MUTATIONS]\n", argv[0]);
        return 2;
    }
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        if (snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name) >= (int)sizeof path)
            continue;
        failed += replay(path, mutations);
        files++;
    }
    closedir(list);
    printf("%d files, %lld mutations each\n", files, (long long)mutations);
    return failed > 0 || files == 0;
}
