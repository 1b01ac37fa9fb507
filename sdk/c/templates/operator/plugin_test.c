#include "weir_test.h"

#include "plugin.c"

int main(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("ann", "hello", 1);
    weir_test_record("bob", "Weir", 2);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "ann", "HELLO");
    weir_test_expect(0, "bob", "WEIR");
    return weir_test_end();
}
