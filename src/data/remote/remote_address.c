/* remote_address.c - from what the user says (and the environment of S3's tools) to URLs. */
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "data/remote/remote.h"

void vvi_remote_address_fini(vvi_remote_address *address)
{
    vv_dealloc(address->base);
    vv_dealloc(address->query);
    vv_dealloc(address->shown);
    vv_dealloc(address->sign);
    vv_dealloc(address->keys);
    vv_dealloc(address->token);
    *address = (vvi_remote_address){0};
}

/* The first that says something; "" if none does. */
static const char *first_of(const char *a, const char *b, const char *c)
{
    return a && a[0] ? a : b && b[0] ? b : c ? c : "";
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Letters, digits and -._~ stand for themselves everywhere in a URL (RFC 3986). */
static void add_escaped(vv_str *out, const char *text, size_t length)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~/";
    for (size_t i = 0; i < length; i++)
        if (memchr(plain, text[i], sizeof plain - 1))
            vv_str_addn(out, text + i, 1);
        else
            vv_str_addf(out, "%%%02X", (unsigned char)text[i]);
}

void vvi_remote_url(vv_str *out, const vvi_remote_address *address, const char *name)
{
    vv_str_add(out, address->base);
    vv_str_add(out, "/");
    add_escaped(out, name, strlen(name));
    vv_str_add(out, address->query);
}

static vv_status no_control(const char *text, const char *what)
{
    for (const char *at = text; *at; at++)
        if ((unsigned char)*at <= ' ' || *at == 127)
            return vv_fail(VV_EINVAL, "%s: expected an address without spaces or control "
                                      "characters", what);
    return VV_OK;
}

/* Without slashes at the end and without user:password@. */
static vv_status finish(vvi_remote_address *out, vv_str *base, const char *query)
{
    while (base->length > 0 && vv_str_text(base)[base->length - 1] == '/')
        base->text[--base->length] = '\0';
    VV_TRY(vv_str_status(base));
    const char *text = vv_str_text(base), *host = strstr(text, "://");
    host = host ? host + 3 : text;
    const size_t length = strcspn(host, "/");
    const char *at = memchr(host, '@', length);
    if (length == 0)
        return vv_fail(VV_EINVAL, "remote \"%s\": there is no host in it", text);
    VV_TRY(vv_strdup(&out->base, text));
    VV_TRY(vv_strdup(&out->query, query));
    vv_str shown = {0};
    vv_str_addn(&shown, text, (size_t)(host - text));
    vv_str_add(&shown, at ? at + 1 : host);
    vv_status status = vv_str_status(&shown);
    if (status == VV_OK)
        status = vv_strdup(&out->shown, vv_str_text(&shown));
    vv_str_fini(&shown);
    return status;
}

static vv_status read_http(vvi_remote_address *out, const char *text)
{
    vv_str base = {0};
    const size_t length = strcspn(text, "?#");
    vv_str_addn(&base, text, length);
    const vv_status status = finish(out, &base, text[length] == '?' ? text + length : "");
    vv_str_fini(&base);
    return status;
}

static vv_status read_keys(vvi_remote_address *out, const char *region)
{
    const char *id = first_of(getenv("AWS_ACCESS_KEY_ID"), NULL, NULL);
    const char *secret = first_of(getenv("AWS_SECRET_ACCESS_KEY"), NULL, NULL);
    const char *token = first_of(getenv("AWS_SESSION_TOKEN"), NULL, NULL);
    if (!id[0] && !secret[0])
        return VV_OK;
    if (!id[0] || !secret[0])
        return vv_fail(VV_EINVAL, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY go together; one of "
                                  "them is not set");
    vv_str keys = {0}, sign = {0};
    vv_str_addf(&keys, "%s:%s", id, secret);
    vv_str_addf(&sign, "aws:amz:%s:s3", region);
    vv_status status = vv_str_status(&keys);
    if (status == VV_OK)
        status = vv_str_status(&sign);
    if (status == VV_OK)
        status = vv_strdup(&out->keys, vv_str_text(&keys));
    if (status == VV_OK)
        status = vv_strdup(&out->sign, vv_str_text(&sign));
    if (status == VV_OK && token[0])
        status = vv_strdup(&out->token, token);
    vv_str_fini(&keys);
    vv_str_fini(&sign);
    return status;
}

/* Amazon's own buckets have hosts of their own, unless dots in the name would break its
   certificate; other servers have the bucket in the path. */
static vv_status read_s3(vvi_remote_address *out, const vvi_remote_opts *opts)
{
    const char *bucket = opts->address + 5;
    const size_t length = strcspn(bucket, "/");
    const char *endpoint = first_of(opts->endpoint, getenv("AWS_ENDPOINT_URL_S3"),
                                    getenv("AWS_ENDPOINT_URL"));
    const char *region = first_of(opts->region, getenv("AWS_REGION"),
                                  getenv("AWS_DEFAULT_REGION"));
    region = first_of(region, "us-east-1", NULL);
    out->s3 = true;
    if (length == 0 || memchr(bucket, '@', length))
        return vv_fail(VV_EINVAL, "remote \"%s\": expected s3://bucket/folder", opts->address);
    if (endpoint[0] && !starts(endpoint, "http://") && !starts(endpoint, "https://"))
        return vv_fail(VV_EINVAL, "endpoint \"%s\": expected http:// or https:// and a host",
                       endpoint);
    VV_TRY(no_control(endpoint, "endpoint"));
    VV_TRY(no_control(region, "region"));
    const bool dots = memchr(bucket, '.', length) != NULL;
    vv_str base = {0};
    if (endpoint[0]) {
        const size_t slashes = strlen(endpoint) - (endpoint[strlen(endpoint) - 1] == '/');
        vv_str_addn(&base, endpoint, slashes);
        vv_str_add(&base, "/");
    } else if (dots) {
        vv_str_addf(&base, "https://s3.%s.amazonaws.com/", region);
    } else {
        vv_str_addf(&base, "https://%.*s.s3.%s.amazonaws.com", (int)length, bucket, region);
    }
    if (endpoint[0] || dots)
        add_escaped(&base, bucket, length);
    add_escaped(&base, bucket + length, strlen(bucket + length));
    vv_status status = finish(out, &base, "");
    vv_str_fini(&base);
    return status == VV_OK ? read_keys(out, region) : status;
}

vv_status vvi_remote_address_read(vvi_remote_address *out, const vvi_remote_opts *opts)
{
    vv_status status;
    *out = (vvi_remote_address){0};
    const char *text = opts->address;
    status = starts(text, "s3://") ? VV_OK : no_control(text, "remote");
    if (status == VV_OK && starts(text, "s3://"))
        status = read_s3(out, opts);
    else if (status == VV_OK && (starts(text, "http://") || starts(text, "https://")))
        status = read_http(out, text);
    else if (status == VV_OK)
        status = vv_fail(VV_EINVAL, "remote \"%.*s\": expected http://, https:// or "
                                    "s3://bucket/folder", (int)strcspn(text, "@?"), text);
    if (status != VV_OK)
        vvi_remote_address_fini(out);
    return status;
}
