/* mlflow_rest.c - MLflow's REST interface, version 2.0: the requests a run needs. */
#include "vvi_config.h"

#if VVI_HAVE_CURL

#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include <vivace/training_time.h>

#include "mlflow_impl.h"

enum { MOST_PARAMS = 100, MOST_PARAM_BYTES = 500 }; /* MLflow's limits */
#define REQUEST_SECONDS 20L

/* ---- requests ---- */

static size_t take_answer(char *data, size_t size, size_t count, void *ctx)
{
    vv_str *answer = ctx;
    if (answer->length + size * count > 16 << 20)
        return 0;
    vv_str_addn(answer, data, size * count);
    return vv_str_status(answer) == VV_OK ? size * count : 0;
}

static int add_dump(const char *data, size_t bytes, void *ctx)
{
    vv_str_addn(ctx, data, bytes);
    return vv_str_status(ctx) == VV_OK ? 0 : -1;
}

static bool out_of_time(vvi_mlflow *m)
{
    pthread_mutex_lock(&m->lock);
    bool over = m->stop && vv_clock() > m->deadline;
    pthread_mutex_unlock(&m->lock);
    return over;
}

static int watch_time(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return out_of_time(ctx);
}

long vvi_mlflow_request(vvi_mlflow *m, const char *path, json_t *body, json_t **answer, vv_str *why)
{
    long code = 0;
    vv_str url = {0}, sent = {0}, text = {0};
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = headers ? curl_slist_append(headers, "Expect:") : NULL; /* no wait for a 100 */
    if (answer)
        *answer = NULL;
    vv_str_addf(&url, "%s/api/2.0/mlflow/%s", m->uri, path);
    bool ready = !body || json_dump_callback(body, add_dump, &sent, JSON_COMPACT) == 0;
    if (!ready || vv_str_status(&url) != VV_OK || !headers || out_of_time(m)) {
        vv_str_add(why, "no time or memory left");
        goto out;
    }
    curl_easy_reset(m->curl);
    curl_easy_setopt(m->curl, CURLOPT_URL, vv_str_text(&url));
    curl_easy_setopt(m->curl, CURLOPT_HTTPHEADER, headers);
    if (body)
        curl_easy_setopt(m->curl, CURLOPT_POSTFIELDS, vv_str_text(&sent));
    curl_easy_setopt(m->curl, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(m->curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(m->curl, CURLOPT_TIMEOUT, REQUEST_SECONDS);
    curl_easy_setopt(m->curl, CURLOPT_CONNECTTIMEOUT, REQUEST_SECONDS / 2);
    curl_easy_setopt(m->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(m->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(m->curl, CURLOPT_XFERINFOFUNCTION, watch_time);
    curl_easy_setopt(m->curl, CURLOPT_XFERINFODATA, m);
    CURLcode done = curl_easy_perform(m->curl);
    if (done != CURLE_OK) {
        vv_str_add(why, curl_easy_strerror(done));
        goto out;
    }
    curl_easy_getinfo(m->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code != 200)
        vv_str_addf(why, "%s answers %ld: %.200s", path, code, vv_str_text(&text));
    if (answer)
        *answer = json_loads(vv_str_text(&text), 0, NULL);
out:
    json_decref(body);
    curl_slist_free_all(headers);
    vv_str_fini(&url);
    vv_str_fini(&sent);
    vv_str_fini(&text);
    return code;
}

/* ---- what is remembered beside the run ---- */

void vvi_mlflow_load_state(vvi_mlflow *m)
{
    json_t *state = m->resumed && m->state_path ? json_load_file(m->state_path, 0, NULL) : NULL;
    const char *id = json_string_value(json_object_get(state, "run_id"));
    const char *uri = json_string_value(json_object_get(state, "uri"));
    if (id && uri && strcmp(uri, m->uri) == 0)
        snprintf(m->run_id, sizeof m->run_id, "%s", id);
    json_decref(state);
    m->last_step = json_object();
}

static void save_state(const vvi_mlflow *m)
{
    json_t *state = json_pack("{s:s, s:s}", "uri", m->uri, "run_id", m->run_id);
    vv_str temp = {0};
    vv_str_addf(&temp, "%s.tmp", m->state_path ? m->state_path : "");
    if (m->state_path && state && vv_str_status(&temp) == VV_OK &&
        json_dump_file(state, vv_str_text(&temp), JSON_INDENT(1)) == 0)
        rename(vv_str_text(&temp), m->state_path);
    json_decref(state);
    vv_str_fini(&temp);
}

/* ---- the run on the server ---- */

int64_t vvi_mlflow_now_ms(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

static json_t *pair(const char *key, const char *value)
{
    return json_pack("{s:s, s:s}", "key", key, "value", value);
}

static bool find_experiment(vvi_mlflow *m, char id[64], vv_str *why)
{
    json_t *answer;
    char *name = curl_easy_escape(m->curl, m->experiment, 0);
    vv_str path = {0}, first = {0};
    vv_str_addf(&path, "experiments/get-by-name?experiment_name=%s", name ? name : "");
    curl_free(name);
    long code = vvi_mlflow_request(m, vv_str_text(&path), NULL, &answer, &first);
    const char *found = json_string_value(
        json_object_get(json_object_get(answer, "experiment"), "experiment_id"));
    if (code == 404) {
        json_decref(answer);
        code = vvi_mlflow_request(m, "experiments/create",
                                  json_pack("{s:s}", "name", m->experiment), &answer, why);
        found = json_string_value(json_object_get(answer, "experiment_id"));
    } else if (code != 200) {
        vv_str_add(why, vv_str_text(&first));
    }
    bool good = code == 200 && found;
    if (good)
        snprintf(id, 64, "%s", found);
    json_decref(answer);
    vv_str_fini(&path);
    vv_str_fini(&first);
    return good;
}

/* "key=value,key=value" beside what tells where the run comes from. */
static json_t *make_tags(const vvi_mlflow *m)
{
    json_t *tags = json_array();
    json_array_append_new(tags, pair("mlflow.source.name", "vivace"));
    json_array_append_new(tags, pair("mlflow.source.type", "LOCAL"));
    json_array_append_new(tags, pair("vivace.version", VVI_VERSION));
    for (const char *p = m->tags; *p;) {
        size_t length = strcspn(p, ","), key = strcspn(p, "=,");
        if (key > 0 && key < length)
            json_array_append_new(tags, json_pack("{s:s%, s:s%}", "key", p, key, "value",
                                                  p + key + 1, length - key - 1));
        p += length + (p[length] == ',');
    }
    return tags;
}

/* The run of an earlier process: what the server has of it is not sent again. *there = false if
   somebody deleted it. */
static bool take_up(vvi_mlflow *m, bool *there, vv_str *why)
{
    json_t *answer;
    vv_str path = {0}, reason = {0};
    vv_str_addf(&path, "runs/get?run_id=%s", m->run_id);
    long code = vvi_mlflow_request(m, vv_str_text(&path), NULL, &answer, &reason);
    const json_t *run = json_object_get(answer, "run"), *data = json_object_get(run, "data");
    const char *stage =
        json_string_value(json_object_get(json_object_get(run, "info"), "lifecycle_stage"));
    *there = code != 404 && !(stage && strcmp(stage, "deleted") == 0);
    const json_t *metrics = json_object_get(data, "metrics");
    for (size_t i = 0; *there && i < json_array_size(metrics); i++) {
        const json_t *one = json_array_get(metrics, i);
        const char *key = json_string_value(json_object_get(one, "key"));
        if (key)
            json_object_set(m->last_step, key, json_object_get(one, "step"));
    }
    m->params_sent = *there && json_array_size(json_object_get(data, "params")) > 0;
    bool good = code == 200;
    if (!good && *there)
        vv_str_add(why, vv_str_text(&reason));
    if (good && *there)
        good = vvi_mlflow_request(m, "runs/update",
                                  json_pack("{s:s, s:s}", "run_id", m->run_id, "status", "RUNNING"),
                                  NULL, why) == 200;
    json_decref(answer);
    vv_str_fini(&path);
    vv_str_fini(&reason);
    return good;
}

bool vvi_mlflow_ensure_run(vvi_mlflow *m, vv_str *why)
{
    if (m->run_id[0] && !m->resumed)
        return true;
    bool there = false;
    if (m->run_id[0] && take_up(m, &there, why) && there) {
        m->resumed = false;
        return true;
    }
    if (there)
        return false;
    json_t *answer;
    char experiment[64];
    if (!find_experiment(m, experiment, why))
        return false;
    long code = vvi_mlflow_request(m, "runs/create",
                                   json_pack("{s:s, s:s, s:I, s:o}", "experiment_id", experiment,
                                             "run_name", m->run_name, "start_time",
                                             (json_int_t)vvi_mlflow_now_ms(), "tags", make_tags(m)),
                                   &answer, why);
    json_t *info = json_object_get(json_object_get(answer, "run"), "info");
    const char *id = json_string_value(json_object_get(info, "run_id"));
    snprintf(m->run_id, sizeof m->run_id, "%s", code == 200 && id ? id : "");
    json_decref(answer);
    if (!m->run_id[0])
        return false;
    m->resumed = false;
    save_state(m);
    return true;
}

/* ---- parameters: the recipe's settings by their dotted names ---- */

bool vvi_mlflow_send(vvi_mlflow *m, const char *what, json_t *list, vv_str *why)
{
    return vvi_mlflow_request(m, "runs/log-batch",
                              json_pack("{s:s, s:o}", "run_id", m->run_id, what, list), NULL,
                              why) == 200;
}

void vvi_mlflow_clean_name(char *name)
{
    for (char *p = name; *p; p++)
        if (!strchr("_-. /", *p) && !(*p >= '0' && *p <= '9') && !(*p >= 'a' && *p <= 'z') &&
            !(*p >= 'A' && *p <= 'Z'))
            *p = '_';
}

/* One line of the resolved recipe; `path` holds the sections it lies in. */
static json_t *parameter(const char *line, size_t length, char path[2][64])
{
    char key[64], value[MOST_PARAM_BYTES + 1], name[200];
    size_t indent = strspn(line, " -"), colon = indent;
    while (colon < length && line[colon] != ':')
        colon++;
    size_t after = colon + 1;
    while (after < length && line[after] == ' ')
        after++;
    if (colon >= length || colon == indent)
        return NULL;
    snprintf(key, sizeof key, "%.*s", (int)(colon - indent), line + indent);
    bool quoted = after + 1 < length && line[after] == '"' && line[length - 1] == '"';
    after += quoted;
    size_t bytes = after < length ? length - quoted - after : 0;
    snprintf(value, sizeof value, "%.*s", (int)bytes, line + after);
    bool first_of_item = indent >= 2 && line[indent - 2] == '-';
    if (indent == 0 && after >= length) { /* a section begins */
        snprintf(path[0], 64, "%s", key);
        path[1][0] = '\0';
        return NULL;
    }
    if (indent == 0)
        path[0][0] = path[1][0] = '\0';
    if (first_of_item && strcmp(key, "name") == 0) { /* methods: - name: mixup */
        snprintf(path[1], 64, "%.63s", value);
        snprintf(value, sizeof value, "on");
        key[0] = '\0';
    }
    snprintf(name, sizeof name, "%s%s%s%s%s", path[0], path[0][0] && path[1][0] ? "." : "", path[1],
             (path[0][0] || path[1][0]) && key[0] ? "." : "", key);
    vvi_mlflow_clean_name(name);
    return pair(name, value);
}

bool vvi_mlflow_send_params(vvi_mlflow *m, vv_str *why)
{
    char path[2][64] = {"", ""};
    json_t *params = json_array();
    bool good = true;
    for (const char *p = m->recipe; *p && good;) {
        size_t length = strcspn(p, "\n");
        json_t *one = parameter(p, length, path);
        if (one)
            json_array_append_new(params, one);
        p += length + (p[length] == '\n');
        if (json_array_size(params) == MOST_PARAMS) {
            good = vvi_mlflow_send(m, "params", params, why);
            params = json_array();
        }
    }
    if (good && json_array_size(params))
        good = vvi_mlflow_send(m, "params", params, why);
    else
        json_decref(params);
    m->params_sent = good;
    return good;
}

#endif
