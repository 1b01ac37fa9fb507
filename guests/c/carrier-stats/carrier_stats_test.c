#include "weir_test.h"

#include "carrier_stats.c"

static const char *line(const char *delay) {
    static char text[256];
    snprintf(text, sizeof text, "2013,1,1,517,515,%s,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z", delay);
    return text;
}

static void each_flight_gives_the_running_values_of_its_key(bool one_batch) {
    static const char *const flights[][2] = {{"UA,EWR", "-3"}, {"B6,JFK", "2.0"}, {"UA,EWR", "-5"}, {"UA,EWR", "\"7\""}};
    CHECK(weir_test_open("{}") == WEIR_OK);
    for (int i = 0; i < 4; i++) {
        weir_test_record(flights[i][0], line(flights[i][1]), 1);
        if (!one_batch || i == 3) CHECK(weir_test_send(0) == WEIR_OK);
    }
    weir_test_expect(0, "UA,EWR", "UA,EWR,1,-3,-3");
    weir_test_expect(0, "B6,JFK", "B6,JFK,1,2,2");
    weir_test_expect(0, "UA,EWR", "UA,EWR,2,-8,-3");
    weir_test_expect(0, "UA,EWR", "UA,EWR,3,-1,7");
    CHECK(weir_test_state(0, "UA,EWR").len == sizeof(stats));
    weir_test_end();
}

static void bad_lines_are_named_and_change_nothing(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("k", line("1"), 1);
    weir_test_record("k", line("NA"), 1);
    weir_test_record("k", "1,2", 1);
    weir_test_record("k", "\"1,2", 1);
    CHECK(weir_test_send(0) == WEIR_BAD_RECORD);
    CHECK(weir_test.bad_count == 3 && weir_test.bad[0].index == 1 && weir_test.bad[2].index == 3);
    CHECK(!strcmp(weir_test.bad[0].why, "dep_delay 'NA' is not a number"));
    CHECK(strstr(weir_test.bad[1].why, "19 fields") && strstr(weir_test.bad[2].why, "quote"));
    CHECK(weir_test_state(0, "k").data == NULL);
    weir_test_end();
}

static void a_large_output_goes_over_in_chunks(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    enum { FLIGHTS = 20000 };
    for (int i = 0; i < FLIGHTS; i++) weir_test_record("a-rather-long-key", line("1"), i);
    CHECK(weir_test_send(0) == WEIR_OK);
    char value[64];
    for (int i = 1; i <= FLIGHTS; i++) {
        snprintf(value, sizeof value, "a-rather-long-key,%d,%d,1", i, i);
        weir_test_expect(0, "a-rather-long-key", value);
        CHECK(weir_test.output[i - 1].time == i - 1);
    }
    weir_test_end();
}

int main(void) {
    each_flight_gives_the_running_values_of_its_key(false);
    each_flight_gives_the_running_values_of_its_key(true);
    bad_lines_are_named_and_change_nothing();
    a_large_output_goes_over_in_chunks();
    return 0;
}
