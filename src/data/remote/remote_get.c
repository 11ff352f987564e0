/* remote_get.c - fetches one object into a file: resumed, checked, tried again, renamed into place.
 *
 * What is fetched lies in <path>.part, locked while a process works on it. A part goes on only if
 * a checksum will tell whether the whole is right, or the server says it is still the same object
 * (its ETag); otherwise it begins again. */
#include "data/remote/remote.h"

#include "vvi_config.h"

#if VVI_HAVE_CURL

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include <vivace/memory.h>

#include "base/file.h"

#define IDLE_MAX 16
#define LONGEST_WAIT 30.0
#define MAX_UNKNOWN ((uint64_t)1 << 34) /* bytes of an object whose size is not known */

struct vvi_remote {
    vvi_remote_address address;
    int retries;
    double wait_seconds, timeout_seconds;
    pthread_mutex_t lock; /* of the handles, which keep their connections */
    CURL *idle[IDLE_MAX];
    int idle_count;
    bool started;
};

vv_status vvi_remote_new(vvi_remote **out, const vvi_remote_opts *opts)
{
    vv_status status;
    vvi_remote *remote = NULL;
    *out = NULL;
    VV_TRY(vv_alloc(&remote, sizeof *remote));
    pthread_mutex_init(&remote->lock, NULL);
    remote->retries = opts->retries;
    remote->wait_seconds = opts->wait_seconds;
    remote->timeout_seconds = opts->timeout_seconds;
    VV_GO(vvi_remote_address_read(&remote->address, opts));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        VV_GO(vv_fail(VV_EIO, "remote: libcurl cannot start"));
    remote->started = true;
    *out = remote;
    return VV_OK;
out:
    vvi_remote_free(remote);
    return status;
}

void vvi_remote_free(vvi_remote *remote)
{
    if (!remote)
        return;
    for (int i = 0; i < remote->idle_count; i++)
        curl_easy_cleanup(remote->idle[i]);
    if (remote->started)
        curl_global_cleanup();
    vvi_remote_address_fini(&remote->address);
    pthread_mutex_destroy(&remote->lock);
    vv_dealloc(remote);
}

static vv_status take_handle(vvi_remote *remote, CURL **out)
{
    pthread_mutex_lock(&remote->lock);
    *out = remote->idle_count > 0 ? remote->idle[--remote->idle_count] : NULL;
    pthread_mutex_unlock(&remote->lock);
    if (!*out)
        *out = curl_easy_init();
    return *out ? VV_OK : vv_fail(VV_ENOMEM, "out of memory while fetching");
}

static void return_handle(vvi_remote *remote, CURL *curl)
{
    pthread_mutex_lock(&remote->lock);
    const bool kept = remote->idle_count < IDLE_MAX;
    if (kept)
        remote->idle[remote->idle_count++] = curl;
    pthread_mutex_unlock(&remote->lock);
    if (!kept)
        curl_easy_cleanup(curl);
}

/* One object on its way. */
typedef struct transfer {
    vvi_remote *remote;
    const vvi_remote_object *object;
    const atomic_bool *stop;
    const char *path;
    char *part;
    CURL *curl;
    int file;           /* of the part, locked */
    uint64_t have;      /* bytes in it */
    bool asked_rest;    /* the request was for what is behind `have` */
    bool began, too_long;
    bool nothing; /* the answer is no object: a redirection, ... */
    int write_error;
    char etag[128], old_etag[128];
    bool may_pass; /* the failure */
} transfer;

static bool stopped(const transfer *t)
{
    return t->stop && atomic_load(t->stop);
}

static vv_status cannot_write(const transfer *t, int error)
{
    return vv_fail(VV_EIO, "%s: cannot be written: %s", t->part, strerror(error));
}

static vv_status empty_part(transfer *t)
{
    t->have = 0;
    if (ftruncate(t->file, 0) != 0)
        return cannot_write(t, errno);
    return lseek(t->file, 0, SEEK_SET) == 0 ? VV_OK : cannot_write(t, errno);
}

/* ---- libcurl's calls ---- */

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    transfer *t = arg;
    const size_t bytes = size * count;
    if (bytes > 5 && strncmp(data, "HTTP/", 5) == 0)
        t->etag[0] = '\0'; /* of a redirection */
    if (bytes > 5 && strncasecmp(data, "etag:", 5) == 0) {
        size_t from = 5, to = bytes;
        while (from < to && (data[from] == ' ' || data[from] == '\t'))
            from++;
        while (to > from && (data[to - 1] == '\r' || data[to - 1] == '\n' || data[to - 1] == ' '))
            to--;
        if (to - from < sizeof t->etag) {
            memcpy(t->etag, data + from, to - from);
            t->etag[to - from] = '\0';
        }
    }
    return bytes;
}

/* The first bytes tell whether the server gives the rest or all of it again. */
static bool begin_body(transfer *t)
{
    long code = 0;
    t->began = true;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    t->nothing = code != 200 && code != 206;
    return t->nothing || (t->asked_rest && code == 206) || empty_part(t) == VV_OK;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
    transfer *t = arg;
    const size_t bytes = size * count;
    if (!t->began && !begin_body(t)) {
        t->write_error = errno;
        return 0;
    }
    if (t->nothing)
        return bytes;
    const uint64_t most = t->object->bytes != UINT64_MAX ? t->object->bytes : MAX_UNKNOWN;
    if (t->have > most || bytes > most - t->have) {
        t->too_long = true;
        return 0;
    }
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(t->file, data + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            t->write_error = n < 0 ? errno : ENOSPC;
            return 0;
        }
        done += (size_t)n;
        t->have += (uint64_t)n;
    }
    return bytes;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t done, curl_off_t up_total,
                       curl_off_t up)
{
    (void)total, (void)done, (void)up_total, (void)up;
    return stopped(arg);
}

/* S3 wants the checksum of what a request carries, here nothing, among what is signed; libcurl adds
   it by itself only in later versions. */
static vv_status sign(const transfer *t, struct curl_slist **list)
{
#if LIBCURL_VERSION_NUM >= 0x074b00
    static const char nothing[] = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb924"
                                  "27ae41e4649b934ca495991b7852b855";
    const vvi_remote_address *address = &t->remote->address;
    vv_str token = {0};
    vv_status status = VV_OK;
    curl_easy_setopt(t->curl, CURLOPT_AWS_SIGV4, address->sign);
    curl_easy_setopt(t->curl, CURLOPT_USERPWD, address->keys);
    *list = curl_slist_append(NULL, nothing);
    if (address->token) {
        vv_str_addf(&token, "x-amz-security-token: %s", address->token);
        status = vv_str_status(&token);
        struct curl_slist *both = curl_slist_append(*list, vv_str_text(&token));
        if (!both)
            curl_slist_free_all(*list);
        *list = both;
    }
    vv_str_fini(&token);
    if (status == VV_OK && !*list)
        status = vv_fail(VV_ENOMEM, "out of memory while fetching");
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, *list);
    return status;
#else
    (void)t, (void)list;
    return vv_fail(VV_EUNSUPPORTED, "this build's libcurl cannot sign requests for S3; 7.75 and "
                                    "later can");
#endif
}

static vv_status set_options(transfer *t, const char *url, char *reason, struct curl_slist **list)
{
    const vvi_remote_address *address = &t->remote->address;
    CURL *curl = t->curl;
    const long silence = (long)(t->remote->timeout_seconds + 0.999);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, silence);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, silence);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "vivace/" VVI_VERSION);
    /* A signed request is for one host; another one would refuse it, or see what it should not. */
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, address->s3 ? 0L : 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, t);
    return address->sign ? sign(t, list) : VV_OK;
}

/* ---- one try ---- */

static vv_status answered(transfer *t, long code)
{
    const char *shown = t->remote->address.shown, *name = t->object->name;
    t->may_pass = code == 408 || code == 429 || code >= 500;
    if (code == 416) { /* what is there is longer than the object */
        t->may_pass = true;
        VV_TRY(empty_part(t));
    }
    if (code == 404 || code == 410 || (code == 403 && t->object->optional))
        return vv_fail(VV_ENOTFOUND, "%s/%s: the server answered %ld, there is no such object",
                       shown, name, code);
    if (code == 401 || code == 403)
        return vv_fail(VV_EIO, "%s/%s: the server answered %ld: it does not let us read this; "
                               "check the address%s", shown, name, code,
                       t->remote->address.s3 ? ", the region, AWS_ACCESS_KEY_ID, "
                                               "AWS_SECRET_ACCESS_KEY and this machine's clock"
                                             : "");
    return vv_fail(VV_EIO, "%s/%s: the server answered %ld", shown, name, code);
}

static vv_status failure(transfer *t, CURLcode result, const char *reason)
{
    const char *shown = t->remote->address.shown, *name = t->object->name;
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (stopped(t))
        return vv_fail(VV_EINTERRUPTED, "%s/%s: stopped while fetching it", shown, name);
    if (t->write_error)
        return cannot_write(t, t->write_error);
    if (result == CURLE_OUT_OF_MEMORY)
        return vv_fail(VV_ENOMEM, "%s/%s: out of memory while fetching it", shown, name);
    if (result == CURLE_HTTP_RETURNED_ERROR)
        return answered(t, code);
    t->may_pass = result != CURLE_URL_MALFORMAT && result != CURLE_UNSUPPORTED_PROTOCOL;
    if (t->too_long) {
        VV_TRY(empty_part(t));
        return vv_fail(VV_EFORMAT, "%s/%s: the server has more than the %llu bytes expected", shown,
                       name, (unsigned long long)t->object->bytes);
    }
    return vv_fail(VV_EIO, "%s/%s: cannot be fetched: %s", shown, name,
                   reason[0] ? reason : curl_easy_strerror(result));
}

/* Asks for the object, or what is missing of it. */
static vv_status request(transfer *t)
{
    vv_status status;
    vv_str url = {0};
    struct curl_slist *list = NULL;
    char reason[CURL_ERROR_SIZE] = "", range[32];
    vvi_remote_url(&url, &t->remote->address, t->object->name);
    VV_GO(vv_str_status(&url));
    VV_GO(set_options(t, vv_str_text(&url), reason, &list));
    t->began = t->too_long = t->nothing = false;
    t->write_error = 0;
    memcpy(t->old_etag, t->etag, sizeof t->etag);
    t->etag[0] = '\0';
    t->asked_rest = t->have > 0;
    if (t->asked_rest) {
        snprintf(range, sizeof range, "%llu-", (unsigned long long)t->have);
        curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
    }
    const CURLcode result = curl_easy_perform(t->curl);
    if (result != CURLE_OK)
        VV_GO(failure(t, result, reason));
    long code = 0;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200 && code != 206)
        VV_GO(answered(t, code));
    if (!t->began) /* it has no bytes */
        VV_GO(empty_part(t));
out:
    curl_slist_free_all(list);
    vv_str_fini(&url);
    return status;
}

/* Whether what is in the part is the object. */
static vv_status check(transfer *t)
{
    const vvi_remote_object *object = t->object;
    const char *shown = t->remote->address.shown;
    unsigned char piece[65536];
    char hex[65];
    vvi_digest digest;
    t->may_pass = true; /* a wrong object may be one that was cut or changed on its way */
    if (object->bytes != UINT64_MAX && t->have != object->bytes)
        return vv_fail(VV_EFORMAT, "%s/%s: expected %llu bytes, found %llu", shown, object->name,
                       (unsigned long long)object->bytes, (unsigned long long)t->have);
    if (object->kind == VVI_DIGEST_KINDS)
        return VV_OK;
    vvi_digest_init(&digest, object->kind);
    for (uint64_t at = 0; at < t->have;) {
        const ssize_t n = pread(t->file, piece, sizeof piece, (off_t)at);
        if (n <= 0)
            return vv_fail(VV_EIO, "%s: cannot be read: %s", t->part,
                           n < 0 ? strerror(errno) : "it shrank");
        vvi_digest_add(&digest, piece, (size_t)n);
        at += (uint64_t)n;
    }
    vvi_digest_hex(&digest, hex);
    if (strcmp(hex, object->hex) == 0)
        return VV_OK;
    return vv_fail(VV_EFORMAT, "%s/%s: expected %s %s, found %s; it was changed on its way or at "
                               "its source", shown, object->name, vvi_digest_name(object->kind),
                   object->hex, hex);
}

static vv_status try_once(transfer *t)
{
    t->may_pass = false;
    const bool whole = t->object->bytes != UINT64_MAX && t->have >= t->object->bytes &&
                       t->object->bytes > 0;
    if (!whole) {
        const uint64_t before = t->have;
        VV_TRY(request(t));
        if (before > 0 && t->have >= before && t->object->kind == VVI_DIGEST_KINDS &&
            (!t->etag[0] || strcmp(t->etag, t->old_etag) != 0)) {
            VV_TRY(empty_part(t)); /* two different objects' parts, perhaps */
            VV_TRY(request(t));
        }
    }
    const vv_status status = check(t);
    if (status == VV_EFORMAT)
        VV_TRY(empty_part(t));
    return status;
}

/* ---- the part ---- */

/* Opens and locks it; *there = another process has brought the file meanwhile. */
static vv_status lock_part(transfer *t, bool *there)
{
    const struct timespec nap = {0, 20 * 1000 * 1000};
    for (;;) {
        struct stat mine, now;
        t->file = open(t->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (t->file < 0)
            return cannot_write(t, errno);
        while (flock(t->file, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR)
                break; /* a file system without locks */
            if (stopped(t))
                return vv_fail(VV_EINTERRUPTED, "%s: stopped while another process fetches it",
                               t->part);
            nanosleep(&nap, NULL);
        }
        *there = vvi_exists(t->path);
        /* It may have been renamed or removed while we waited. */
        if (fstat(t->file, &mine) == 0 && stat(t->part, &now) == 0 && mine.st_ino == now.st_ino) {
            t->have = (uint64_t)mine.st_size;
            return VV_OK;
        }
        close(t->file);
        t->file = -1;
        if (*there)
            return VV_OK;
    }
}

static vv_status wait_before_retry(const transfer *t, int tried)
{
    const struct timespec nap = {0, 20 * 1000 * 1000};
    double seconds = t->remote->wait_seconds;
    for (int i = 0; i < tried && seconds < LONGEST_WAIT; i++)
        seconds *= 2;
    seconds = seconds < LONGEST_WAIT ? seconds : LONGEST_WAIT;
    for (double waited = 0; waited < seconds; waited += 0.02) {
        if (stopped(t))
            return vv_fail(VV_EINTERRUPTED, "%s: stopped while fetching it", t->path);
        nanosleep(&nap, NULL);
    }
    return VV_OK;
}

static vv_status fetch(transfer *t)
{
    vv_status status;
    if (t->object->kind == VVI_DIGEST_KINDS)
        VV_TRY(empty_part(t)); /* nothing would tell whether an old part fits */
    else if (lseek(t->file, 0, SEEK_END) < 0)
        return cannot_write(t, errno);
    uint64_t reached = t->have;
    for (int tried = 0;; tried++) {
        status = try_once(t);
        if (status == VV_OK || !t->may_pass)
            return status;
        if (t->have > reached) { /* it goes forward */
            reached = t->have;
            tried = 0;
        }
        if (tried >= t->remote->retries)
            return vv_fail_within(status, "given up after %d tries", tried + 1);
        VV_TRY(wait_before_retry(t, tried));
    }
}

static vv_status keep_part(transfer *t)
{
    if (fsync(t->file) != 0)
        return cannot_write(t, errno);
    if (rename(t->part, t->path) != 0)
        return vv_fail(VV_EIO, "%s: cannot be written: %s", t->path, strerror(errno));
    return VV_OK;
}

vv_status vvi_remote_get(vvi_remote *remote, const vvi_remote_object *object, const char *path,
                         const atomic_bool *stop)
{
    vv_status status;
    bool there = false;
    vv_str part = {0};
    transfer t = {.remote = remote, .object = object, .stop = stop, .path = path, .file = -1};
    vv_str_addf(&part, "%s.part", path);
    VV_GO(vv_str_status(&part));
    t.part = part.text;
    VV_GO(lock_part(&t, &there));
    if (there) {
        if (t.file >= 0)
            unlink(t.part);
        goto out;
    }
    VV_GO(take_handle(remote, &t.curl));
    VV_GO(fetch(&t));
    VV_GO(keep_part(&t));
out:
    if (t.file >= 0 && status != VV_OK && t.have == 0)
        unlink(t.part);
    if (t.file >= 0)
        close(t.file); /* and with it the lock */
    if (t.curl)
        return_handle(remote, t.curl);
    vv_str_fini(&part);
    return status;
}

#else

vv_status vvi_remote_new(vvi_remote **out, const vvi_remote_opts *opts)
{
    vvi_remote_address address;
    *out = NULL;
    VV_TRY(vvi_remote_address_read(&address, opts));
    vvi_remote_address_fini(&address);
    return vv_fail(VV_EUNSUPPORTED, "remote: this build has no libcurl; build with -Dcurl=enabled, "
                                    "or fetch the files by other means");
}

void vvi_remote_free(vvi_remote *remote)
{
    (void)remote;
}

vv_status vvi_remote_get(vvi_remote *remote, const vvi_remote_object *object, const char *path,
                         const atomic_bool *stop)
{
    (void)remote, (void)object, (void)stop;
    return vv_fail(VV_EUNSUPPORTED, "%s: this build has no libcurl", path);
}

#endif
