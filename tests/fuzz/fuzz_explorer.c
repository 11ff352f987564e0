/* fuzz_explorer.c - any request to the Explorer: a reply of a known status, JSON with a sentence if
 * it is refused, and a store that is as it was unless the request may write. The bytes are the
 * method, the target and the body, each ended by a newline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vivace/memory.h>

#include "explorer/api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static char path[] = "/tmp/vivace-fuzz-XXXXXX";
static vvi_api reading, writing;

static void forget(void)
{
    char file[64];
    static const char *const ends[] = {"", "-wal", "-shm"};
    vvi_api_close(&reading);
    vvi_api_close(&writing);
    for (int i = 0; i < 3; i++) {
        snprintf(file, sizeof file, "%s%s", path, ends[i]);
        remove(file);
    }
}

static void prepare(void)
{
    vv_run_store *store;
    vv_run_row row;
    const vv_run_eval eval = {"eval", "accuracy", true, 1, 4, 64, 1.0, 1.5, 0.5};
    const int fd = mkstemp(path);
    if (fd < 0)
        abort();
    close(fd);
    if (vv_run_store_open(&store, path, true) != VV_OK)
        abort();
    vv_run_row_init(&row);
    row.status = "done";
    row.dataset = "mnist";
    row.model = "mlp";
    for (int i = 0; i < 3; i++) {
        const char *ids[] = {"a-1", "b-2", "c/3"};
        row.id = ids[i];
        row.usd = row.train_seconds = (double)i;
        if (vv_run_store_put(store, &row) != VV_OK ||
            vv_run_store_add_eval(store, row.id, &eval) != VV_OK)
            abort();
    }
    vv_run_store_close(store);
    if (vvi_api_open(&reading, path, false, "") != VV_OK ||
        vvi_api_open(&writing, path, true, "token") != VV_OK)
        abort();
    atexit(forget);
}

static void ask(vvi_api *api, const vvi_request *request)
{
    static const int known[] = {200, 303, 400, 401, 403, 404, 405, 413, 415, 503};
    vvi_reply reply;
    bool is_known = false;
    vvi_api_answer(api, request, &reply);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        is_known = is_known || reply.status == known[i];
    if (!is_known || (!reply.body && !reply.events && reply.status != 303))
        abort();
    if (reply.status >= 400 && strncmp(reply.body->data, "{\"error\":\"", 10) != 0)
        abort();
    if (vv_run_table_count(api->table) != 3)
        abort();
    vvi_reply_fini(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (!vv_run_store_available())
        return 0;
    if (!reading.table)
        prepare();
    char *text = malloc(bytes + 1), *target, *body;
    if (!text)
        return 0;
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    target = body = text + bytes;
    char *end = memchr(text, '\n', bytes);
    if (end) {
        *end = '\0';
        target = end + 1;
        end = memchr(target, '\n', bytes - (size_t)(target - text));
    }
    if (end) {
        *end = '\0';
        body = end + 1;
    }
    vvi_request request = {.host = "localhost:1", .content_type = "application/json",
                           .authorization = "Bearer token"};
    request.body_bytes = bytes - (size_t)(body - text);
    request.method = text;
    request.target = target;
    request.body = body;
    ask(&reading, &request);
    ask(&writing, &request);
    request.authorization = NULL;
    request.cookie = target;
    ask(&writing, &request);
    free(text);
    return 0;
}
