/* photo_check.c - which files of a set are images, and which of those are damaged.
 *
 * Looking at the ends of a file (its header and whether it has its last bytes) finds what was cut
 * short or is something else; only a file that looks odd there is decoded. What only decoding shows
 * is found by checking all, or while training. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vivace/graph.h>
#include <vivace/memory.h>

#include "data/photos/photo_list.h"

enum { HEAD = 4096, TAIL = 64, MOST_THREADS = 64, MOST_NAMED = 100 };

typedef enum verdict { VERDICT_IMAGE, VERDICT_OTHER, VERDICT_DAMAGED } verdict;

typedef struct checking {
    const vvi_photo_list *list;
    vv_photo_check check;
    uint8_t *verdicts;
    atomic_llong next;
    pthread_mutex_t lock; /* for what follows */
    vv_str sentences;     /* of damaged files, "; " between them */
    int64_t damaged;
    vv_status status; /* an error that is no damage */
    char error[512];
} checking;

static bool named_as_image(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

static size_t read_at(int fd, void *to, size_t bytes, off_t from)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n = pread(fd, (char *)to + done, bytes - done, from + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static bool holds(const uint8_t *data, size_t bytes, const char *what, size_t length)
{
    for (size_t i = 0; i + length <= bytes; i++)
        if (memcmp(data + i, what, length) == 0)
            return true;
    return false;
}

/* True if both ends of a file are those of a whole image. */
static bool ends_well(const char *path, bool *image)
{
    uint8_t head[HEAD], tail[TAIL];
    struct stat info;
    bool well = false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    *image = false;
    if (fd < 0)
        return false;
    const size_t there = read_at(fd, head, sizeof head, 0);
    const vv_image_format format = vv_image_format_of(head, there);
    *image = format != VV_IMAGE_UNKNOWN;
    vv_image_info probed;
    if (*image && fstat(fd, &info) == 0 && vv_image_probe(&probed, path, head, there) == VV_OK) {
        const off_t size = info.st_size, from = size > TAIL ? size - TAIL : 0;
        const size_t last = read_at(fd, tail, sizeof tail, from);
        well = format == VV_IMAGE_JPEG ? holds(tail, last, "\xff\xd9", 2)
                                       : holds(tail, last, "IEND\xae\x42\x60\x82", 8);
    }
    close(fd);
    return well;
}

/* Decodes the whole file; a sentence is set if it is damaged. */
static vv_status decodes(const char *path)
{
    vv_image image;
    vv_status status = vv_image_read(&image, path, NULL);
    vv_image_fini(&image);
    return status;
}

static vv_status judge(const checking *c, int64_t i, vv_str *path, verdict *out)
{
    bool image;
    *out = VERDICT_IMAGE;
    VV_TRY(vvi_photo_path(c->list, i, path));
    const bool well = ends_well(vv_str_text(path), &image);
    const bool named = named_as_image(c->list->photos[i].path);
    if (!image && !named)
        *out = VERDICT_OTHER;
    else if (!well || c->check == VV_CHECK_ALL) {
        const vv_status status = decodes(vv_str_text(path));
        if (status == VV_ENOMEM || status == VV_EUNSUPPORTED)
            return status;
        if (status != VV_OK)
            *out = VERDICT_DAMAGED;
    }
    return VV_OK;
}

static void note(checking *c, verdict found, vv_status status)
{
    pthread_mutex_lock(&c->lock);
    if (status != VV_OK && c->status == VV_OK) {
        c->status = status;
        snprintf(c->error, sizeof c->error, "%s", vv_error());
    } else if (found == VERDICT_DAMAGED && c->damaged++ < MOST_NAMED) {
        vv_str_add(&c->sentences, c->damaged > 1 ? "; " : "");
        vv_str_add(&c->sentences, vv_error());
    }
    pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
    checking *c = arg;
    vv_str path = {0};
    for (;;) {
        const int64_t i = atomic_fetch_add(&c->next, 1);
        verdict found = VERDICT_IMAGE;
        if (i >= c->list->count)
            break;
        const vv_status status = judge(c, i, &path, &found);
        c->verdicts[i] = (uint8_t)found;
        if (status != VV_OK || found == VERDICT_DAMAGED)
            note(c, found, status);
        if (status != VV_OK)
            break;
    }
    vv_str_fini(&path);
    return NULL;
}

/* On the caller's thread and as many others as the system gives. */
static void work_on_threads(checking *c)
{
    pthread_t threads[MOST_THREADS];
    int started = 0, wanted = vv_threads() - 1;
    wanted = wanted > MOST_THREADS ? MOST_THREADS : c->list->count < 256 ? 0 : wanted;
    while (started < wanted && pthread_create(&threads[started], NULL, work, c) == 0)
        started++;
    work(c);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

/* Without looking into files: those that are named as images. */
static void keep_named(vvi_photo_list *list)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (named_as_image(list->photos[i].path))
            list->photos[kept++] = list->photos[i];
    list->count = kept;
}

static vv_status settle(vvi_photo_list *list, const char *set, checking *c,
                        vv_photo_damaged damaged, vv_str *notice)
{
    if (c->status != VV_OK)
        return vv_fail(c->status, "%s", c->error);
    VV_TRY(vv_str_status(&c->sentences));
    long long images = 0;
    for (int64_t i = 0; i < list->count; i++)
        images += c->verdicts[i] != VERDICT_OTHER;
    if (c->damaged > 0 && damaged == VV_DAMAGED_REFUSE)
        return vv_fail(VV_EFORMAT, "data set %s: %lld of %lld files are damaged; mend them or set "
                                   "damaged: skip: %s", set, (long long)c->damaged, images,
                       vv_str_text(&c->sentences));
    if (c->damaged > 0)
        vv_str_addf(notice, "data set %s: %lld of %lld files are damaged and left out: %s", set,
                    (long long)c->damaged, images, vv_str_text(&c->sentences));
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (c->verdicts[i] == VERDICT_IMAGE)
            list->photos[kept++] = list->photos[i];
    list->count = kept;
    return vv_str_status(notice);
}

vv_status vvi_photo_list_check(vvi_photo_list *list, const char *set, vv_photo_check check,
                               vv_photo_damaged damaged, vv_str *notice)
{
    if (check == VV_CHECK_NONE) {
        keep_named(list);
        return VV_OK;
    }
    checking c = {.list = list, .check = check, .status = VV_OK};
    VV_TRY(vv_alloc(&c.verdicts, (size_t)list->count));
    pthread_mutex_init(&c.lock, NULL);
    atomic_init(&c.next, 0);
    work_on_threads(&c);
    const vv_status status = settle(list, set, &c, damaged, notice);
    pthread_mutex_destroy(&c.lock);
    vv_str_fini(&c.sentences);
    vv_dealloc(c.verdicts);
    return status;
}
