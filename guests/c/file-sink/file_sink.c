/* Writes each value and a newline to files that appear whole: the built-in file sink's rules, as a plugin. It needs the folder grant
 * `out`, and takes no config. The same as guests/file-sink, down to the files and committables that it makes.
 *
 * What holds in the granted folder:
 * - `part-<subtask>-<checkpoint>` is a committed file: it appears by one rename that never replaces, and never changes;
 * - `.weir-staging/<lineage>/<sink>/<identity>` holds what a transaction has written. It is appended to until prepare;
 * - `.weir-staging/<lineage>/<sink>/<identity>.prepared`, an empty marker, is made durable by prepare, after the content of the staged
 *   file. Hence: staged and marker = prepared; marker alone = committed (even if a consumer has taken the file); neither = lost; staged
 *   alone = never prepared, or a half-done abort.
 */
#include "weir.h"

#define GRANT WEIR_TEXT("out")
#define STAGING WEIR_TEXT(".weir-staging")
#define PREPARED WEIR_TEXT(".prepared")
#define SLASH WEIR_TEXT("/")

/* Version of a committable's bytes: `<bytes> <name>`, in ASCII. */
enum { VERSION = 1, NAME_MAX = 512 };

/* ---- Names. ---- */

/* Where a transaction's files lie. */
typedef struct staged {
    weir_bytes folder, file, marker, subtask;
} staged;

static weir_bytes folder_of(weir_bytes lineage, weir_bytes sink) { return WEIR_JOIN(STAGING, SLASH, lineage, SLASH, sink); }

static bool is_number(weir_bytes text) {
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    return text.len > 0 && text.len < 20;
}

/* Of an identity `<lineage>.<generation>.<sink>.<subtask>.<number>`; false, and said why, if it is none. */
static bool staged_as(weir_bytes identity, staged *at) {
    weir_bytes parts[5] = {{0}};
    size_t count = 0, from = 0;
    for (size_t i = 0; i <= identity.len; i++) {
        if (i < identity.len && identity.data[i] != '.') continue;
        if (count < 5) parts[count] = (weir_bytes){identity.data + from, i - from};
        count++;
        from = i + 1;
    }
    if (count != 5 || !is_number(parts[3]) || identity.len > NAME_MAX) {
        weir_why(WEIR_JOIN(WEIR_TEXT("'"), identity, WEIR_TEXT("' is no identity: lineage.generation.sink.subtask.number")));
        return false;
    }
    at->folder = folder_of(parts[0], parts[2]);
    at->file = WEIR_JOIN(at->folder, SLASH, identity);
    at->marker = WEIR_JOIN(at->file, PREPARED);
    at->subtask = parts[3];
    return true;
}

static weir_bytes decimal(uint64_t number) {
    uint8_t *text = weir_scratch(20);
    size_t at = 20;
    do text[--at] = (uint8_t)('0' + number % 10);
    while (number /= 10);
    return (weir_bytes){text + at, 20 - at};
}

/* What a transaction becomes. */
typedef struct target {
    weir_bytes name;
    uint64_t bytes;
} target;

static bool decode_target(weir_bytes encoded, target *to) {
    size_t space = 0;
    while (space < encoded.len && encoded.data[space] != ' ') space++;
    if (space == encoded.len || !is_number((weir_bytes){encoded.data, space})) return false;
    to->bytes = 0;
    for (size_t i = 0; i < space; i++) to->bytes = to->bytes * 10 + (uint64_t)(encoded.data[i] - '0');
    to->name = (weir_bytes){encoded.data + space + 1, encoded.len - space - 1};
    return to->bytes > 0 && to->name.len > 5 && weir_equal((weir_bytes){to->name.data, 5}, WEIR_TEXT("part-"));
}

/* It takes no setting. */
static weir_status check_config(weir_bytes config) {
    for (size_t i = 0, opened = 0; i < config.len; i++) {
        uint8_t byte = config.data[i];
        if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r') continue;
        if (byte == '{' && !opened++) continue;
        if (byte == '}' && opened == 1) continue;
        return weir_fail(WEIR_FATAL, "config: this sink has no settings");
    }
    return WEIR_OK;
}

/* ---- Writer. ---- */

/* The open transaction's name, and how many bytes were appended: an empty one leaves no file. */
static uint8_t open_name[NAME_MAX];
static size_t open_len;
static uint64_t written;

static weir_status open_(const weir_task *task, weir_bytes config) {
    (void)task;
    return check_config(config);
}

static weir_status begin(weir_bytes transaction) {
    staged at;
    bool there;
    if (!staged_as(transaction, &at) || !weir_mkdir(GRANT, at.folder) || !weir_exists(GRANT, at.file, &there)) return weir_fail(WEIR_FATAL, "");
    /* An identity is never used twice, so nothing can lie there. If something does, it is not ours to append to. */
    if (there) {
        weir_why(at.file);
        return weir_fail(WEIR_FATAL, " is there already: is another job using this folder?");
    }
    for (open_len = 0; open_len < transaction.len; open_len++) open_name[open_len] = transaction.data[open_len];
    written = 0;
    return WEIR_OK;
}

static bool opened(staged *at) {
    if (open_len) return staged_as((weir_bytes){open_name, open_len}, at);
    weir_why(WEIR_TEXT("no transaction was begun"));
    return false;
}

static weir_status write_(const weir_record *records, size_t count) {
    if (!count) return WEIR_OK;
    staged at;
    if (!opened(&at)) return weir_fail(WEIR_FATAL, "");
    size_t room = 0;
    for (size_t i = 0; i < count; i++) room += records[i].value.len + 1;
    uint8_t *lines = weir_scratch(room), *end = lines;
    for (size_t i = 0; i < count; i++) {
        if (records[i].value_null) return weir_fail(WEIR_FATAL, "a record's value is null, which a line can't say");
        for (size_t j = 0; j < records[i].value.len; j++) *end++ = records[i].value.data[j];
        *end++ = '\n';
    }
    if (!weir_append(GRANT, at.file, (weir_bytes){lines, room})) return weir_fail(WEIR_FATAL, "");
    written += room;
    return WEIR_OK;
}

/* Content first, then the marker that vouches for it, then the names of both. The folders were made durable by mkdir.
 *
 * At last a look at the staged file: a newer generation may have aborted this transaction meanwhile. It removes the marker again after
 * the staged file, so one of the two sees the other. */
static bool make_durable(const staged *at) {
    bool there;
    if (!weir_sync(GRANT, at->file) || !weir_append(GRANT, at->marker, (weir_bytes){0}) || !weir_sync(GRANT, at->marker) ||
        !weir_sync(GRANT, at->folder) || !weir_exists(GRANT, at->file, &there))
        return false;
    if (!there) weir_why(WEIR_JOIN(at->file, WEIR_TEXT(" was aborted by somebody else")));
    return there;
}

static weir_status prepare(weir_bytes checkpoint, bool end_of_input, weir_prepared *prepared) {
    (void)end_of_input;
    staged at;
    if (!opened(&at)) return weir_fail(WEIR_FATAL, "");
    open_len = 0;
    if (!written) return WEIR_OK;
    if (!make_durable(&at)) return weir_fail(WEIR_FATAL, "");
    prepared->version = VERSION;
    prepared->bytes = WEIR_JOIN(decimal(written), WEIR_TEXT(" part-"), at.subtask, WEIR_TEXT("-"), checkpoint);
    return WEIR_OK;
}

/* ---- Committer: it looks at two names and renames one. ---- */

static weir_bytes sink_name;

static weir_status open_committer(weir_bytes job, weir_bytes sink, weir_bytes config) {
    (void)job;
    sink_name = sink;
    return check_config(config);
}

/* What lies there of a transaction. */
typedef enum found { FOUND_NOTHING, FOUND_STAGED_ALONE, FOUND_MARKER_ALONE, FOUND_PREPARED } found;

static bool look(const staged *at, found *is) {
    bool file, marker;
    /* The staged file first: a rename between the two looks must not seem like nothing at all. */
    if (!weir_exists(GRANT, at->file, &file) || !weir_exists(GRANT, at->marker, &marker)) return false;
    *is = file ? marker ? FOUND_PREPARED : FOUND_STAGED_ALONE : marker ? FOUND_MARKER_ALONE : FOUND_NOTHING;
    return true;
}

static weir_outcome lost(weir_bytes first, weir_bytes then) {
    weir_why(first);
    weir_why(then);
    return WEIR_LOST;
}

static weir_outcome taken(const staged *at, const target *to) {
    return lost(to->name, WEIR_JOIN(WEIR_TEXT(" is there already and is another file; this transaction's records are kept in "), at->file));
}

/* What would become of a commit; WEIR_NOT_COMMITTED if it can be made. `unclear` if nobody can say. */
static weir_outcome judge(const staged *at, const target *to, weir_outcome unclear) {
    found is;
    weir_bytes last;
    bool there;
    if (!look(at, &is)) return unclear;
    switch (is) {
    case FOUND_MARKER_ALONE: return WEIR_ALREADY_COMMITTED;
    case FOUND_NOTHING: return lost(at->file, WEIR_TEXT(" and its marker are gone: somebody removed them"));
    case FOUND_STAGED_ALONE:
        return lost(at->file, WEIR_TEXT(" has no marker any more: its abort was begun, or somebody removed it. The file is left where it is"));
    case FOUND_PREPARED: break;
    }
    /* The last byte is where it should be, and nothing after it. */
    if (!weir_read(GRANT, at->file, to->bytes - 1, 2, &last)) return unclear;
    if (last.len != 1)
        return lost(at->file, WEIR_JOIN(WEIR_TEXT(" has not the "), decimal(to->bytes), WEIR_TEXT(" bytes that were prepared; it is left where it is")));
    if (!weir_exists(GRANT, to->name, &there)) return unclear;
    if (there) return taken(at, to);
    return WEIR_NOT_COMMITTED;
}

static bool names_of(const weir_committable *what, staged *at, target *to) {
    if (what->version != VERSION) weir_why(WEIR_JOIN(what->id, WEIR_TEXT(" has version "), decimal(what->version), WEIR_TEXT(", this build reads 1")));
    else if (!decode_target(what->bytes, to)) weir_why(WEIR_JOIN(what->id, WEIR_TEXT(": its bytes name no file")));
    else return staged_as(what->id, at);
    return false;
}

static weir_outcome commit(const weir_committable *what) {
    staged at;
    target to;
    bool done;
    if (!names_of(what, &at, &to)) return WEIR_UNKNOWN;
    weir_outcome is = judge(&at, &to, WEIR_NOT_COMMITTED);
    if (is == WEIR_NOT_COMMITTED) {
        if (!weir_rename(GRANT, at.file, to.name, &done)) return WEIR_NOT_COMMITTED;
        return done ? WEIR_COMMITTED : taken(&at, &to);
    }
    /* Who renamed it may have died before the folders were durable. */
    if (is == WEIR_ALREADY_COMMITTED && (!weir_sync(GRANT, (weir_bytes){0}) || !weir_sync(GRANT, at.folder))) return WEIR_NOT_COMMITTED;
    return is;
}

static weir_outcome status(const weir_committable *what) {
    staged at;
    target to;
    if (!names_of(what, &at, &to)) return WEIR_UNKNOWN;
    weir_outcome is = judge(&at, &to, WEIR_UNKNOWN);
    if (is == WEIR_NOT_COMMITTED) weir_why(WEIR_TEXT("prepared, not committed yet"));
    return is;
}

/* The marker goes first, and durably: alone it would say committed. Then the staged file, then the marker once more: a writer of an older
 * generation may have made it meanwhile. */
static weir_abort_outcome abort_(weir_bytes transaction) {
    staged at;
    found is;
    bool done;
    if (!staged_as(transaction, &at) || !look(&at, &is)) return WEIR_NOT_ABORTED;
    if (is == FOUND_MARKER_ALONE) return WEIR_WAS_COMMITTED;
    if (is == FOUND_NOTHING) return WEIR_ABORTED;
    if (is == FOUND_PREPARED && (!weir_remove(GRANT, at.marker, &done) || !weir_sync(GRANT, at.folder))) return WEIR_NOT_ABORTED;
    if (!weir_remove(GRANT, at.file, &done) || !weir_remove(GRANT, at.marker, &done) || !weir_sync(GRANT, at.folder)) return WEIR_NOT_ABORTED;
    return WEIR_ABORTED;
}

static weir_status list_dangling(void) {
    weir_bytes *lineages, *names;
    size_t lineage_count, count;
    if (!weir_list(GRANT, STAGING, &lineages, &lineage_count)) return weir_fail(WEIR_RETRY, "");
    for (size_t l = 0; l < lineage_count; l++) {
        if (!weir_list(GRANT, folder_of(lineages[l], sink_name), &names, &count)) return weir_fail(WEIR_RETRY, "");
        for (size_t i = 0; i < count; i++) {
            /* The names are sorted: a marker comes right after its staged file. */
            weir_bytes name = names[i], end = PREPARED;
            bool marker = name.len > end.len && weir_equal((weir_bytes){name.data + name.len - end.len, end.len}, end);
            if (marker) name.len -= end.len;
            if (!marker || !i || !weir_equal(names[i - 1], name)) weir_add_dangling(name);
        }
    }
    return WEIR_OK;
}

static weir_status forget(weir_bytes transaction) {
    staged at;
    found is;
    bool done;
    if (!staged_as(transaction, &at)) return weir_fail(WEIR_FATAL, "");
    if (!look(&at, &is)) return weir_fail(WEIR_RETRY, "");
    if (is == FOUND_NOTHING) return WEIR_OK;
    if (is != FOUND_MARKER_ALONE) {
        weir_why(at.file);
        return weir_fail(WEIR_FATAL, " is to be forgotten, but it is not committed");
    }
    return weir_remove(GRANT, at.marker, &done) && weir_sync(GRANT, at.folder) ? WEIR_OK : weir_fail(WEIR_RETRY, "");
}

static const uint32_t VERSIONS[] = {VERSION};

const weir_sink weir_plugin = {
    .name = "file-sink",
    .version = "0.1.0",
    .committable_versions = VERSIONS,
    .committable_version_count = 1,
    .open = open_,
    .begin = begin,
    .write = write_,
    .prepare = prepare,
    .open_committer = open_committer,
    .commit = commit,
    .status = status,
    .abort = abort_,
    .list_dangling = list_dangling,
    .forget = forget,
};
