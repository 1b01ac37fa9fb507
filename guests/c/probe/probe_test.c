#include "weir_test.h"

#include "probe.c"

int main(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("a", "demand one", 1);
    weir_test_record("a", "demand", 1);
    weir_test_record("b", "demand two", 1);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "a", "held \"\"");
    weir_test_expect(0, "a", "held \" one\"");
    weir_test_expect(0, "b", "held \"\"");
    weir_test_record("a", "what", 1);
    CHECK(weir_test_send(0) == WEIR_BAD_RECORD && weir_test_end_input() == WEIR_OK);
    weir_test_expect(0, "", "end of 0");
    weir_test_expect(0, "a", "left \"\"");
    weir_test_expect(0, "b", "left \" two\"");
    return weir_test_end();
}
