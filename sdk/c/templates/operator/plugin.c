/* {{name}}: passes each value on in capital letters. */
#include "weir.h"

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    (void)values; /* It declares no state. */
    uint8_t *capitals = weir_scratch(record->value.len);
    for (size_t i = 0; i < record->value.len; i++) {
        uint8_t byte = record->value.data[i];
        /* The job file's `on_bad_record` says what becomes of a bad record. */
        if (byte == 0) return weir_fail(WEIR_BAD_RECORD, "the value is no text");
        capitals[i] = byte >= 'a' && byte <= 'z' ? byte - 'a' + 'A' : byte;
    }
    /* Key, event time and headers stay. */
    weir_forward_value(out, record, (weir_bytes){capitals, record->value.len});
    return WEIR_OK;
}

const weir_operator weir_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .process = process,
};
