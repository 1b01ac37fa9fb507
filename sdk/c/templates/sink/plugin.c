/* {{name}}: writes each value and a newline to files that appear whole, in the granted folder `out`.
 *
 * `.staging/<transaction>` is what was written; beside it `<transaction>.prepared`, once all of it is durable. A commit is one rename to
 * `part-<subtask>-<checkpoint>`. Hence: both there = prepared; the marker alone = committed, even when a reader has taken the file away; no
 * marker = never prepared, or aborted.
 */
#include "weir.h"

#define OUT WEIR_TEXT("out")
#define STAGING WEIR_TEXT(".staging")
#define PREPARED WEIR_TEXT(".prepared")

static weir_bytes staged(weir_bytes transaction) { return WEIR_JOIN(STAGING, WEIR_TEXT("/"), transaction); }
static weir_bytes marker(weir_bytes transaction) { return WEIR_JOIN(staged(transaction), PREPARED); }

/* ---- The writing half: one for each subtask. ---- */

static uint8_t name[256];
static size_t name_len;
static uint64_t written;
static uint8_t subtask[10];
static size_t subtask_len;

static weir_bytes transaction_(void) { return (weir_bytes){name, name_len}; }

static weir_status open_(const weir_task *task, weir_bytes config) {
    (void)config;
    uint32_t number = task->subtask, digits = 1;
    while (number /= 10) digits++;
    number = task->subtask;
    for (subtask_len = digits; digits; number /= 10) subtask[--digits] = (uint8_t)('0' + number % 10);
    return WEIR_OK;
}

static weir_status begin(weir_bytes transaction) {
    if (transaction.len > sizeof name) return weir_fail(WEIR_FATAL, "the transaction's name is too long");
    for (name_len = 0; name_len < transaction.len; name_len++) name[name_len] = transaction.data[name_len];
    written = 0;
    return weir_mkdir(OUT, STAGING) ? WEIR_OK : weir_fail(WEIR_FATAL, "");
}

static weir_status write_(const weir_record *records, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += records[i].value.len + 1;
    if (!bytes) return WEIR_OK;
    uint8_t *lines = weir_scratch(bytes), *end = lines;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < records[i].value.len; j++) *end++ = records[i].value.data[j];
        *end++ = '\n';
    }
    written += bytes;
    return weir_append(OUT, staged(transaction_()), (weir_bytes){lines, bytes}) ? WEIR_OK : weir_fail(WEIR_FATAL, "");
}

static weir_status prepare(weir_bytes checkpoint, bool end_of_input, weir_prepared *prepared) {
    (void)end_of_input;
    if (!written) return WEIR_OK;
    weir_bytes file = staged(transaction_()), mark = marker(transaction_());
    /* Content first, then the marker that vouches for it, then the names of both. */
    if (!weir_sync(OUT, file) || !weir_append(OUT, mark, (weir_bytes){0}) || !weir_sync(OUT, mark) || !weir_sync(OUT, STAGING))
        return weir_fail(WEIR_FATAL, "");
    /* What the committer needs: it runs in another instance, maybe in another process years later. */
    prepared->version = 1;
    prepared->bytes = WEIR_JOIN(WEIR_TEXT("part-"), (weir_bytes){subtask, subtask_len}, WEIR_TEXT("-"), checkpoint);
    return WEIR_OK;
}

/* ---- The committing half: one for the job. ---- */

static weir_outcome status(const weir_committable *what) {
    bool file, prepared;
    if (!weir_exists(OUT, staged(what->id), &file) || !weir_exists(OUT, marker(what->id), &prepared)) return WEIR_UNKNOWN;
    if (prepared) return file ? WEIR_NOT_COMMITTED : WEIR_ALREADY_COMMITTED;
    weir_why(WEIR_TEXT("it is not prepared any more"));
    return WEIR_LOST;
}

static weir_outcome commit(const weir_committable *what) {
    bool done;
    switch (status(what)) {
    case WEIR_ALREADY_COMMITTED:
        /* Who renamed it may have died before the names were durable. */
        return weir_sync(OUT, (weir_bytes){0}) && weir_sync(OUT, STAGING) ? WEIR_ALREADY_COMMITTED : WEIR_NOT_COMMITTED;
    case WEIR_LOST: return WEIR_LOST;
    case WEIR_UNKNOWN: return WEIR_NOT_COMMITTED;
    default: break;
    }
    if (!weir_rename(OUT, staged(what->id), what->bytes, &done)) return WEIR_NOT_COMMITTED;
    if (done) return WEIR_COMMITTED;
    weir_why(WEIR_TEXT("its file is there already, and is another one"));
    return WEIR_LOST;
}

/* The marker goes first, and durably: alone it would say committed. */
static weir_abort_outcome abort_(weir_bytes transaction) {
    bool file, prepared, done;
    if (!weir_exists(OUT, staged(transaction), &file) || !weir_exists(OUT, marker(transaction), &prepared)) return WEIR_NOT_ABORTED;
    if (prepared && !file) return WEIR_WAS_COMMITTED;
    if (prepared && (!weir_remove(OUT, marker(transaction), &done) || !weir_sync(OUT, STAGING))) return WEIR_NOT_ABORTED;
    if (file && (!weir_remove(OUT, staged(transaction), &done) || !weir_sync(OUT, STAGING))) return WEIR_NOT_ABORTED;
    return WEIR_ABORTED;
}

static weir_status list_dangling(void) {
    weir_bytes *names, end = PREPARED;
    size_t count;
    if (!weir_list(OUT, STAGING, &names, &count)) return weir_fail(WEIR_RETRY, "");
    for (size_t i = 0; i < count; i++) {
        weir_bytes one = names[i];
        bool is_marker = one.len > end.len && weir_equal((weir_bytes){one.data + one.len - end.len, end.len}, end);
        if (is_marker) one.len -= end.len;
        /* The names are sorted: a marker comes right after its file. */
        if (!is_marker || !i || !weir_equal(names[i - 1], one)) weir_add_dangling(one);
    }
    return WEIR_OK;
}

static weir_status forget(weir_bytes transaction) {
    bool file, done;
    if (!weir_exists(OUT, staged(transaction), &file)) return weir_fail(WEIR_RETRY, "");
    if (file) return weir_fail(WEIR_FATAL, "it is to be forgotten, but it is not committed");
    return weir_remove(OUT, marker(transaction), &done) ? WEIR_OK : weir_fail(WEIR_RETRY, "");
}

static const uint32_t VERSIONS[] = {1};

const weir_sink weir_plugin = {
    .name = "{{name}}",
    .version = "0.1.0",
    .committable_versions = VERSIONS,
    .committable_version_count = 1,
    .open = open_,
    .begin = begin,
    .write = write_,
    .prepare = prepare,
    .commit = commit,
    .status = status,
    .abort = abort_,
    .list_dangling = list_dangling,
    .forget = forget,
};
