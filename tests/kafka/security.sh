#!/usr/bin/env bash
# Makes the certificates of a test broker and of its client, for 127.0.0.1 and localhost; does nothing if they are there.
#
#   security.sh FOLDER
#
# ca.pem        the CA, which clients verify the broker by
# broker.pem    key and certificate of the broker
# client.pem, client.key, client-locked.key   the client's; the locked key's password is key-secret
# other-ca.pem  a CA that has signed nothing of these
#
# Test keys only: nothing here is a secret. Needs openssl.
set -euo pipefail

[ $# -eq 1 ] || { echo "usage: security.sh FOLDER" >&2; exit 1; }
command -v openssl >/dev/null || { echo "security.sh: openssl is missing" >&2; exit 1; }
[ ! -f "$1/ready" ] || exit 0
mkdir -p "$1"
cd "$1"

log=openssl.log
: >"$log"
# Elliptic curves: made in no time, and every Kafka and librdkafka has them.
ca() { # NAME
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Weir test $1" \
        -addext basicConstraints=critical,CA:true -keyout "$1.key" -out "$1.pem" 2>>"$log"
}
signed() { # NAME SUBJECT EXTENSIONS
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>>"$log"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 3650 -extfile <(echo "$3") -out "$1.crt" 2>>"$log"
}

ca ca
ca other-ca
signed broker /CN=localhost "subjectAltName=DNS:localhost,IP:127.0.0.1"
cat broker.key broker.crt >broker.pem
signed client /CN=weir-client "extendedKeyUsage=clientAuth"
mv client.crt client.pem
openssl pkcs8 -topk8 -in client.key -passout pass:key-secret -out client-locked.key 2>>"$log"
# Last, so that an interrupted run is done again.
: >ready
