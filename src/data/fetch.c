/* fetch.c - downloading a data set's official files. Each is written beside its place, checked, and
 * renamed; so a file under its own name is whole. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <vivace/data.h>
#include <vivace/memory.h>

#include "base/file.h"
#include "data/data_file.h"
#include "data/sha256.h"

#include "vvi_config.h"

#if VVI_HAVE_CURL

#include <curl/curl.h>

typedef void (*progress_fn)(void *ctx, const char *file, int64_t done, int64_t total);

typedef struct download {
    const char *name;
    FILE *file;
    vvi_sha256 sha;
    int write_error;
    progress_fn progress;
    void *ctx;
} download;

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    download *down = arg;
    const size_t bytes = size * count;
    if (fwrite(data, 1, bytes, down->file) != bytes) {
        down->write_error = errno;
        return 0;
    }
    vvi_sha256_add(&down->sha, data, bytes);
    return bytes;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t done, curl_off_t up_total,
                       curl_off_t up)
{
    const download *down = arg;
    (void)up_total;
    (void)up;
    if (down->progress)
        down->progress(down->ctx, down->name, (int64_t)done, (int64_t)total);
    return 0;
}

static void set_options(CURL *curl, download *down, const char *url, char *reason)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L); /* a minute of silence ends it */
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vivace/" VVI_VERSION);
    /* A server may not send us to a local file. */
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, down);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, down);
}

static vv_status failure(CURLcode result, CURL *curl, const download *down, const char *url,
                         const char *part, const char *reason)
{
    long response = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response);
    if (down->write_error)
        return vv_fail(VV_EIO, "%s: cannot be written: %s", part, strerror(down->write_error));
    if (result == CURLE_OUT_OF_MEMORY)
        return vv_fail(VV_ENOMEM, "%s: out of memory while downloading", url);
    if (result == CURLE_HTTP_RETURNED_ERROR)
        return vv_fail(response == 404 || response == 410 ? VV_ENOTFOUND : VV_EIO,
                       "%s: the server answered %ld; try another base address", url, response);
    if (result == CURLE_PARTIAL_FILE)
        return vv_fail(VV_EIO, "%s: the transfer ended early (%s); try again", url,
                       reason[0] ? reason : curl_easy_strerror(result));
    return vv_fail(result == CURLE_FILE_COULDNT_READ_FILE ? VV_ENOTFOUND : VV_EIO,
                   "%s: cannot be downloaded: %s", url,
                   reason[0] ? reason : curl_easy_strerror(result));
}

/* Downloads url into the file `part`; hex = the sum of what came. */
static vv_status transfer(CURL *curl, download *down, const char *url, const char *part,
                          char hex[65])
{
    char reason[CURL_ERROR_SIZE] = "";
    vv_status status = VV_OK;
    vvi_sha256_init(&down->sha);
    down->write_error = 0;
    down->file = fopen(part, "wbe");
    if (!down->file)
        return vv_fail(VV_EIO, "%s: cannot be written: %s", part, strerror(errno));
    curl_easy_reset(curl);
    set_options(curl, down, url, reason);
    const CURLcode result = curl_easy_perform(curl);
    if (result != CURLE_OK)
        status = failure(result, curl, down, url, part, reason);
    const bool flushed = fflush(down->file) == 0 && fsync(fileno(down->file)) == 0;
    if ((fclose(down->file) != 0 || !flushed) && status == VV_OK)
        status = vv_fail(VV_EIO, "%s: cannot be written: %s", part, strerror(errno));
    vvi_sha256_hex(&down->sha, hex);
    return status;
}

/* A file that is there already is not fetched again; one with the wrong sum is. */
static vv_status already_there(bool *out, const char *path, const char *sha256)
{
    char hex[65];
    *out = vvi_exists(path);
    if (!*out || !sha256[0])
        return VV_OK;
    VV_TRY(vvi_sha256_file(hex, path));
    *out = strcmp(hex, sha256) == 0;
    return VV_OK;
}

static vv_status url_of(vv_str *out, const vv_fetch_file *file, const char *base_url)
{
    const char *last = strrchr(file->url, '/');
    if (!base_url || !base_url[0] || !last)
        vv_str_add(out, file->url);
    else
        vv_str_addf(out, "%s%s", base_url, base_url[strlen(base_url) - 1] == '/' ? last + 1 : last);
    return vv_str_status(out);
}

static vv_status fetch_file(CURL *curl, const vv_fetch_file *file, const char *dir,
                            const char *base_url, download *down)
{
    vv_status status;
    char *path = NULL;
    vv_str part = {0}, url = {0};
    bool there, started = false;
    char hex[65];
    const char *want = file->sha256 ? file->sha256 : "";
    VV_GO(vvi_path_join(&path, dir, file->name));
    VV_GO(already_there(&there, path, want));
    if (there)
        goto out;
    vv_str_addf(&part, "%s.part", path);
    VV_GO(vv_str_status(&part));
    VV_GO(url_of(&url, file, base_url));
    down->name = file->name;
    started = true;
    VV_GO(transfer(curl, down, vv_str_text(&url), vv_str_text(&part), hex));
    if (want[0] && strcmp(hex, want) != 0) {
        status = vv_fail(VV_EFORMAT,
                         "%s: expected SHA-256 %s, found %s; the file was changed on its "
                         "way or at its source",
                         vv_str_text(&url), want, hex);
        goto out;
    }
    if (rename(vv_str_text(&part), path) != 0) {
        status = vv_fail(VV_EIO, "%s: cannot be written: %s", path, strerror(errno));
        goto out;
    }
    started = false;
out:
    if (started)
        remove(vv_str_text(&part));
    vv_str_fini(&part);
    vv_str_fini(&url);
    vv_dealloc(path);
    return status;
}

static vv_status fetch_all(const vv_dataset_desc *desc, const char *dir, const char *base_url,
                           progress_fn progress, void *ctx)
{
    vv_status status = VV_OK;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return vv_fail(VV_EIO, "fetch: libcurl cannot start");
    download down = {.progress = progress, .ctx = ctx};
    CURL *curl = curl_easy_init();
    if (!curl)
        status = vv_fail(VV_ENOMEM, "fetch: out of memory");
    for (const vv_fetch_file *file = desc->files; status == VV_OK && file->url; file++)
        status = fetch_file(curl, file, dir, base_url, &down);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    return status;
}

vv_status vv_dataset_fetch(const vv_dataset_desc *desc, const char *dir, const char *base_url,
                           void (*progress)(void *ctx, const char *file, int64_t done,
                                            int64_t total),
                           void *ctx)
{
    vv_status status;
    char *home = NULL;
    if (!desc->files)
        return vv_fail(VV_EUNSUPPORTED, "data set %s: there is nothing to fetch", desc->desc.name);
    if (!dir || !dir[0]) {
        VV_GO(vvi_dataset_home(&home, desc->desc.name));
        dir = home;
    }
    if (!dir) {
        status = vv_fail(VV_EINVAL,
                         "data set %s: no folder to fetch into; name one, or set VIVACE_DATA "
                         "to the folder for data sets",
                         desc->desc.name);
        goto out;
    }
    VV_GO(vvi_mkdirs(dir));
    VV_GO(fetch_all(desc, dir, base_url, progress, ctx));
    if (desc->prepare)
        VV_GO(desc->prepare(dir));
out:
    vv_dealloc(home);
    return vv_fail_within(status, "fetch %s", desc->desc.name);
}

#else

vv_status vv_dataset_fetch(const vv_dataset_desc *desc, const char *dir, const char *base_url,
                           void (*progress)(void *ctx, const char *file, int64_t done,
                                            int64_t total),
                           void *ctx)
{
    (void)dir;
    (void)base_url;
    (void)progress;
    (void)ctx;
    return vv_fail(VV_EUNSUPPORTED,
                   "data set %s: this build has no libcurl; build with -Dcurl=enabled, "
                   "or download the files by hand (see the data set's README)",
                   desc->desc.name);
}

#endif
