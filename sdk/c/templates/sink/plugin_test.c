#include "weir_test.h"

#include "plugin.c"

/* Two records that are prepared; what is prepared survives a loss of power. */
static weir_committable ready(void) {
    weir_committable what;
    weir_test_empty_folders();
    CHECK(weir_test_open("{}") == WEIR_OK && weir_test_begin("a.1.out.0.1") == WEIR_OK);
    weir_test_record("k", "one", 1);
    weir_test_record("k", "two", 2);
    CHECK(weir_test_write() == WEIR_OK && weir_test_prepare("1-7", &what));
    weir_test_crash();
    return what;
}

static void records_appear_with_the_commit_and_once(void) {
    weir_committable what = ready();
    CHECK(!weir_test_file("part-0-1-7").data);
    CHECK(weir_test_commit(&what) == WEIR_COMMITTED && weir_test_commit(&what) == WEIR_ALREADY_COMMITTED);
    CHECK(weir_equal(weir_test_file("part-0-1-7"), WEIR_TEXT("one\ntwo\n")));
}

static void what_is_aborted_is_gone(void) {
    weir_committable what = ready();
    char dangling[256];
    CHECK(weir_test_dangling(0, dangling) == 1 && weir_test_abort("a.1.out.0.1") == WEIR_ABORTED);
    CHECK(weir_test_dangling(0, dangling) == 0 && weir_test_status(&what) == WEIR_LOST);
}

int main(void) {
    records_appear_with_the_commit_and_once();
    what_is_aborted_is_gone();
    puts("ok");
    return 0;
}
