/* What no guest here uses: side outputs, headers, null and empty, other states, failures. */
#include "weir_test.h"

static weir_status open_(const weir_task *task, weir_bytes config) {
    CHECK(task->parallelism == 1 && weir_equal(task->job, WEIR_TEXT("test")));
    return weir_equal(config, WEIR_TEXT("{\"refuse\":true}")) ? weir_fail(WEIR_FATAL, "told to") : WEIR_OK;
}

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    if (weir_equal(record->value, WEIR_TEXT("retry"))) return weir_fail(WEIR_RETRY, "later");
    if (weir_equal(record->value, WEIR_TEXT("delete"))) weir_delete(&values[1]);
    else if (weir_equal(record->value, WEIR_TEXT("struct"))) return weir_struct(&values[1], 1000) ? WEIR_OK : weir_fail(WEIR_FATAL, "size");
    else weir_set(&values[1], record->value);
    weir_forward(out, record);
    weir_emit_side(out, 1, record->key, values[1].present ? (weir_bytes){values[1].data, values[1].len} : WEIR_TEXT("-"), record->time);
    return WEIR_OK;
}

static const weir_state STATES[] = {{"unused", 1}, {"last", 2}};
static const char *const SIDES[] = {"never", "values"};
const weir_operator weir_plugin = {
    .name = "sdk-test", .version = "1", .states = STATES, .state_count = 2, .side_outputs = SIDES, .side_output_count = 2,
    .open = open_, .process = process,
};

static void state_and_side_outputs(void) {
    CHECK(weir_test_open("{\"refuse\":true}") == WEIR_FATAL);
    CHECK(weir_test_open("{}") == WEIR_OK);
    weir_test_record("a", "one", 1);
    weir_test_record("b", "", 2);
    CHECK(weir_test_send(0) == WEIR_OK);
    weir_test_expect(0, "a", "one");
    weir_test_expect(0, "b", "");
    weir_test_expect(2, "a", "one");
    weir_test_expect(2, "b", "");
    CHECK(weir_test_state(1, "a").len == 3 && weir_test_state(1, "b").data && !weir_test_state(0, "a").data);
    weir_test_record("a", "two", 1);
    weir_test_record("a", "retry", 1);
    CHECK(weir_test_send(0) == WEIR_RETRY && weir_equal(weir_test_state(1, "a"), WEIR_TEXT("one")));
    weir_test_record("a", "struct", 1);
    CHECK(weir_test_send(0) == WEIR_FATAL);
    weir_test_record("a", "delete", 1);
    CHECK(weir_test_send(0) == WEIR_OK && !weir_test_state(1, "a").data);
    weir_test_expect(0, "a", "delete");
    weir_test_expect(2, "a", "-");
    weir_test_end();
}

/* Three records: plain; an empty key that is there, and a null value; a header. */
static void what_a_record_has_beside_key_and_value_is_forwarded(void) {
    CHECK(weir_test_open("{}") == WEIR_OK);
    static const uint8_t data[] = "kvx";
    static const uint32_t index[] = {0, 1, 2, 2, 2, 2, 3}, key_of[] = {0, 1, 1};
    static const int64_t times[] = {5, 6, 7};
    static const uint8_t aux[] = {1, 0, 3, 0, 0, 0, 0, 3, 0,
                                  2, 0, 25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 'h', 0, 0, 0, 0};
    uint32_t zeros[3] = {0};
    uint8_t absent[2] = {0};
    cells none = {{absent, 2}, {0}, {(uint8_t *)zeros, sizeof zeros}};
    cells states[2] = {none, none};
    process_result *result =
        weir_export_process(3, 3, data, 3, (const uint8_t *)index, sizeof index, (const uint8_t *)times, sizeof times, aux, sizeof aux,
                            (const uint8_t *)key_of, sizeof key_of, states, 2);
    batch *main_ = &result->as.ok.main;
    CHECK(!result->failed && main_->count == 3 && main_->aux.len == sizeof aux && !memcmp(main_->aux.data, aux, sizeof aux));
    CHECK(!memcmp(main_->index.data, index, sizeof index) && !memcmp(main_->times.data, times, sizeof times));
    CHECK(result->as.ok.sides.len == 1 && result->as.ok.sides.data[0].port == 1 && !result->as.ok.sides.data[0].records.aux.len);
    weir_post_process(result);
}

int main(void) {
    state_and_side_outputs();
    what_a_record_has_beside_key_and_value_is_forwarded();
    return 0;
}
