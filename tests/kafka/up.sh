#!/usr/bin/env bash
# Starts a one-node Apache Kafka broker for tests and returns once it serves requests; does nothing if it runs already.
#
#   up.sh STATE [PORT] [key=value ...]
#
# STATE  folder for data, log and pid; made if missing; keep it to restart with the data, remove it for a fresh broker
# PORT   of the client listener on 127.0.0.1 (default 19092); PORT+1 is taken too, by the controller; "free": four in a row
#        that nobody has, chosen at the first start, the same ones at the next; STATE/port then says which
# key=value   broker properties over those of server.properties
#
# Environment:
#   KAFKA_VERSION              default: the one in pom.xml; 4.1.2 and 3.9.2 work too
#   KAFKA_TRANSACTION_VERSION  0, 1 or 2, only read when STATE is new; default: the broker's (2, before 4.0: 0)
#   KAFKA_SASL                 1: PORT+2 speaks SASL_SSL (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512; users and certificates are
#                              made by security.sh in STATE/security), PORT+3 SSL that asks for the client's certificate
#   KAFKA_JOIN                 PORT of a running broker: this one joins its cluster, as a broker only; both need the same
#                              KAFKA_VERSION, and this one node.id=… (not 1) among its properties
#   KAFKA_JARS                 folder for the jars, shared by all brokers of a version (43 MB);
#                              default: ${WEIR_CACHE:-$HOME/.cache/weir}/kafka/VERSION
#   KAFKA_JVM                  JVM options
#
# Needs Java 17, Maven (only until the jars are there), flock; with KAFKA_SASL openssl.
set -euo pipefail

die() { echo "up.sh: $*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: up.sh STATE [PORT] [key=value ...]"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
state=$(cd "$1" && pwd)
port=${2:-19092}
shift $(($# < 2 ? $# : 2))
version=${KAFKA_VERSION:-$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")}
jars=${KAFKA_JARS:-${WEIR_CACHE:-$HOME/.cache/weir}/kafka/$version}
config=$state/server.properties
log=$state/broker.log
for tool in java flock; do command -v "$tool" >/dev/null || die "$tool is missing"; done

# Two tests may ask for the same broker at once. The broker must not inherit the lock, hence the 9>&- below.
exec 9>"$state/lock"
flock 9

# A pid alone isn't proof: after a reboot it may be another process's.
running() { [ -s "$state/pid" ] && grep -qzxF "$config" "/proc/$(cat "$state/pid")/cmdline" 2>/dev/null; }
ready() { grep -q 'Kafka Server started' "$log" 2>/dev/null; }
if running && ready; then exit 0; fi
running && die "a broker that isn't ready holds $state; see $log, or down.sh"

# Four ports in a row that nobody listens on, below those that the kernel gives to clients: a test's connections come and go.
choose() {
    local clients first more
    clients=$(cut -f1 /proc/sys/net/ipv4/ip_local_port_range 2>/dev/null || echo 32768)
    [ "$clients" -ge 14000 ] || clients=32768
    for _ in $(seq 1000); do
        first=$((10000 + RANDOM * RANDOM % (clients - 10004)))
        for more in 0 1 2 3; do
            if (exec 3<>"/dev/tcp/127.0.0.1/$((first + more))") 2>/dev/null; then continue 2; fi
        done
        echo "$first"
        return
    done
    die "no four ports in a row are free below $clients"
}
chosen=
if [ "$port" = free ]; then
    [ -s "$state/port" ] || chosen=1
    [ -z "$chosen" ] || choose >"$state/port"
    port=$(cat "$state/port")
fi

if [ ! -d "$jars" ]; then
    command -v mvn >/dev/null || die "Maven is missing, and so are the jars of Kafka $version in $jars"
    # Beside the target and then renamed, so that an interrupted download is never taken for a whole one.
    mkdir -p "$(dirname "$jars")"
    part=$(mktemp -d "$jars.XXXXXX")
    mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        -Dkafka.version="$version" -DoutputDirectory="$part" >&2 || { rm -rf "$part"; die "Maven couldn't fetch Kafka $version"; }
    # Fails harmlessly if another process was faster.
    mv -T "$part" "$jars" 2>/dev/null || rm -rf "$part"
fi

configure() {
    sed -e "s|@PORT@|$port|g; s|@CONTROLLER_PORT@|$((port + 1))|g; s|@STATE@|$state|g" "$here/server.properties" >"$config"
    scram=()
    if [ "${KAFKA_SASL:-0}" = 1 ]; then
        "$here/security.sh" "$state/security"
        sed -e "s|@PORT@|$port|g; s|@CONTROLLER_PORT@|$((port + 1))|g; s|@SASL_PORT@|$((port + 2))|g; s|@MTLS_PORT@|$((port + 3))|g" \
            -e "s|@SECURITY@|$state/security|g" "$here/security.properties" >>"$config"
        for mechanism in SCRAM-SHA-256 SCRAM-SHA-512; do
            scram+=(--add-scram "$mechanism=[name=scram-user,password=scram-secret]")
        done
    fi
    standalone=--standalone
    if [ -n "${KAFKA_JOIN:-}" ]; then
        [ "${KAFKA_SASL:-0}" != 1 ] || die "KAFKA_JOIN has no KAFKA_SASL"
        standalone=
        printf '%s\n' process.roles=broker "controller.quorum.bootstrap.servers=127.0.0.1:$((KAFKA_JOIN + 1))" \
            "listeners=PLAINTEXT://127.0.0.1:$port" "advertised.listeners=PLAINTEXT://127.0.0.1:$port" >>"$config"
    fi
    [ $# -eq 0 ] || printf '%s\n' "$@" >>"$config"
}

export LC_ALL=C
logging=-Dlog4j2.configurationFile=$here/log4j2.properties
format() {
    [ ! -f "$state/data/meta.properties" ] || return 0
    local feature=${KAFKA_TRANSACTION_VERSION:+--feature transaction.version=$KAFKA_TRANSACTION_VERSION}
    # The cluster id is any 16 bytes in base64; a fixed one makes failures repeatable.
    # shellcheck disable=SC2086
    java -XX:TieredStopAtLevel=1 "$logging" -cp "$jars/*" kafka.tools.StorageTool format \
        -t MkU3OEVBNTcwNTJENDM2Qg -c "$config" $standalone $feature "${scram[@]}" >"$state/format.log" 2>&1 9>&- ||
        { tail -5 "$state/format.log" >&2; die "format failed; see $state/format.log"; }
}

for attempt in 1 2 3 4 5; do
    configure "$@"
    format
    # The old log says "started" too.
    rm -f "$log"
    # One compiler tier and the serial collector: a test broker should start fast and stay small, not be fast for long.
    # shellcheck disable=SC2086
    setsid java ${KAFKA_JVM:--Xms128m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1} "$logging" \
        -cp "$jars/*" kafka.Kafka "$config" >"$log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid" >"$state/pid"

    for _ in $(seq 1200); do
        ready && exit 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    ! kill -0 "$pid" 2>/dev/null || die "not ready after 120 s; see $log, and stop it with down.sh"
    rm -f "$state/pid"
    # Somebody was faster between the look and the start. The data hold the controller's port.
    if [ -z "$chosen" ] || [ "$attempt" = 5 ] || ! grep -q 'Address already in use' "$log"; then
        tail -20 "$log" >&2
        die "the broker ended; see $log"
    fi
    rm -rf "$state/data"
    choose >"$state/port"
    port=$(cat "$state/port")
done
