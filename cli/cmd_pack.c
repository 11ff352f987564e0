/* cmd_pack.c - `vivace data pack`: a folder of photographs into shards. */
#include "cli.h"

#include <string.h>

#include <vivace/graph.h>
#include <vivace/memory.h>
#include <vivace/segmentation_folder.h>

typedef struct settings {
    int keep, damaged, check;
    int64_t max_side, quality, threads;
    const char *shard_size, *compression, *hashes, *labels, *masks;
    double eval_fraction;
    bool overwrite;
} settings;

static const char *const keep_names[] = {"jpeg", "raw", NULL};

#define AT(member) offsetof(settings, member)
static const vv_field fields[] = {
    {"keep", "jpeg: JPEG files as they are where they fit into max_side, else made anew; raw: "
             "pixels", VV_FIELD_CHOICE, AT(keep), "jpeg", 0, 0, keep_names},
    {"max_side", "Longer side of an image in pixels; larger ones are made smaller; 0 = any",
     VV_FIELD_INT, AT(max_side), "0", 0, 65500, NULL},
    {"quality", "Of JPEGs that are made anew", VV_FIELD_INT, AT(quality), "90", 1, 100, NULL},
    {"shard_size", "Bytes of a shard at most", VV_FIELD_STRING, AT(shard_size), "64MiB", 0, 0,
     NULL},
    {"compression", "Of whole shards: empty, gz[:level] or zstd[:level]; JPEGs are hardly smaller",
     VV_FIELD_STRING, AT(compression), "", 0, 0, NULL},
    {"hashes", "Checksums in the index: of sha1,sha256,xxh64", VV_FIELD_STRING, AT(hashes),
     "sha256", 0, 0, NULL},
    {"eval_fraction", "Share of the files to evaluate on, where no folder says it", VV_FIELD_FLOAT,
     AT(eval_fraction), "0.2", 0.001, 0.999, NULL},
    {"labels", "File with a line per evaluation image: name, class", VV_FIELD_STRING, AT(labels),
     "", 0, 0, NULL},
    {"masks", "SRC holds pictures with masks: yes, or settings of segmentation_folder like "
              "layout=plain,first=1", VV_FIELD_STRING, AT(masks), "", 0, 0, NULL},
    {"damaged", "Damaged files: refuse, or skip them", VV_FIELD_CHOICE, AT(damaged), "refuse", 0, 0,
     vv_photo_damaged_names},
    {"check", "Looked at first: nothing, each file's ends, all of each file", VV_FIELD_CHOICE,
     AT(check), "ends", 0, 0, vv_photo_check_names},
    {"threads", "Threads; 0 = one a processor", VV_FIELD_INT, AT(threads), "0", 0, 64, NULL},
    {"overwrite", "A finished set in DST is made anew", VV_FIELD_BOOL, AT(overwrite), "false", 0, 0,
     NULL},
    {.name = NULL},
};
static const vv_desc desc = {
    .kind = "verb",
    .name = "data pack",
    .summary = "A folder of photographs into shards.",
    .cite = "",
    .domains = "cv",
    .fields = fields,
    .opts_size = sizeof(settings),
};

static void report(const vv_pack_info *info, const char *dst, double seconds)
{
    char in[32], out[32];
    printf("%s: %lld images to train on, %lld to evaluate on, %lld classes\n", dst,
           (long long)info->train, (long long)info->eval, (long long)info->classes);
    printf("%s in files, %s in shards; %lld images made anew; %.1f s, %.0f images a second\n",
           vv_bytes_text((size_t)info->bytes_in, in, sizeof in),
           vv_bytes_text((size_t)info->bytes_out, out, sizeof out), (long long)info->made_anew,
           seconds, (double)(info->train + info->eval) / (seconds + 1e-9));
    if (info->notice)
        fprintf(stderr, "vivace: left out: %s\n", info->notice);
}

static vv_status pack_masks(vv_pack_info *info, const vv_pack_opts *pack, const char *how)
{
    const vv_desc *set = &vv_dataset_segmentation_folder.desc;
    vv_segmentation_folder_opts opts;
    vv_status status;
    VV_TRY(vv_opts_init(set, &opts));
    VV_GO(vv_opts_set(set, &opts, "dir", pack->src));
    if (strcmp(how, "yes") != 0)
        VV_GO(vv_fail_within(vv_opts_set_all(set, &opts, how), "masks"));
    VV_GO(vv_pack_masks(info, pack, &opts));
out:
    vv_opts_fini(set, &opts);
    return status;
}

static vv_status pack(const settings *s, const char *src, const char *dst)
{
    vv_pack_opts opts = VV_PACK_DEFAULTS;
    vv_pack_info info;
    int64_t shard;
    VV_TRY(vv_fail_within(vv_bytes_parse(&shard, s->shard_size), "shard_size"));
    cli_bar bar;
    cli_bar_start(&bar, "images", 1.0, 0);
    opts.src = src;
    opts.dst = dst;
    opts.keep = (vv_pack_keep)s->keep;
    opts.max_side = s->max_side;
    opts.quality = (int)s->quality;
    opts.shard_bytes = (uint64_t)shard;
    opts.compression = s->compression;
    opts.hashes = s->hashes;
    opts.eval_fraction = s->eval_fraction;
    opts.labels = s->labels;
    opts.damaged = (vv_photo_damaged)s->damaged;
    opts.check = (vv_photo_check)s->check;
    opts.threads = (int)s->threads;
    opts.overwrite = s->overwrite;
    opts.progress = cli_bar_show;
    opts.ctx = &bar;
    VV_TRY(s->masks[0] ? pack_masks(&info, &opts, s->masks) : vv_pack_photos(&info, &opts));
    report(&info, dst, vv_clock() - bar.start);
    vv_dealloc(info.notice);
    return VV_OK;
}

static const cli_verb pack_verb = {
    "data pack", "SRC DST [keep=jpeg|raw] [max_side=N] [key=value ...]",
    "Packs a folder of photographs, or of pictures with masks, into shards to train from.", NULL};

int cli_data_pack(int argc, char **argv)
{
    cli_args args;
    settings opts;
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return cli_fields_help(&pack_verb, fields);
    int code = cli_parse(&pack_verb, argc, argv, NULL, 2, &args);
    if (code == CLI_DONE && args.word_count != 2)
        code = cli_usage(&pack_verb, "say which folder to pack, and where to");
    if (code != CLI_DONE)
        goto out;
    if (vv_opts_init(&desc, &opts) != VV_OK) {
        code = cli_fail();
        goto out;
    }
    if (cli_read_settings(&desc, &opts, &args) != VV_OK ||
        pack(&opts, args.words[0], args.words[1]) != VV_OK)
        code = cli_fail();
    vv_opts_fini(&desc, &opts);
out:
    cli_args_fini(&args);
    return code;
}
