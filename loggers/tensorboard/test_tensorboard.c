/* test_tensorboard.c - files are frames whose checksums hold, the first event names the version,
 * scalars have tag, step and value; CRC-32C gives the published values; a torn or damaged record
 * ends reading, not the program; a run killed and resumed, read as TensorBoard reads (a session's
 * start drops what is older from its step on), shows each tag once a step with the values of a
 * run that was not killed; no allocation that fails leaks. */
#include "loggers/logger_test.h"

#include <vivace/tensorboard.h>

#include "tfevents.h"

static char folder[256];

/* ---- a reader of its own, for what the tests want to know ---- */

typedef struct scalar {
    char tag[64];
    int64_t step;
    double value;
    bool text;
} scalar;

typedef struct events {
    scalar items[512];
    int count, files, starts;
} events;

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | p[i];
    return value;
}

static uint64_t varint(const unsigned char **p)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**p & 0x7f) << shift;
        if (*(*p)++ < 0x80)
            return value;
    }
}

/* Walks a message; calls itself for summary (5) and value (1). Levels: 0 event, 1 summary, 2
   value. */
static void read_message(const unsigned char *p, const unsigned char *end, int level, scalar *out,
                         int64_t *start)
{
    while (p < end) {
        uint64_t key = varint(&p), field = key >> 3, kind = key & 7, length;
        switch (kind) {
        case 0:
            length = varint(&p);
            if (level == 0 && field == 2)
                out->step = (int64_t)length;
            break;
        case 1:
            p += 8;
            break;
        case 5:
            if (level == 2 && field == 2) {
                uint32_t bits = (uint32_t)number(p, 4);
                float value;
                memcpy(&value, &bits, sizeof value);
                out->value = (double)value;
            }
            p += 4;
            break;
        case 2:
            length = varint(&p);
            assert_true(length <= (uint64_t)(end - p));
            if (level == 0 && field == 7)
                *start = 1;
            if ((level == 0 && field == 5) || (level == 1 && field == 1))
                read_message(p, p + length, level + 1, out, start);
            if (level == 2 && field == 1)
                snprintf(out->tag, sizeof out->tag, "%.*s", (int)length, (const char *)p);
            if (level == 2 && field == 8)
                out->text = true;
            p += length;
            break;
        default:
            fail_msg("a field of kind %d", (int)kind);
        }
    }
    assert_true(p == end);
}

/* All events of a file; a session's start drops later ones of the files before, as readers do. */
static void read_file(const char *dir, const char *name, events *all)
{
    vvi_crc32c crc;
    vvi_crc32c_init(&crc);
    size_t bytes, at = 0;
    char *text = slurp_file(dir, name, &bytes);
    const unsigned char *data = (const unsigned char *)text;
    for (int record = 0; at < bytes; record++) {
        assert_true(at + 12 <= bytes);
        uint64_t length = number(data + at, 8);
        assert_int_equal(number(data + at + 8, 4), vvi_crc32c_masked(&crc, data + at, 8));
        assert_true(at + 16 + length <= bytes);
        const unsigned char *message = data + at + 12;
        assert_int_equal(number(message + length, 4), vvi_crc32c_masked(&crc, message, length));
        scalar *s = &all->items[all->count];
        int64_t start = 0;
        memset(s, 0, sizeof *s);
        read_message(message, message + length, 0, s, &start);
        if (record == 0) /* wall time, then the version */
            assert_memory_equal(message + 9, "\x1a\x0d" "brain.Event:2", 15);
        if (start) {
            int kept = 0;
            all->starts++;
            for (int i = 0; i < all->count; i++)
                if (all->items[i].step < s->step)
                    all->items[kept++] = all->items[i];
            all->count = kept;
        } else if (s->tag[0]) {
            assert_in_range(all->count, 0, 510);
            all->count++;
        }
        at += 16 + length;
    }
    all->files++;
    test_free(text);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_all(const char *dir, events *all)
{
    struct dirent **list;
    int count = scandir(dir, &list, NULL, by_name);
    memset(all, 0, sizeof *all);
    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        if (strstr(list[i]->d_name, "tfevents"))
            read_file(dir, list[i]->d_name, all);
        free(list[i]);
    }
    free(list);
}

static const scalar *find(const events *all, const char *tag, int64_t step, int *count)
{
    const scalar *found = NULL;
    *count = 0;
    for (int i = 0; i < all->count; i++)
        if (strcmp(all->items[i].tag, tag) == 0 && all->items[i].step == step) {
            found = &all->items[i];
            ++*count;
        }
    return found;
}

/* ---- tests ---- */

/* The check values of RFC 3720, appendix B.4. */
static void test_checksum(void **unused)
{
    (void)unused;
    static const struct {
        int first, step;
        uint32_t crc;
    } cases[] = {
        {0, 0, 0x8a9136aa}, {0xff, 0, 0x62a8ab43}, {0, 1, 0x46dd794e}, {31, -1, 0x113fdb5c}};
    vvi_crc32c crc;
    vvi_crc32c_init(&crc);
    for (int i = 0; i < 4; i++) {
        unsigned char data[32];
        for (int k = 0; k < 32; k++)
            data[k] = (unsigned char)(cases[i].first + k * cases[i].step);
        uint32_t c = cases[i].crc, masked = (c >> 15 | c << 17) + 0xa282ead8u;
        assert_int_equal(vvi_crc32c_masked(&crc, data, 32), masked);
    }
}

static void test_torn_and_damaged(void **unused)
{
    (void)unused;
    vvi_crc32c crc;
    vvi_crc32c_init(&crc);
    vv_str file = {0}, event = {0}, data = {0};
    vvi_event_view view;
    for (int i = 0; i < 3; i++) {
        vv_str_clear(&event);
        vvi_event_scalar(&event, 1.5, i == 1 ? INT64_C(1) << 40 : i, "some/tag", 0.25);
        vvi_event_record(&file, &crc, &event);
    }
    assert_ok(vv_str_status(&file));
    size_t one = event.length + 16;
    for (size_t cut = 0; cut <= file.length; cut++) {
        FILE *in = fmemopen(file.text, cut ? cut : 1, "rb");
        size_t count = 0;
        while (vvi_event_read(in, &crc, &data, &view)) {
            assert_int_equal(view.tag_bytes, 8);
            assert_memory_equal(view.tag, "some/tag", 8);
            assert_true(view.step == (count == 1 ? INT64_C(1) << 40 : (int64_t)count));
            count++;
        }
        fclose(in);
        size_t second = file.length - 2 * one; /* its step is longer */
        size_t whole = (cut >= one) + (cut >= one + second) + (cut >= file.length);
        assert_int_equal(count, whole);
    }
    for (size_t i = 0; i < one; i++) { /* any flipped bit is seen */
        file.text[i] ^= 0x10;
        FILE *in = fmemopen(file.text, file.length, "rb");
        assert_false(vvi_event_read(in, &crc, &data, &view));
        fclose(in);
        file.text[i] ^= 0x10;
    }
    vv_str_fini(&file);
    vv_str_fini(&event);
    vv_str_fini(&data);
}

static void run_cut(const char *dir, const logger_cut *cuts, int count)
{
    for (int i = 0; i <= count; i++) {
        vv_logger *loggers[2] = {NULL, NULL};
        assert_ok(vv_logger_new(&loggers[0], &vv_logger_tensorboard, NULL));
        vv_status status = logger_run(loggers, dir, i < count ? &cuts[i] : NULL);
        assert_int_equal(status, i < count ? VV_ESTATE : VV_OK);
    }
}

static void test_run_and_resume(void **unused)
{
    (void)unused;
    static const logger_cut cuts[] = {
        {VV_EVENT_BATCH_START, 5}, {VV_EVENT_BATCH_END, 8},      {VV_EVENT_EPOCH_END, 8},
        {VV_EVENT_EVAL_END, 8},    {VV_EVENT_BATCH_CHECKPOINT, 9}, {VV_EVENT_FIT_END, 12},
    };
    static events whole, cut;
    char dir[600];
    snprintf(dir, sizeof dir, "%s/whole", folder);
    run_cut(dir, NULL, 0);
    snprintf(dir, sizeof dir, "%s/whole/tensorboard", folder);
    read_all(dir, &whole);
    assert_int_equal(whole.files, 1);
    assert_int_equal(whole.starts, 0);
    int count;
    const scalar *recipe = find(&whole, "recipe", 0, &count);
    assert_int_equal(count, 1);
    assert_true(recipe->text);
    for (int b = 1; b <= 12; b++) {
        const scalar *s = find(&whole, "test/twice", b, &count);
        assert_int_equal(count, 1);
        assert_true(s->value == 2.0 * b);
        find(&whole, "loss/train/total", b, &count);
        assert_int_equal(count, 1);
        find(&whole, "metrics/eval/accuracy", b, &count);
        assert_int_equal(count, b % 4 == 0);
    }

    snprintf(dir, sizeof dir, "%s/cut", folder);
    run_cut(dir, cuts, 6);
    snprintf(dir, sizeof dir, "%s/cut/tensorboard", folder);
    read_all(dir, &cut);
    assert_int_equal(cut.files, 7);
    assert_int_equal(cut.starts, 6);
    for (int i = 0; i < whole.count; i++) {
        const scalar *s = find(&cut, whole.items[i].tag, whole.items[i].step, &count);
        if (count != 1)
            fail_msg("%s at step %d: %d times", whole.items[i].tag, (int)whole.items[i].step,
                     count);
        assert_true(s->value == whole.items[i].value);
    }
    assert_int_equal(cut.count, whole.count);
}

/* A run that is not resumed drops what lies in its folder, and deletes nothing. */
static void test_anew(void **unused)
{
    (void)unused;
    static events all;
    char dir[600];
    snprintf(dir, sizeof dir, "%s/anew", folder);
    for (int i = 0; i < 2; i++) {
        vv_logger *loggers[2] = {NULL, NULL};
        assert_ok(vv_logger_new(&loggers[0], &vv_logger_tensorboard, &(vv_tensorboard_opts){dir}));
        assert_ok(logger_run(loggers, NULL, NULL));
    }
    read_all(dir, &all);
    assert_int_equal(all.files, 2);
    int count;
    find(&all, "test/twice", 7, &count);
    assert_int_equal(count, 1);
    find(&all, "recipe", 0, &count);
    assert_int_equal(count, 1);
}

static void test_memory_failures(void **unused)
{
    (void)unused;
    for (uint64_t nth = 1; nth <= 60; nth++) {
        int64_t live = vv_memory_live_count();
        vv_logger *logger = NULL;
        vv_state s = {.time = {.batch = nth % 2 ? 8 : 0}};
        char dir[600];
        snprintf(dir, sizeof dir, "%s/cut/tensorboard", folder);
        assert_ok(vv_logger_new(&logger, &vv_logger_tensorboard, &(vv_tensorboard_opts){dir}));
        vv_memory_fail_at(nth);
        vv_status status = vv_logger_tensorboard.open(logger, NULL, true);
        bool opened = status == VV_OK;
        if (status == VV_OK)
            status = vv_logger_tensorboard.metric(logger, &s, "early", 1.0);
        if (status == VV_OK)
            status = vv_logger_tensorboard.event(logger, VV_EVENT_AFTER_LOAD, &s);
        if (status == VV_OK)
            status = vv_logger_tensorboard.metric(logger, &s, "later", 1.0);
        vv_memory_fail_at(0);
        assert_true(status == VV_OK || status == VV_ENOMEM);
        if (opened)
            vv_logger_tensorboard.close(logger);
        vv_logger_free(logger);
        assert_int_equal(vv_memory_live_count(), live);
    }
}

static int make_folder(void **unused)
{
    (void)unused;
    tt_folder(folder, sizeof folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    tt_remove(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksum),       cmocka_unit_test(test_torn_and_damaged),
        cmocka_unit_test(test_run_and_resume), cmocka_unit_test(test_anew),
        cmocka_unit_test(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
