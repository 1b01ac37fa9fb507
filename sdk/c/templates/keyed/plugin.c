/* {{name}}: counts the records of each key, and gives the count with every record. */
#include "weir.h"

static weir_status process(const weir_record *record, weir_value *values, weir_output *out) {
    /* The host keeps the state: nothing that must survive belongs into static variables. */
    uint64_t *count = weir_struct(&values[0], sizeof *count);
    if (!count) return weir_fail(WEIR_FATAL, "state `count` holds something else");
    ++*count;
    weir_begin(out, record->key);
    weir_write_int(out, (int64_t)*count);
    weir_end(out, record->time);
    return WEIR_OK;
}

/* A checkpoint finds the state by its name. */
static const weir_state STATES[] = {{.name = "count", .version = 1}};

const weir_operator weir_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .states = STATES,
    .state_count = 1,
    .process = process,
};
