/* api.c - from a request to a reply: what there is, what it says. */
#include "explorer/api.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vivace/memory.h>

#include "explorer/web_files.h"
#include "runs/store.h"

#define JSON "application/json; charset=utf-8"

/* ---- replies ---- */

void vvi_body_drop(vvi_body *body)
{
    if (!body || --body->users > 0)
        return;
    if (body->owned) {
        char *data;
        memcpy(&data, &body->data, sizeof data);
        vv_dealloc(data);
    }
    vv_dealloc(body);
}

static vvi_body *keep_body(vvi_body *body)
{
    body->users++;
    return body;
}

/* Takes the text, which is empty afterwards. */
static vv_status body_of(vvi_body **out, vv_str *text)
{
    *out = NULL;
    VV_TRY(vv_str_status(text));
    VV_TRY(vv_alloc(out, sizeof **out));
    **out = (vvi_body){1, true, text->text, text->length};
    *text = (vv_str){0};
    return VV_OK;
}

void vvi_reply_fini(vvi_reply *reply)
{
    vvi_body_drop(reply->body);
    vv_str_fini(&reply->location);
    vv_str_fini(&reply->cookie);
    reply->body = NULL;
}

static vv_status say(vvi_reply *reply, int status, const char *type, vv_str *text)
{
    vvi_body_drop(reply->body);
    reply->body = NULL;
    reply->type = type;
    reply->status = status;
    return body_of(&reply->body, text);
}

/* {"error": sentence} */
vv_status vvi_refuse(vvi_reply *reply, int status, const char *sentence)
{
    vv_str text = {0};
    vv_str_add(&text, "{\"error\":");
    vv_str_add_json(&text, sentence);
    vv_str_add(&text, "}\n");
    vv_status said = say(reply, status, JSON, &text);
    vv_str_fini(&text);
    return said;
}

static int status_of(vv_status failure)
{
    switch (failure) {
    case VV_ENOTFOUND:
        return 404;
    case VV_EINVAL:
    case VV_EFORMAT:
        return 400;
    case VV_ENOMEM:
    case VV_EIO:
        return 503;
    default:
        return 500;
    }
}

/* ---- reading ---- */

static vv_status answer_file(vvi_reply *reply, const char *name)
{
    static const char *const types[][2] = {
        {".html", "text/html; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".mjs", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".json", JSON},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".woff2", "font/woff2"},
        {".yaml", "application/yaml; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
    };
    const vvi_web_file *file = vvi_web_files;
    while (file->name && strcmp(file->name, name) != 0)
        file++;
    if (!file->name)
        return vvi_refuse(reply, 404, "there is no such page here");
    reply->type = "application/octet-stream";
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t length = strlen(name), ending = strlen(types[i][0]);
        if (length > ending && strcmp(name + length - ending, types[i][0]) == 0)
            reply->type = types[i][1];
    }
    VV_TRY(vv_alloc(&reply->body, sizeof *reply->body));
    *reply->body = (vvi_body){1, false, (const char *)file->data, file->bytes};
    return VV_OK;
}

static bool chosen(const vvi_target *target, const char *key, const char *text)
{
    const char *wanted = vvi_target_get(target, key);
    return !wanted || strcmp(wanted, text) == 0;
}

/* False: it is to be made. */
static bool give_kept(const vvi_api *api, vvi_kept_name name, const char *type, vvi_reply *reply)
{
    const vvi_kept *kept = &api->kept[name];
    if (!kept->body || kept->revision != vv_run_table_revision(api->table))
        return false;
    reply->type = type;
    reply->body = keep_body(kept->body);
    return true;
}

static void keep(vvi_api *api, vvi_kept_name name, const vvi_reply *reply)
{
    vvi_kept *kept = &api->kept[name];
    vvi_body_drop(kept->body);
    *kept = (vvi_kept){keep_body(reply->body), vv_run_table_revision(api->table)};
}

static vv_status answer_runs(vvi_api *api, const vvi_target *target, vvi_reply *reply)
{
    const bool all = !vvi_target_get(target, "dataset") && !vvi_target_get(target, "model") &&
                     !vvi_target_get(target, "status");
    vv_str text = {0};
    int count = 0;
    if (all && give_kept(api, VVI_KEPT_RUNS, JSON, reply))
        return VV_OK;
    vv_str_add(&text, "{\"runs\":[");
    for (int i = 0; i < vv_run_table_count(api->table); i++) {
        const vv_run_light *run = vv_run_table_at(api->table, i);
        if (!chosen(target, "dataset", run->row.dataset) ||
            !chosen(target, "model", run->row.model) || !chosen(target, "status", run->row.status))
            continue;
        vv_str_add(&text, count++ ? ",\n" : "\n");
        vvi_add_run(api, i, &text);
    }
    vv_str_addf(&text, "\n],\"count\":%d,\"revision\":%" PRIu64 "}\n", count,
                vv_run_table_revision(api->table));
    vv_status status = say(reply, 200, JSON, &text);
    vv_str_fini(&text);
    if (status == VV_OK && all)
        keep(api, VVI_KEPT_RUNS, reply);
    return status;
}

static void add_text(vv_str *out, const char *key, const char *text)
{
    vv_str_addf(out, ",\"%s\":", key);
    vv_str_add_json(out, text);
}

static vv_status price_text(vvi_api *api, const vvi_target *target, vv_str *out)
{
    (void)target;
    vv_str_add(out, "{\"origin\":");
    vv_str_add_json(out, api->prices.origin ? api->prices.origin : "");
    vv_str_add(out, ",\"prices\":[");
    for (int i = 0; i < api->prices.count; i++) {
        const vv_price *p = &api->prices.items[i];
        vv_str_add(out, i ? ",{\"usd_per_hour\":" : "{\"usd_per_hour\":");
        vvi_json_real(out, p->usd_per_hour);
        add_text(out, "name", p->name);
        add_text(out, "accelerator", p->accelerator);
        add_text(out, "region", p->region);
        add_text(out, "kind", p->kind);
        add_text(out, "date", p->date);
        add_text(out, "source", p->source);
        vv_str_addf(out, ",\"cores\":%lld,\"accelerators\":%lld}", (long long)p->cores,
                    (long long)p->accelerators);
    }
    vv_str_add(out, "]}\n");
    return VV_OK;
}

static vv_status csv_text(vvi_api *api, vv_str *out)
{
    return vv_run_store_export_csv(api->store, out);
}

static vv_status json_text(vvi_api *api, vv_str *out)
{
    return vv_run_store_export_json(api->store, false, out);
}

static vv_status answer_kept(vvi_api *api, vvi_kept_name name, const char *type, vvi_reply *reply,
                             vv_status (*make)(vvi_api *, vv_str *))
{
    vv_str text = {0};
    if (give_kept(api, name, type, reply))
        return VV_OK;
    vv_status status = make(api, &text);
    if (status == VV_OK)
        status = say(reply, 200, type, &text);
    vv_str_fini(&text);
    if (status == VV_OK)
        keep(api, name, reply);
    return status;
}

static vv_status answer_text(vvi_api *api, const vvi_target *target, vvi_reply *reply,
                             vv_status (*make)(vvi_api *, const vvi_target *, vv_str *))
{
    vv_str text = {0};
    vv_status status = make(api, target, &text);
    if (status == VV_OK)
        status = say(reply, 200, JSON, &text);
    vv_str_fini(&text);
    return status;
}

static vv_status find_run(vvi_api *api, const char *id, const vv_run_light **out)
{
    *out = vv_run_table_find(api->table, id);
    return *out ? VV_OK : vv_fail(VV_ENOTFOUND, "there is no run \"%.200s\"", id);
}

static vv_status answer_run(vvi_api *api, const char *id, vvi_reply *reply)
{
    const vv_run_light *run;
    vv_str text = {0};
    VV_TRY(find_run(api, id, &run));
    vv_status status = vvi_run_detail(api, run, &text);
    vv_str_add(&text, "\n");
    if (status == VV_OK)
        status = say(reply, 200, JSON, &text);
    vv_str_fini(&text);
    return status;
}

static vv_status event_text(vvi_api *api, uint64_t since, vv_str *out)
{
    const uint64_t revision = vv_run_table_revision(api->table);
    uint64_t when;
    int count = 0;
    const char *id;
    vv_str_addf(out, "event: runs\nid: %" PRIu64 "\ndata: {\"runs\":[", revision);
    for (int i = 0; i < vv_run_table_count(api->table); i++) {
        const vv_run_light *run = vv_run_table_at(api->table, i);
        if (run->revision > since) {
            vv_str_add(out, count++ ? "," : "");
            vvi_add_run(api, i, out);
        }
    }
    vv_str_add(out, "],\"gone\":[");
    count = 0;
    for (int i = 0; (id = vv_run_table_gone(api->table, i, &when)) != NULL; i++)
        if (when > since && !vv_run_table_find(api->table, id)) {
            vv_str_add(out, count++ ? "," : "");
            vv_str_add_json(out, id);
        }
    vv_str_add(out, "]}\n\n");
    return vv_str_status(out);
}

vv_status vvi_api_event(vvi_api *api, uint64_t since, vv_str *out)
{
    return vv_run_table_revision(api->table) == since ? VV_OK : event_text(api, since, out);
}

/* ---- open and close ---- */

vv_status vvi_api_open(vvi_api *api, const char *db, bool write, const char *token)
{
    *api = (vvi_api){.write = write};
    if (!vvi_token_is_plain(token))
        return vv_fail(VV_EINVAL, "the token may have letters, digits and . _ ~ - only, 256 at "
                                  "most");
    VV_TRY(vv_strdup(&api->token, token));
    snprintf(api->cookie, sizeof api->cookie, "vivace_token");
    VV_TRY(vv_prices_read(&api->prices, NULL));
    VV_TRY(vv_run_store_open(&api->store, db, false)); /* writing would make one */
    if (write) {
        vv_run_store_close(api->store);
        api->store = NULL;
        VV_TRY(vv_run_store_open(&api->store, db, true));
    }
    VV_TRY(vv_run_table_read(&api->table, api->store));
    const vvi_target all = {.count = 0};
    vvi_reply first = {.status = 0}; /* who opens the page shall not wait for it */
    vv_status status = answer_runs(api, &all, &first);
    vvi_reply_fini(&first);
    return status;
}

void vvi_api_close(vvi_api *api)
{
    for (int i = 0; i < VVI_KEPT; i++)
        vvi_body_drop(api->kept[i].body);
    vv_run_table_free(api->table);
    vv_run_store_close(api->store);
    vv_prices_fini(&api->prices);
    vv_dealloc(api->token);
    *api = (vvi_api){.write = false};
}

/* ---- writing ---- */

static vv_status set_tag(vvi_api *api, const char *id, const json_t *body)
{
    const char *tag = json_string_value(json_object_get(body, "tag"));
    const json_t *on = json_object_get(body, "on");
    if (!tag || !json_is_boolean(on))
        return vv_fail(VV_EINVAL, "a tag is set by {\"tag\": \"word\", \"on\": true}");
    return vv_run_store_tag(api->store, id, tag, json_is_true(on));
}

static vv_status set_note(vvi_api *api, const char *id, const json_t *body)
{
    const char *note = json_string_value(json_object_get(body, "note"));
    if (!note)
        return vv_fail(VV_EINVAL, "a note is set by {\"note\": \"text\"}");
    if (strlen(note) > VVI_NOTE_LIMIT)
        return vv_fail(VV_EINVAL, "a note has at most %d bytes", (int)VVI_NOTE_LIMIT);
    return vv_run_store_note(api->store, id, note);
}

static vv_status write_run(vvi_api *api, const char *id, bool tag, const vvi_request *request,
                           vvi_reply *reply)
{
    const vv_run_light *run;
    json_error_t error;
    bool go;
    VV_TRY(vvi_check_writer(api, request, reply, &go));
    if (!go)
        return VV_OK;
    VV_TRY(find_run(api, id, &run));
    json_t *body = json_loadb(request->body ? request->body : "", request->body_bytes, 0, &error);
    if (!body)
        return vv_fail(VV_EFORMAT, "the request's body is no JSON: %s", error.text);
    vv_status status = tag ? set_tag(api, id, body) : set_note(api, id, body);
    json_decref(body);
    if (status == VV_OK)
        status = vv_run_table_refresh(api->table, true);
    return status == VV_OK ? answer_run(api, id, reply) : status;
}

/* ---- routes ---- */

/* The id in "/api/runs/ID/tail" as a text of its own; *tail = 't', 'n' or 0. */
static vv_status split_run(const char *path, vv_str *id, char *tail)
{
    const char *begin = path + strlen("/api/runs/");
    size_t length = strlen(begin);
    *tail = '\0';
    if (length > 5 && (strcmp(begin + length - 5, "/tags") == 0 ||
                       strcmp(begin + length - 5, "/note") == 0)) {
        *tail = begin[length - 4];
        length -= 5;
    }
    vv_str_addn(id, begin, length);
    return vv_str_status(id);
}

static vv_status not_allowed(vvi_reply *reply, const char *allow)
{
    reply->allow = allow;
    return vvi_refuse(reply, 405, "this address is not asked in that way");
}

static vv_status answer_get(vvi_api *api, const vvi_request *request, const vvi_target *target,
                            vvi_reply *reply)
{
    const char *path = target->path;
    if (strcmp(path, "/api/runs") == 0)
        return answer_runs(api, target, reply);
    if (strcmp(path, "/api/frontier") == 0)
        return answer_text(api, target, reply, vvi_frontier_answer);
    if (strcmp(path, "/api/prices") == 0)
        return answer_text(api, target, reply, price_text);
    if (strcmp(path, "/api/export.csv") == 0)
        return answer_kept(api, VVI_KEPT_CSV, "text/csv; charset=utf-8", reply, csv_text);
    if (strcmp(path, "/api/export.json") == 0)
        return answer_kept(api, VVI_KEPT_JSON, JSON, reply, json_text);
    if (strcmp(path, "/api/settings") == 0)
        return answer_kept(api, VVI_KEPT_SETTINGS, JSON, reply, vvi_settings_answer);
    if (strcmp(path, "/api/openapi.yaml") == 0)
        return answer_file(reply, "openapi.yaml");
    if (strcmp(path, "/api/events") == 0) {
        const uint64_t revision = vv_run_table_revision(api->table);
        reply->type = "text/event-stream; charset=utf-8";
        reply->events = true;
        const char *since = vvi_target_get(target, "since");
        const uint64_t asked = since ? strtoull(since, NULL, 10) : 0;
        const uint64_t from = request->since ? request->since : asked;
        reply->since = from && from <= revision ? from : revision;
        return VV_OK;
    }
    return vvi_refuse(reply, 404, "there is no such address; see /api/openapi.yaml");
}

static vv_status answer_api(vvi_api *api, const vvi_request *request, const vvi_target *target,
                            vvi_reply *reply, bool get)
{
    vv_str id = {0};
    char tail;
    reply->api = true;
    VV_TRY(vv_run_table_refresh(api->table, false));
    if (strncmp(target->path, "/api/runs/", 10) != 0)
        return get ? answer_get(api, request, target, reply) : not_allowed(reply, "GET, HEAD");
    vv_status status = split_run(target->path, &id, &tail);
    if (status == VV_OK && tail && strcmp(request->method, "POST") == 0)
        status = write_run(api, vv_str_text(&id), tail == 't', request, reply);
    else if (status == VV_OK && tail)
        status = not_allowed(reply, "POST");
    else if (status == VV_OK)
        status = get ? answer_run(api, vv_str_text(&id), reply) : not_allowed(reply, "GET, HEAD");
    vv_str_fini(&id);
    return status;
}

/* "/" with the query as it came, without the token. */
static vv_status add_query(vv_str *out, const char *query)
{
    vv_str_add(out, "/");
    for (char between = '?'; *query;) {
        const size_t length = strcspn(query, "&");
        if (length > 0 && strncmp(query, "token=", 6) != 0) {
            vv_str_addn(out, &between, 1);
            vv_str_addn(out, query, length);
            between = '&';
        }
        query += length + (query[length] == '&');
    }
    return vv_str_status(out);
}

static vv_status answer(vvi_api *api, const vvi_request *request, const vvi_target *target,
                        vvi_reply *reply)
{
    const bool get = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
    const char *path = target->path;
    bool go;
    VV_TRY(vvi_check_caller(api, request, target, reply, &go));
    if (!go)
        return VV_OK;
    if (request->body_bytes > VVI_BODY_LIMIT)
        return vvi_refuse(reply, 413, "a request's body has at most 65536 bytes");
    if (strncmp(path, "/api/", 5) == 0)
        return answer_api(api, request, target, reply, get);
    if (!get)
        return not_allowed(reply, "GET, HEAD");
    if (reply->cookie.length) { /* the token leaves the address bar */
        reply->status = 303;
        return add_query(&reply->location, strchr(request->target, '?') + 1);
    }
    return answer_file(reply, path[1] ? path + 1 : "index.html");
}

void vvi_api_answer(vvi_api *api, const vvi_request *request, vvi_reply *reply)
{
    vvi_target target;
    *reply = (vvi_reply){.status = 200, .api = true};
    vv_error_clear();
    vv_status status = vvi_target_read(&target, request->target);
    reply->api = status != VV_OK;
    if (status == VV_OK)
        status = answer(api, request, &target, reply);
    vvi_target_fini(&target);
    if (status != VV_OK) {
        vvi_body_drop(reply->body);
        reply->body = NULL;
        reply->events = false;
        if (vvi_refuse(reply, status_of(status), vv_error()) != VV_OK)
            reply->status = 0;
    }
}
