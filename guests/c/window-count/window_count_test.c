#include "weir_test.h"

#include "window_count.c"

static void each_window_gives_its_count_once_the_watermark_has_passed_it(void) {
    CHECK(weir_test_open("{\"size_ms\": 10}") == WEIR_OK);
    weir_test_record("a", "", 3);
    weir_test_record("b", "", 7);
    weir_test_record("a", "", 12);
    weir_test_record("a", "", 9);
    weir_test_record("a", "", -1);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test.timer_count == 4);
    CHECK(weir_test_watermark(8) == WEIR_OK);
    weir_test_expect(0, "a", "{\"key\":\"a\",\"start\":-10,\"count\":1}");
    CHECK(weir_test_watermark(9) == WEIR_OK);
    weir_test_expect(0, "a", "{\"key\":\"a\",\"start\":0,\"count\":2}");
    weir_test_expect(0, "b", "{\"key\":\"b\",\"start\":0,\"count\":1}");
    CHECK(weir_test.output[2].time == 9);
    weir_test_record("a", "too late", 5);
    weir_test_record("a", "", 19);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(1, "a", "too late");
    CHECK(weir_test_watermark(INT64_MAX) == WEIR_OK);
    weir_test_expect(0, "a", "{\"key\":\"a\",\"start\":10,\"count\":2}");
    CHECK(!weir_test.timer_count && !weir_test_state(0, "a").data);
    weir_test_end();
}

static void what_can_not_be_is_refused(void) {
    CHECK(weir_test_open("{\"size_ms\":0}") == WEIR_FATAL && weir_test_open("{}") == WEIR_FATAL);
    CHECK(weir_test_open("{\"size_ms\":1,\"more\":2}") == WEIR_FATAL);
    CHECK(weir_test_open("{\"size_ms\":10}") == WEIR_OK);
    weir_test_record("a", "", INT64_MAX);
    CHECK(weir_test_send(0) == WEIR_BAD_RECORD && !weir_test.timer_count);
    weir_test_record("\"\\\n\x01<", "", 1);
    CHECK(weir_test_send(0) == WEIR_OK && weir_test_watermark(9) == WEIR_OK);
    weir_test_expect(0, "\"\\\n\x01<", "{\"key\":\"\\\"\\\\\\n\\u0001<\",\"start\":0,\"count\":1}");
    weir_test_end();
}

int main(void) {
    each_window_gives_its_count_once_the_watermark_has_passed_it();
    what_can_not_be_is_refused();
    return 0;
}
