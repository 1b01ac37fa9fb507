/* The folders that the job granted. Part of weir.c. */

/* A result of any call for files: `as.bytes` is the text of an error, too. */
typedef struct file_answer {
    uint8_t failed;
    union {
        weir_bytes bytes;
        struct { weir_bytes *data; size_t len; } names;
        uint8_t flag;
    } as;
} file_answer;

#ifdef __wasm__
_Static_assert(sizeof(file_answer) == 12, "as the ABI has it");
#endif

#define PATH const uint8_t *grant, size_t grant_len, const uint8_t *path, size_t path_len
IMPORT("files", "append") void weir_host_append(PATH, const uint8_t *data, size_t len, file_answer *answer);
IMPORT("files", "read") void weir_host_read(PATH, uint64_t offset, uint32_t limit, file_answer *answer);
IMPORT("files", "sync") void weir_host_sync(PATH, file_answer *answer);
IMPORT("files", "mkdir") void weir_host_mkdir(PATH, file_answer *answer);
IMPORT("files", "rename") void weir_host_rename(PATH, const uint8_t *target, size_t target_len, file_answer *answer);
IMPORT("files", "remove") void weir_host_remove(PATH, file_answer *answer);
IMPORT("files", "exists") void weir_host_exists(PATH, file_answer *answer);
IMPORT("files", "list") void weir_host_list(PATH, file_answer *answer);
#undef PATH
#define PATH grant.data, grant.len, path.data, path.len

static bool well(const file_answer *answer) {
    if (answer->failed) weir_why(answer->as.bytes);
    return !answer->failed;
}

bool weir_append(weir_bytes grant, weir_bytes path, weir_bytes bytes) {
    file_answer answer = {0};
    weir_host_append(PATH, bytes.data, bytes.len, &answer);
    return well(&answer);
}

bool weir_read(weir_bytes grant, weir_bytes path, uint64_t offset, uint32_t limit, weir_bytes *bytes) {
    file_answer answer = {0};
    weir_host_read(PATH, offset, limit, &answer);
    if (well(&answer)) *bytes = answer.as.bytes;
    return !answer.failed;
}

bool weir_sync(weir_bytes grant, weir_bytes path) {
    file_answer answer = {0};
    weir_host_sync(PATH, &answer);
    return well(&answer);
}

bool weir_mkdir(weir_bytes grant, weir_bytes path) {
    file_answer answer = {0};
    weir_host_mkdir(PATH, &answer);
    return well(&answer);
}

static bool flag(const file_answer *answer, bool *said) {
    if (well(answer)) *said = answer->as.flag;
    return !answer->failed;
}

bool weir_rename(weir_bytes grant, weir_bytes path, weir_bytes target, bool *done) {
    file_answer answer = {0};
    weir_host_rename(PATH, target.data, target.len, &answer);
    return flag(&answer, done);
}

bool weir_remove(weir_bytes grant, weir_bytes path, bool *done) {
    file_answer answer = {0};
    weir_host_remove(PATH, &answer);
    return flag(&answer, done);
}

bool weir_exists(weir_bytes grant, weir_bytes path, bool *there) {
    file_answer answer = {0};
    weir_host_exists(PATH, &answer);
    return flag(&answer, there);
}

bool weir_list(weir_bytes grant, weir_bytes path, weir_bytes **names, size_t *count) {
    file_answer answer = {0};
    weir_host_list(PATH, &answer);
    if (!well(&answer)) return false;
    *names = answer.as.names.data;
    *count = answer.as.names.len;
    return true;
}
#undef PATH

weir_bytes weir_join(const weir_bytes *parts, size_t count) {
    buffer joined = {0};
    /* Not NULL, even of nothing. */
    reserve(&joined, 1);
    for (size_t i = 0; i < count; i++) push(&joined, parts[i]);
    return (weir_bytes){joined.data, joined.len};
}
