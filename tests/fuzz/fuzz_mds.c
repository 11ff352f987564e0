/* fuzz_mds.c - MDS shards: any bytes as an index of either version, as a shard behind it, or as
 * numbers give what lies within them, or a sentence. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/mds/mds_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_shard(const vvi_mds_index *index, const unsigned char *data, size_t bytes)
{
    for (int64_t s = 0; s < index->shard_count && s < 4; s++) {
        const vvi_mds_shard *shard = &index->shards[s];
        for (int64_t i = 0; i < shard->samples && i < 16; i++) {
            uint64_t begin, end;
            size_t first, last;
            if (vvi_mds_locate(index, shard, data, bytes, i, &begin, &end) != VV_OK)
                continue;
            for (int c = 0; c < index->column_count && c < 16; c++)
                if (vvi_mds_pick(index, data + begin, (size_t)(end - begin), c, &first, &last) ==
                        VV_OK &&
                    (first > last || last > end - begin))
                    abort();
        }
    }
}

static void read_numbers(const char *encoding, const unsigned char *data, size_t bytes)
{
    vv_mds_values values;
    float number;
    const uint8_t *pixels;
    int64_t shape[3];
    if (vv_mds_values_of(&values, encoding, data, bytes, "int16") == VV_OK && values.count > 0)
        if (vv_mds_values_f32(&values, values.count - 1, 1, &number) != VV_OK)
            abort();
    if (vv_mds_image(&pixels, shape, "pil", data, bytes) == VV_OK &&
        pixels + shape[0] * shape[1] * shape[2] != data + bytes)
        abort();
}

/* The first byte tells what the rest is; of an index, the shard's bytes follow the first NUL (of
   version 1: the whole again). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const encodings[] = {"ndarray", "ndarray:int16", "ndarray:float32:2,2",
                                            "bytes", "int", "float16"};
    if (bytes < 1)
        return 0;
    const int what = data[0] % 8;
    const unsigned char *rest = data + 1;
    bytes--;
    if (what >= 2) {
        read_numbers(encodings[what - 2], rest, bytes);
        return 0;
    }
    vvi_mds_index index;
    const unsigned char *shard = what == 0 ? memchr(rest, 0, bytes) : rest;
    const size_t head = shard && what == 0 ? (size_t)(shard - rest) : bytes;
    vv_error_clear();
    const vv_status status = what == 0 ? vvi_mds_index_parse_json(&index, "fuzz", rest, head)
                                       : vvi_mds_index_parse_v1(&index, "fuzz", rest, bytes);
    if (status != VV_OK && (index.shards || !vv_error()[0]))
        abort();
    if (status == VV_OK && shard)
        read_shard(&index, what == 0 ? shard + 1 : shard, what == 0 ? bytes - head - 1 : bytes);
    vvi_mds_index_fini(&index);
    return 0;
}
