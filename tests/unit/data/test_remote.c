/* test_remote.c - MDS shards behind a server: the samples are those of the files, whatever the
 * network does. Errors, cut connections and wrong bytes are tried again, from where they stopped
 * where that is safe; what does not pass is told in one sentence, leaves nothing half done and can
 * be asked for again; shards used longest ago leave a full cache; what will be needed comes ahead;
 * a set that changed at its source does not mix with a cache of the old one. */
#include <sys/stat.h>

#include <vivace/ext/mds_shards.h>

#include "data/remote/fetch_queue.h"
#include "data/remote/remote.h"
#include "file_server.h"
#include "vvi_config.h"

enum { SAMPLES = 60, SAMPLE_BYTES = 500 };

/* Shards of two samples each. */
static void make_set(const char *dir, int salt, const char *compression, const char *hashes)
{
    static const vv_mds_column column = {"x", "bytes", 0};
    vv_mds_writer *writer;
    vv_mds_writer_opts opts = VV_MDS_WRITER_DEFAULTS;
    opts.columns = &column;
    opts.column_count = 1;
    opts.shard_bytes = 1300;
    opts.compression = compression;
    opts.hashes = hashes;
    opts.overwrite = true;
    assert_ok(vv_mds_writer_new(&writer, dir, &opts));
    for (int i = 0; i < SAMPLES; i++) {
        unsigned char data[SAMPLE_BYTES];
        for (int k = 0; k < SAMPLE_BYTES; k++)
            data[k] = (unsigned char)(i * 7 + k * (k % 5) + salt);
        assert_ok(vv_mds_writer_add(writer, &(vv_mds_bytes){data, sizeof data}));
    }
    assert_ok(vv_mds_writer_finish(writer));
    vv_mds_writer_free(writer);
}

static void check_data(int salt, int i, const unsigned char *data, size_t bytes)
{
    assert_int_equal(bytes, SAMPLE_BYTES);
    for (int k = 0; k < SAMPLE_BYTES; k++)
        if (data[k] != (unsigned char)(i * 7 + k * (k % 5) + salt))
            fail_msg("sample %d: byte %d is wrong", i, k);
}

static vv_status look(vv_mds *mds, int salt, int i)
{
    vv_mds_sample sample;
    const void *data;
    size_t bytes;
    VV_TRY(vv_mds_hold(mds, i, &sample));
    assert_ok(vv_mds_column_of(mds, &sample, 0, &data, &bytes));
    check_data(salt, i, data, bytes);
    vv_mds_release(mds, &sample);
    return VV_OK;
}

/* A served set and a cache. */
typedef struct world {
    char source[256], cache[256], address[64];
    file_server server;
    vv_mds_opts opts;
} world;

static void start_world(world *w, const char *compression, const char *hashes)
{
    temp_dir(w->source);
    temp_dir(w->cache);
    make_set(w->source, 1, compression, hashes);
    file_server_start(&w->server, w->source, 0);
    snprintf(w->address, sizeof w->address, "http://127.0.0.1:%d/", w->server.port);
    w->opts = (vv_mds_opts)VV_MDS_DEFAULTS;
    w->opts.dir = w->cache;
    w->opts.remote = w->address;
    w->opts.retry_wait = 0.001;
    w->opts.retries = 3;
}

static void end_world(world *w)
{
    file_server_stop(&w->server);
    remove_dir(w->source);
    remove_dir(w->cache);
}

static int count_shards(const char *dir)
{
    int count = 0;
    DIR *list = opendir(dir);
    assert_non_null(list);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;)
        count += strncmp(entry->d_name, "shard.", 6) == 0;
    closedir(list);
    return count;
}

static void samples_are_those_of_the_files(void **state)
{
    (void)state;
    static const char *const kinds[] = {"", "gz", "zstd"};
    for (int k = 0; k < 3; k++) {
        world w;
        vv_mds *mds;
        if ((k == 1 && !VVI_HAVE_ZLIB) || (k == 2 && !VVI_HAVE_ZSTD))
            continue;
        start_world(&w, kinds[k], k == 1 ? "" : "sha256,xxh64");
        assert_ok(vv_mds_open_with(&mds, &w.opts));
        assert_int_equal(vv_mds_shard_count(mds), SAMPLES / 2);
        for (int i = 0; i < SAMPLES; i++)
            assert_ok(look(mds, 1, (i * 7) % SAMPLES));
        vv_mds_free(mds);
        assert_int_equal(count_shards(w.cache), SAMPLES / 2); /* unpacked, nothing else */
        const int before = atomic_load(&w.server.requests);
        assert_ok(vv_mds_open_with(&mds, &w.opts)); /* all there: only the index is asked for */
        for (int i = 0; i < SAMPLES; i++)
            assert_ok(look(mds, 1, i));
        vv_mds_free(mds);
        assert_int_equal(atomic_load(&w.server.requests), before + 1);
        end_world(&w);
    }
}

static void version_1_too(void **state)
{
    (void)state;
    static const char *const sets[] = {"v1", "v1_gz"};
    for (int k = 0; k < 2 - !VVI_HAVE_ZLIB; k++) {
        char source[512], cache[256], address[64];
        file_server server;
        vv_mds *mds;
        vv_mds_opts opts = VV_MDS_DEFAULTS;
        snprintf(source, sizeof source, "%s/tests/unit/data/mds/%s", VV_SOURCE_ROOT, sets[k]);
        temp_dir(cache);
        file_server_start(&server, source, 0);
        snprintf(address, sizeof address, "http://127.0.0.1:%d", server.port);
        opts.dir = cache;
        opts.remote = address;
        assert_ok(vv_mds_open_with(&mds, &opts));
        assert_int_equal(vv_mds_count(mds), 10);
        for (int i = 0; i < 10; i++) {
            const void *data;
            size_t bytes;
            int column;
            assert_ok(vv_mds_find(&column, mds, "tokens"));
            assert_ok(vv_mds_read(mds, i, column, &data, &bytes));
            assert_int_equal(bytes, 8 * (20 + i % 3));
            assert_int_equal(*(const unsigned char *)data, (i * 31) % 200);
        }
        vv_mds_free(mds);
        file_server_stop(&server);
        remove_dir(cache);
    }
}

static void what_passes_is_tried_again(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    start_world(&w, "", "sha1");
    w.server.only = "shard";
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    atomic_store(&w.server.refuse, 3);
    assert_ok(look(mds, 1, 0));
    assert_int_equal(atomic_load(&w.server.requests), 1 + 4);
    atomic_store(&w.server.cut, 3); /* 3 times half of the rest: each gets further */
    assert_ok(look(mds, 1, 2));
    assert_int_equal(atomic_load(&w.server.ranges), 3);
    assert_true(atomic_load(&w.server.rest_bytes) > 800);
    atomic_store(&w.server.spoil, 2);
    assert_ok(look(mds, 1, 4));
    assert_int_equal(atomic_load(&w.server.ranges), 3); /* wrong bytes: from the beginning */
    atomic_store(&w.server.no_range, true);
    atomic_store(&w.server.cut, 1);
    assert_ok(look(mds, 1, 6)); /* a server that gives it whole */
    assert_int_equal(atomic_load(&w.server.ranges), 4);
    vv_mds_free(mds);
    end_world(&w);
}

static void what_does_not_pass_is_told(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    start_world(&w, "", "sha256");
    w.server.only = "shard.00001";
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    atomic_store(&w.server.refuse, 4);
    assert_fails(look(mds, 1, 2), VV_EIO);
    assert_says("shard.00001.mds");
    assert_says("given up after 4 tries");
    assert_says("answered 500");
    assert_ok(look(mds, 1, 2)); /* it works again */

    w.server.only = "shard.00002";
    atomic_store(&w.server.spoil, 4);
    assert_fails(look(mds, 1, 4), VV_EFORMAT);
    assert_says("expected sha256");
    assert_int_equal(count_shards(w.cache), 1);
    assert_ok(look(mds, 1, 4));

    w.server.only = "shard.00003";
    atomic_store(&w.server.refuse_code, 403);
    atomic_store(&w.server.refuse, 1);
    const int before = atomic_load(&w.server.requests);
    assert_fails(look(mds, 1, 6), VV_EIO);
    assert_says("does not let us read this");
    assert_int_equal(atomic_load(&w.server.requests), before + 1);

    char path[1024];
    snprintf(path, sizeof path, "%s/shard.00004.mds", w.source);
    assert_int_equal(remove(path), 0);
    assert_fails(look(mds, 1, 8), VV_ENOTFOUND);
    assert_says("there is no such object");
    snprintf(path, sizeof path, "%s/shard.00005.mds", w.source);
    assert_int_equal(truncate(path, 10), 0);
    assert_fails(look(mds, 1, 10), VV_EFORMAT);
    assert_says("expected 1");
    assert_says("found 10");
    vv_mds_free(mds);

    file_server_stop(&w.server);
    assert_fails(vv_mds_open_with(&mds, &w.opts), VV_EIO);
    assert_says("index.json: cannot be fetched");
    file_server_start(&w.server, w.source, w.server.port);
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    assert_ok(look(mds, 1, 2));
    vv_mds_free(mds);
    end_world(&w);
}

/* S3 answers 403 for what is not there to those who may not list a bucket: no classes then. */
static void classes_may_be_missing(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    const char *const *names;
    int64_t count;
    start_world(&w, "", "sha256");
    write_file(w.source, "classes.json", "[\"a\", \"b\"]", 10);
    for (int k = 0; k < 3; k++) {
        char path[1024];
        assert_ok(vv_mds_open_with(&mds, &w.opts));
        w.server.only = "classes";
        atomic_store(&w.server.refuse_code, 403);
        atomic_store(&w.server.refuse, k == 1);
        assert_ok(vv_mds_class_names(&names, &count, mds));
        assert_int_equal(count, k == 0 ? 2 : 0);
        vv_mds_free(mds);
        snprintf(path, sizeof path, "%s/classes.json", w.source);
        if (k == 1)
            assert_int_equal(remove(path), 0);
    }
    end_world(&w);
}

static void a_dead_server_and_its_return(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    start_world(&w, "", "sha256");
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    assert_ok(look(mds, 1, 0));
    const int port = w.server.port;
    shutdown(w.server.socket, SHUT_RDWR);
    pthread_join(w.server.thread, NULL);
    close(w.server.socket);
    assert_ok(look(mds, 1, 1)); /* in the cache */
    vv_mds *other;
    assert_fails(vv_mds_open_with(&other, &w.opts), VV_EIO);
    vv_mds_free(mds);
    file_server_start(&w.server, w.source, port);
    end_world(&w);
}

/* A part that an earlier process left goes on where it stopped, if a checksum will tell. */
static void an_old_part_goes_on(void **state)
{
    (void)state;
    for (int sums = 0; sums < 2; sums++) {
        world w;
        vv_mds *mds;
        char path[1024];
        static char data[4096];
        start_world(&w, "", sums ? "xxh64" : "");
        snprintf(path, sizeof path, "%s/shard.00000.mds", w.source);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_true(fread(data, 1, sizeof data, file) > 700);
        fclose(file);
        if (!sums)
            data[0] ^= 1; /* of something else */
        write_file(w.cache, "index.json", "", 0);
        write_file(w.cache, "shard.00000.mds.part", data, 700);
        assert_ok(vv_mds_open_with(&mds, &w.opts));
        assert_ok(look(mds, 1, 0));
        assert_int_equal(atomic_load(&w.server.ranges), sums);
        if (sums)
            assert_int_equal(atomic_load(&w.server.rest_bytes), 700);
        vv_mds_free(mds);
        end_world(&w);
    }
}

static void a_full_cache_loses_the_oldest(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    vv_mds_sample held;
    start_world(&w, "zstd", "sha256");
    if (!VVI_HAVE_ZSTD)
        skip();
    w.opts.cache_bytes = 4 * 1300;
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    assert_ok(vv_mds_hold(mds, 0, &held)); /* stays */
    for (int i = 2; i < 12; i++)
        assert_ok(look(mds, 1, i));
    assert_in_range(count_shards(w.cache), 3, 4);
    int before = atomic_load(&w.server.requests);
    assert_ok(look(mds, 1, 11));
    assert_ok(look(mds, 1, 8));
    assert_ok(look(mds, 1, 1));
    assert_int_equal(atomic_load(&w.server.requests), before);
    assert_ok(look(mds, 1, 2)); /* had to leave */
    assert_int_equal(atomic_load(&w.server.requests), before + 1);
    const void *data;
    size_t bytes;
    assert_ok(vv_mds_column_of(mds, &held, 0, &data, &bytes));
    check_data(1, 0, data, bytes);
    vv_mds_release(mds, &held);
    vv_mds_free(mds);
    w.opts.cache_bytes = 2 * 1300; /* a smaller one from the start */
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    assert_true(count_shards(w.cache) <= 2);
    vv_mds_free(mds);
    w.opts.cache_bytes = 1300;
    assert_fails(vv_mds_open_with(&mds, &w.opts), VV_EINVAL);
    assert_says("does not hold two shards");
    end_world(&w);
}

static void what_comes_is_fetched_ahead(void **state)
{
    (void)state;
    for (int limited = 0; limited < 2; limited++) {
        world w;
        vv_mds *mds;
        int64_t order[SAMPLES];
        start_world(&w, "", "sha1");
        w.opts.cache_bytes = limited ? 8 * 1300 : 0;
        for (int i = 0; i < SAMPLES; i++)
            order[i] = (i * 14 + i * 14 / SAMPLES) % SAMPLES;
        assert_ok(vv_mds_open_with(&mds, &w.opts));
        vv_mds_soon(mds, order, 20);
        const int want = limited ? 4 : 20;
        for (int i = 0; i < 5000 && atomic_load(&w.server.requests) < want; i++)
            usleep(1000);
        usleep(20000);
        if (limited)
            assert_in_range(atomic_load(&w.server.requests), 4, 6); /* half of the cache */
        for (int i = 0; i < SAMPLES; i++) {
            if (i + 20 < SAMPLES)
                vv_mds_soon(mds, order + i + 20, 1);
            assert_ok(look(mds, 1, (int)order[i]));
            assert_true(!limited || count_shards(w.cache) <= 9);
        }
        vv_mds_soon(mds, order, 30);
        vv_mds_free(mds); /* with shards on their way */
        end_world(&w);
    }
}

static void a_changed_set_is_not_mixed(void **state)
{
    (void)state;
    world w;
    vv_mds *mds;
    start_world(&w, "", "sha1");
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    for (int i = 0; i < SAMPLES; i++)
        assert_ok(look(mds, 1, i));
    vv_mds_free(mds);
    make_set(w.source, 2, "", "sha1");
    assert_ok(vv_mds_open_with(&mds, &w.opts));
    assert_int_equal(count_shards(w.cache), 0);
    for (int i = 0; i < SAMPLES; i++)
        assert_ok(look(mds, 2, i));
    vv_mds_free(mds);
    end_world(&w);
}

typedef struct reader {
    vv_mds *mds;
    int from;
} reader;

static void *read_all(void *arg)
{
    const reader *r = arg;
    for (int i = 0; i < SAMPLES; i++)
        if (look(r->mds, 1, (r->from + i * 7) % SAMPLES) != VV_OK) {
            print_message("# %s\n", vv_error());
            return arg;
        }
    return NULL;
}

/* Threads, and two sets as two processes would have them, on one small cache. */
static void many_at_once(void **state)
{
    (void)state;
    world w;
    vv_mds *mds[2];
    pthread_t threads[6];
    reader readers[6];
    start_world(&w, "", "sha1");
    w.opts.cache_bytes = 6 * 1300;
    w.opts.retries = 8; /* all seven faults may meet one shard */
    atomic_store(&w.server.cut, 5);
    atomic_store(&w.server.spoil, 2);
    w.server.only = "shard";
    for (int k = 0; k < 2; k++)
        assert_ok(vv_mds_open_with(&mds[k], &w.opts));
    for (int t = 0; t < 6; t++) {
        readers[t] = (reader){mds[t % 2], t * 11};
        assert_int_equal(pthread_create(&threads[t], NULL, read_all, &readers[t]), 0);
    }
    for (int t = 0; t < 6; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        assert_null(failed);
    }
    vv_mds_free(mds[0]);
    vv_mds_free(mds[1]);
    end_world(&w);
}

static void survives_each_allocation_failing(void **state)
{
    (void)state;
    world w;
    start_world(&w, "", "sha1");
    w.opts.retries = 0;
    const int64_t before = vv_memory_live_count();
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 500; nth++) {
        vv_mds *mds;
        vv_error_clear();
        vv_memory_fail_at(nth);
        vv_status status = vv_mds_open_with(&mds, &w.opts);
        if (status == VV_OK) {
            status = look(mds, 1, 0);
            vv_memory_fail_at(0);
            vv_mds_free(mds);
        }
        vv_memory_fail_at(0);
        done = status == VV_OK;
        if (!done)
            assert_true(vv_error()[0]);
        assert_int_equal(vv_memory_live_count(), before);
    }
    assert_true(done);
    end_world(&w);
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address, *endpoint, *region, *url, *shown;
    } cases[] = {
        {"https://host/a/b/", "", "", "https://host/a/b/x%20%2By.mds", "https://host/a/b"},
        {"http://me:secret@host:8/a?sig=1", "", "", "http://me:secret@host:8/a/x%20%2By.mds?sig=1",
         "http://host:8/a"},
        {"s3://bucket/a b/c", "", "eu-west-1",
         "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c/x%20%2By.mds",
         "https://bucket.s3.eu-west-1.amazonaws.com/a%20b/c"},
        {"s3://my.bucket", "", "", "https://s3.us-east-1.amazonaws.com/my.bucket/x%20%2By.mds",
         "https://s3.us-east-1.amazonaws.com/my.bucket"},
        {"s3://bucket/a", "http://127.0.0.1:9000/", "",
         "http://127.0.0.1:9000/bucket/a/x%20%2By.mds",
         "http://127.0.0.1:9000/bucket/a"},
        {"ftp://host/a", "", "", NULL, "expected http://"},
        {"http:///a", "", "", NULL, "there is no host"},
        {"http://host/a\nb", "", "", NULL, "control characters"},
        {"s3:///a", "", "", NULL, "expected s3://bucket/folder"},
        {"s3://b/a", "host", "", NULL, "expected http:// or https://"},
    };
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_S3");
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_SECRET_ACCESS_KEY", "very secret", 1);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const vvi_remote_opts opts = {cases[c].address, cases[c].endpoint, cases[c].region, 0, 0,
                                      1};
        vvi_remote_address address;
        vv_str url = {0};
        if (strncmp(cases[c].address, "s3", 2) == 0 && cases[c].url) {
            assert_fails(vvi_remote_address_read(&address, &opts), VV_EINVAL);
            assert_says("go together");
            assert_null(strstr(vv_error(), "secret\""));
            setenv("AWS_ACCESS_KEY_ID", "me", 1);
        }
        if (!cases[c].url) {
            assert_fails(vvi_remote_address_read(&address, &opts), VV_EINVAL);
            assert_says(cases[c].shown);
            continue;
        }
        assert_ok(vvi_remote_address_read(&address, &opts));
        vvi_remote_url(&url, &address, "x +y.mds");
        assert_string_equal(vv_str_text(&url), cases[c].url);
        assert_string_equal(address.shown, cases[c].shown);
        if (address.s3) {
            assert_string_equal(address.keys, "me:very secret");
            assert_null(address.token);
        }
        vv_str_fini(&url);
        vvi_remote_address_fini(&address);
        unsetenv("AWS_ACCESS_KEY_ID");
    }
    unsetenv("AWS_SECRET_ACCESS_KEY");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(samples_are_those_of_the_files),
        cmocka_unit_test(version_1_too),
        cmocka_unit_test(what_passes_is_tried_again),
        cmocka_unit_test(what_does_not_pass_is_told),
        cmocka_unit_test(classes_may_be_missing),
        cmocka_unit_test(a_dead_server_and_its_return),
        cmocka_unit_test(an_old_part_goes_on),
        cmocka_unit_test(a_full_cache_loses_the_oldest),
        cmocka_unit_test(what_comes_is_fetched_ahead),
        cmocka_unit_test(a_changed_set_is_not_mixed),
        cmocka_unit_test(many_at_once),
        cmocka_unit_test(survives_each_allocation_failing),
    };
    if (!VVI_HAVE_CURL) {
        puts("1..0 # SKIP this build has no libcurl");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
