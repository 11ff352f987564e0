/* test_prices.c - the price table: the built-in one, a user's own, and what is refused. */
#include "vv_test.h"

#include <unistd.h>

#include <vivace/prices.h>

/* The built-in table is the file at the top of the tree; each entry says where it comes from. */
static void test_builtin(void **state)
{
    (void)state;
    vv_price_list builtin, file;
    unsetenv("VIVACE_PRICES");
    assert_ok(vv_prices_read(&builtin, NULL));
    assert_ok(vv_prices_read(&file, PRICES_FILE));
    assert_true(builtin.count > 20);
    assert_int_equal(builtin.count, file.count);
    for (int i = 0; i < builtin.count; i++) {
        const vv_price *p = &builtin.items[i];
        assert_string_equal(p->name, file.items[i].name);
        assert_true(p->usd_per_hour > 0.0);
        assert_true(p->source[0] != '\0' && p->kind[0] != '\0');
        assert_true(p->cores > 0 || p->accelerators > 0 || strchr(p->name, '.'));
    }
    const vv_price *p;
    assert_ok(vv_price_find(&p, &builtin, "p4d.24xlarge"));
    assert_near(p->usd_per_hour, 32.7726, 0, 0);
    assert_int_equal(p->accelerators, 8);
    /* 27 minutes and 2 seconds of it cost $14.77 */
    assert_near(p->usd_per_hour * (27 * 60 + 2) / 3600, 14.77, 0.005, 0);
    assert_fails(vv_price_find(&p, &builtin, "p4d.24xlrge"), VV_ENOTFOUND);
    assert_says("did you mean 'p4d.24xlarge'");
    assert_null(p);
    assert_fails(vv_price_find(&p, &builtin, "something else altogether"), VV_ENOTFOUND);
    assert_says("usd_per_hour");
    vv_prices_fini(&builtin);
    vv_prices_fini(&file);
}

static void write_table(char *path, const char *text)
{
    strcpy(path, "/tmp/vivace-prices-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* VIVACE_PRICES names the user's own. */
static void test_own(void **state)
{
    (void)state;
    char path[64];
    write_table(path, "prices:\n  - {name: mine, usd_per_hour: 1.5, cores: 2, date: 2024-05-01}\n");
    setenv("VIVACE_PRICES", path, 1);
    vv_price_list list;
    const vv_price *p;
    assert_ok(vv_prices_read(&list, NULL));
    assert_string_equal(list.origin, path);
    assert_int_equal(list.count, 1);
    assert_ok(vv_price_find(&p, &list, "mine"));
    assert_near(p->usd_per_hour, 1.5, 0, 0);
    assert_int_equal(p->cores, 2);
    assert_int_equal(p->accelerators, 0);
    assert_string_equal(p->date, "2024-05-01");
    assert_string_equal(p->region, "");
    vv_prices_fini(&list);
    unsetenv("VIVACE_PRICES");
    unlink(path);
}

static void refused(const char *text, const char *says)
{
    char path[64];
    vv_price_list list;
    write_table(path, text);
    vv_status status = vv_prices_read(&list, path);
    vv_prices_fini(&list);
    unlink(path);
    if (status == VV_OK)
        fail_msg("accepted: %s", text);
    assert_says(says);
}

static void test_refusals(void **state)
{
    (void)state;
    vv_price_list list;
    refused("machines: []\n", "below `prices:`");
    refused("prices:\n  - {name: a}\n", ":2: an entry needs `name` and `usd_per_hour`");
    refused("prices:\n  - {name: a, usd_per_hour: 0}\n", "usd_per_hour must be above 0");
    refused("prices:\n  - {name: a, usd_per_hour: -1}\n", "usd_per_hour");
    refused("prices:\n  - {name: a, usd_per_hour: 1, core: 2}\n", "cores");
    refused("prices:\n  - {name: a, usd_per_hour: 1}\n  - {name: a, usd_per_hour: 2}\n",
            ":3: a is there twice");
    refused("prices:\n  - mine\n", "an entry is");
    assert_fails(vv_prices_read(&list, "/nowhere/prices.yaml"), VV_ENOTFOUND);
    assert_says("price table");
    vv_prices_fini(&list);
}

/* Whichever allocation fails: an error, and nothing left behind. */
static void test_out_of_memory(void **state)
{
    (void)state;
    char path[64];
    write_table(path, "prices:\n  - {name: mine, usd_per_hour: 1.5, cores: 2}\n");
    for (uint64_t nth = 1;; nth++) {
        vv_price_list list;
        int64_t live = vv_memory_live_count();
        vv_memory_fail_at(nth);
        vv_status status = vv_prices_read(&list, path);
        vv_memory_fail_at(0);
        if (status != VV_OK)
            assert_int_equal(status, VV_ENOMEM);
        vv_prices_fini(&list);
        assert_int_equal(vv_memory_live_count(), live);
        if (status == VV_OK)
            break;
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
