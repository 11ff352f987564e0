/* caller.c - who may ask and who may write: tokens, names of this machine, other sites. */
#include <string.h>

#include "explorer/api.h"

bool vvi_token_is_plain(const char *token)
{
    for (const char *c = token; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              strchr("._~-", *c)))
            return false;
    return strlen(token) <= 256;
}

/* In a time that tells nothing about how much of it was right. */
static bool token_matches(const vvi_api *api, const char *text, size_t length)
{
    const size_t wanted = strlen(api->token);
    unsigned char wrong = length != wanted;
    for (size_t i = 0; i < wanted; i++)
        wrong |= (unsigned char)(api->token[i] ^ (i < length ? text[i] : 0));
    return wrong == 0;
}

static bool cookie_matches(const vvi_api *api, const char *cookies)
{
    const size_t name = strlen(api->cookie);
    for (const char *at = cookies; at && *at;) {
        at += strspn(at, "; ");
        const size_t length = strcspn(at, ";");
        if (length > name && strncmp(at, api->cookie, name) == 0 && at[name] == '=' &&
            token_matches(api, at + name + 1, length - name - 1))
            return true;
        at += length;
    }
    return false;
}

/* Pages of other sites may make a browser ask this machine under a name of theirs. */
static bool names_this_machine(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    if (!host)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t length = strlen(names[i]);
        if (strncmp(host, names[i], length) == 0 && (host[length] == '\0' || host[length] == ':'))
            return true;
    }
    return false;
}

static vv_status needs_token(vvi_reply *reply)
{
    return vvi_refuse(reply, 401, "a token is needed: open the address with ?token=... once, or "
                                  "send the header Authorization: Bearer ...");
}

vv_status vvi_check_caller(vvi_api *api, const vvi_request *request, const vvi_target *target,
                           vvi_reply *reply, bool *go)
{
    *go = false;
    if (api->local && !names_this_machine(request->host))
        return vvi_refuse(reply, 403, "this server answers to localhost and 127.0.0.1 only");
    *go = true;
    if (!api->token[0])
        return VV_OK;
    const char *header = request->authorization, *given = vvi_target_get(target, "token");
    if (header && strncmp(header, "Bearer ", 7) == 0 &&
        token_matches(api, header + 7, strlen(header + 7)))
        return VV_OK;
    if (cookie_matches(api, request->cookie))
        return VV_OK;
    *go = false;
    if (!given || !token_matches(api, given, strlen(given)))
        return needs_token(reply);
    vv_str_addf(&reply->cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", api->cookie,
                api->token);
    VV_TRY(vv_str_status(&reply->cookie));
    *go = true;
    return VV_OK;
}

/* Another site's page cannot send JSON here without asking first, which nobody answers. */
vv_status vvi_check_writer(const vvi_api *api, const vvi_request *request, vvi_reply *reply,
                           bool *go)
{
    const char *type = request->content_type, *origin = request->origin;
    *go = false;
    if (!api->write)
        return vvi_refuse(reply, 403, "this server only reads; start it with --write");
    if (origin && (!request->host || strncmp(origin, "http://", 7) != 0 ||
                   strcmp(origin + 7, request->host) != 0))
        return vvi_refuse(reply, 403, "another site may not write here");
    if (!type || strncmp(type, "application/json", 16) != 0)
        return vvi_refuse(reply, 415, "send Content-Type: application/json");
    *go = true;
    return VV_OK;
}
