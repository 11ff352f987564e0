/* remote.h - files of an object store: over HTTP(S), or S3 with signed requests. */
#ifndef VVI_REMOTE_H
#define VVI_REMOTE_H

#include <stdatomic.h>

#include <vivace/status.h>
#include <vivace/str.h>

#include "data/digest.h"

typedef struct vvi_remote vvi_remote;
typedef struct vvi_remote_opts {
    const char *address;  /* http://, https:// or s3://bucket/folder */
    const char *endpoint; /* of s3; "" = $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, then Amazon's */
    const char *region;   /* of s3; "" = $AWS_REGION, $AWS_DEFAULT_REGION, then us-east-1 */
    int retries;
    double wait_seconds, timeout_seconds;
} vvi_remote_opts;
/* Keys of s3 come from $AWS_ACCESS_KEY_ID, $AWS_SECRET_ACCESS_KEY and $AWS_SESSION_TOKEN; without
   them requests are not signed. */
VV_MUST_USE vv_status vvi_remote_new(VV_OWNED vvi_remote **out, const vvi_remote_opts *opts);
void vvi_remote_free(VV_TAKES vvi_remote *remote);

typedef struct vvi_remote_object {
    const char *name;     /* below the address */
    uint64_t bytes;       /* it must have so many; UINT64_MAX = not known */
    vvi_digest_kind kind; /* VVI_DIGEST_KINDS = no checksum */
    const char *hex;
    bool optional; /* it may be missing: S3 answers 403 to those who may not list a bucket */
} vvi_remote_object;
/* Fetches it to `path`, which appears whole and checked or not at all. What was fetched when a
   transfer broke off stays in path.part, and the next one goes on behind it. Failures that may pass
   (no connection, silence, 408, 429, 5xx, a wrong sum) are tried again, ever later. Another process
   that fetches the same is waited for. *stop ends it with VV_EINTERRUPTED. Any thread. */
VV_MUST_USE vv_status vvi_remote_get(vvi_remote *remote, const vvi_remote_object *object,
                                     const char *path, const atomic_bool *stop);

/* ---- within the room ---- */
typedef struct vvi_remote_address {
    char *base, *query;  /* base: without '/' at its end; query: "" or "?..." */
    char *shown;         /* base without user and password, for sentences */
    bool s3;
    char *sign;          /* "aws:amz:<region>:s3"; NULL = requests are not signed */
    char *keys, *token;  /* "<id>:<secret>"; token NULL = none. Never in a sentence */
} vvi_remote_address;
VV_MUST_USE vv_status vvi_remote_address_read(vvi_remote_address *out, const vvi_remote_opts *opts);
void vvi_remote_address_fini(vvi_remote_address *address);
/* The address of an object; its name's bytes that stand for something in URLs are escaped. */
void vvi_remote_url(vv_str *out, const vvi_remote_address *address, const char *name);

#endif
