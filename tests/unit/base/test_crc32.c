/* test_crc32.c - the checksum of zip and gzip: the published check value, the same in any pieces
 * and at any alignment, and different when any bit is. */
#include "vv_test.h"

#include "base/crc32.h"

static uint32_t crc_of(vvi_crc32 *crc, const void *data, size_t bytes)
{
    vvi_crc32_reset(crc);
    vvi_crc32_add(crc, data, bytes);
    return vvi_crc32_value(crc);
}

static void test_crc32(void **state)
{
    (void)state;
    vvi_crc32 crc;
    vvi_crc32_init(&crc);
    assert_int_equal(crc_of(&crc, "123456789", 9), 0xcbf43926u);
    assert_int_equal(crc_of(&crc, "", 0), 0);
    assert_int_equal(crc_of(&crc, "The quick brown fox jumps over the lazy dog", 43), 0x414fa339u);
    unsigned char data[200];
    for (int i = 0; i < 200; i++)
        data[i] = (unsigned char)(i * 37 + 11);
    uint32_t whole = crc_of(&crc, data + 1, 150);
    for (size_t cut = 0; cut <= 150; cut++) {
        vvi_crc32_reset(&crc);
        vvi_crc32_add(&crc, data + 1, cut);
        vvi_crc32_add(&crc, data + 1 + cut, 150 - cut);
        assert_int_equal(vvi_crc32_value(&crc), whole);
    }
    for (int bit = 0; bit < 150 * 8; bit++) {
        data[1 + bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_true(crc_of(&crc, data + 1, 150) != whole);
        data[1 + bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crc32)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
