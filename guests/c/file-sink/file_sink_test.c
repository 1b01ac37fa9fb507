#include "weir_test.h"

#include "file_sink.c"

#define ID "0123456789abcdef.3.out.1.7"
#define STAGED ".weir-staging/0123456789abcdef/out/" ID

static weir_committable ready(void) {
    weir_test_empty_folders();
    weir_committable done;
    CHECK(weir_test_open("{}") == WEIR_OK && weir_test_begin(ID) == WEIR_OK);
    weir_test_record("k", "one", 1);
    CHECK(weir_test_write() == WEIR_OK);
    weir_test_record("k", "two", 2);
    CHECK(weir_test_write() == WEIR_OK && weir_test_prepare("3-1", &done));
    CHECK(weir_equal(done.bytes, WEIR_TEXT("8 part-1-3-1")));
    return done;
}

static void records_appear_with_the_commit_and_whole(void) {
    weir_committable done = ready();
    char name[256];
    weir_test_crash();
    CHECK(weir_test_status(&done) == WEIR_NOT_COMMITTED && !weir_test_file("part-1-3-1").data);
    CHECK(weir_test_dangling(0, name) == 1 && !strcmp(name, ID));
    CHECK(weir_test_forget(ID) == WEIR_FATAL);
    CHECK(weir_test_commit(&done) == WEIR_COMMITTED);
    weir_test_crash();
    CHECK(weir_equal(weir_test_file("part-1-3-1"), WEIR_TEXT("one\ntwo\n")));
    CHECK(weir_test_commit(&done) == WEIR_ALREADY_COMMITTED && weir_test_abort(ID) == WEIR_WAS_COMMITTED);
    CHECK(weir_test_forget(ID) == WEIR_OK && weir_test_forget(ID) == WEIR_OK && !weir_test_dangling(0, name));
}

static void a_power_loss_before_any_step_is_made_good(void) {
    for (size_t calls = 0, finished = 0; !finished; calls++) {
        weir_committable done = ready();
        weir_test_fail_after(calls);
        finished = weir_test_commit(&done) == WEIR_COMMITTED;
        weir_test_crash();
        CHECK(weir_test_commit(&done) == (finished ? WEIR_ALREADY_COMMITTED : WEIR_COMMITTED));
        CHECK(weir_equal(weir_test_file("part-1-3-1"), WEIR_TEXT("one\ntwo\n")));
    }
    for (size_t calls = 0, finished = 0; !finished; calls++) {
        weir_committable done = ready();
        weir_test_fail_after(calls);
        finished = weir_test_abort(ID) == WEIR_ABORTED;
        weir_test_crash();
        CHECK(weir_test_status(&done) != WEIR_ALREADY_COMMITTED);
        CHECK(weir_test_abort(ID) == WEIR_ABORTED && !weir_test_file(STAGED).data && !weir_test_file(STAGED ".prepared").data);
    }
}

static void what_can_not_be_right_is_refused(void) {
    weir_committable done = ready();
    CHECK(weir_test_begin(ID) == WEIR_FATAL && strstr(weir_test.why, "is there already"));
    CHECK(weir_test_begin("no-identity") == WEIR_FATAL && weir_test_begin("a.b.c.d.e") == WEIR_FATAL);
    done.version = 2;
    CHECK(weir_test_commit(&done) == WEIR_UNKNOWN && strstr(weir_test.why, "version 2"));
    done.version = 1;
    weir_test_make(WEIR_TEXT("part-1-3-1"), false);
    CHECK(weir_test_commit(&done) == WEIR_LOST && strstr(weir_test.why, "is there already"));
    weir_test_node_at(WEIR_TEXT("part-1-3-1"))->there = false;
    done.bytes = WEIR_TEXT("9 part-1-3-1");
    CHECK(weir_test_commit(&done) == WEIR_LOST && strstr(weir_test.why, "has not the 9 bytes"));
    CHECK(weir_test_begin("a.1.out.0.1") == WEIR_OK);
    weir_test_record("k", NULL, 1);
    CHECK(weir_test_write() == WEIR_FATAL && strstr(weir_test.why, "value is null"));
    weir_committable none;
    CHECK(!weir_test_prepare("3-2", &none) && !weir_test.why[0]);
    CHECK(weir_test_open("{\"path\":1}") == WEIR_FATAL);
}

int main(void) {
    records_appear_with_the_commit_and_whole();
    a_power_loss_before_any_step_is_made_good();
    what_can_not_be_right_is_refused();
    puts("ok");
    return 0;
}
