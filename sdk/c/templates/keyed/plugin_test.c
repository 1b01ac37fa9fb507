#include "weir_test.h"

#include "plugin.c"

int main(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("ann", "a", 1);
    weir_test_record("bob", "b", 2);
    weir_test_record("ann", "c", 3);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "ann", "1");
    weir_test_expect(0, "bob", "1");
    weir_test_expect(0, "ann", "2");
    return weir_test_end();
}
