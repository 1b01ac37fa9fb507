#!/usr/bin/env bash
# Runs one workload on Flink in this machine's JVM; prints one line of JSON with its figures on the standard output.
#   run.sh map     [keys=N]                                         generate → map → filter → discard, one chain
#   run.sh map-hop [keys=N]                                         the same, each operator in a thread of its own
#   run.sh keyed   [keys=N backend=hashmap|rocksdb interval_ms=N]   generate → key by → count → discard
#   run.sh lines   [file=PATH | lines=N] [tuned=1] [interval_ms=N]  text file → map → file sink, exactly-once
#   run.sh kafka   [brokers=LIST in=TOPIC out=TOPIC guarantee=exactly-once|at-least-once interval_ms=N]   topic to its end → topic
#   run.sh kafka-keyed [the same, backend=…]                        topic → key by → count → topic
# For all: warm=SECONDS secs=SECONDS parallelism=N dir=PATH, and any setting of Flink as its.name=value. The environment's HEAP
# is the heap, 4g without it. The record is that of Weir's sequence connector with 100-byte values, the work of map and filter
# that of guests/bench/map-filter; the map of lines upper-cases.
# Exit 69: the machine lacks something; the last line of the standard error says what.
set -euo pipefail
cd "$(dirname "$0")"
cache="${WEIR_CACHE:-$HOME/.cache/weir}/flink"

missing() {
    echo "weir: $1" >&2
    exit 69
}

command -v java >/dev/null || missing "there is no java: Flink needs Java 17 (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless maven)"
version="$(java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -1)"
[ "${version:-0}" -ge 17 ] || missing "java is version ${version:-unknown}: Flink needs Java 17"

# By content: another checkout may use the same cache.
sources="$(find pom.xml src -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)"
libraries="$cache/lib-$(sha256sum <pom.xml | cut -c1-16)"
classes="$cache/classes-$sources"

# Into a folder beside, which then gets its name at once: what has the name is whole.
build() {
    local goal="$1" result="$2" to="$3" made
    command -v mvn >/dev/null || missing "there is no mvn, which builds the Flink jobs (Debian, Ubuntu: apt-get install maven)"
    echo "weir: building the Flink jobs: $goal" >&2
    mkdir -p "$cache"
    made="$(mktemp -d "$cache/build.XXXXXX")"
    if ! mvn -B -q -l "$made/log" -Dweir.build="$made" -DincludeScope=runtime -DoutputDirectory="$made/lib" "$goal" >&2; then
        cat "$made/log" >&2
        rm -rf "$made"
        missing "mvn $goal failed, see above"
    fi
    # Another run may have been faster.
    [ -d "$to" ] || mv "$made/$result" "$to"
    rm -rf "$made"
}
[ -d "$libraries" ] || build dependency:copy-dependencies lib "$libraries"
[ -d "$classes" ] || build compile classes "$classes"

# What Flink's own start scripts open.
opens=()
for package in java.lang java.lang.reflect java.net java.io java.nio java.text java.time java.util java.util.concurrent \
    java.util.concurrent.atomic java.util.concurrent.locks sun.nio.ch; do
    opens+=("--add-opens=java.base/$package=ALL-UNNAMED")
done
# The parallel collector costs less than half of G1's CPU time here: G1's barriers and threads compete with the job.
exec java -Xms"${HEAP:-4g}" -Xmx"${HEAP:-4g}" -XX:+UseParallelGC -XX:MaxDirectMemorySize=1g "${opens[@]}" \
    -cp "$classes:$libraries/*" weir.bench.Main "$@"
