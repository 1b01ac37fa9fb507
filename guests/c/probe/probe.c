/* Says what a state on demand held and puts the next value there, or nothing; at the end of input says so, and what each key still holds.
 * Values are `demand <next>`, as the probe in Go takes them.
 */
#include "weir.h"

enum { RARE, LAST };

static void say(weir_output *out, weir_bytes key, weir_bytes what, const weir_value *value) {
    weir_begin(out, key);
    weir_write(out, what);
    if (value->present) weir_write(out, (weir_bytes){value->data, value->len});
    weir_write_byte(out, '"');
    weir_end(out, 0);
}

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    weir_bytes command = WEIR_TEXT("demand"), next = record->value;
    if (next.len < command.len || !weir_equal((weir_bytes){next.data, command.len}, command)) return weir_fail(WEIR_BAD_RECORD, "no command");
    next = (weir_bytes){next.data + command.len, next.len - command.len};
    weir_value *rare = &values[RARE];
    weir_fetch(rare);
    say(out, record->key, WEIR_TEXT("held \""), rare);
    if (next.len) weir_set(rare, next);
    else weir_delete(rare);
    weir_set(&values[LAST], record->value);
    return WEIR_OK;
}

static weir_status on_end(uint32_t port, weir_output *out) {
    weir_begin(out, (weir_bytes){0});
    weir_write(out, WEIR_TEXT("end of "));
    weir_write_int(out, port);
    weir_end(out, 0);
    return WEIR_OK;
}

static weir_status on_end_key(weir_bytes key, weir_value *values, weir_output *out) {
    weir_fetch(&values[RARE]);
    say(out, key, WEIR_TEXT("left \""), &values[RARE]);
    weir_delete(&values[LAST]);
    return WEIR_OK;
}

static const weir_state STATES[] = {
    [RARE] = {.name = "rare", .version = 1, .on_demand = true},
    [LAST] = {.name = "last", .version = 1},
};

const weir_operator weir_plugin = {
    .name = "probe",
    .version = "0.1.0",
    .states = STATES,
    .state_count = 2,
    .process = process,
    .on_end = on_end,
    .on_end_key = on_end_key,
};
