#!/usr/bin/env bash
# Makes PEM files in FOLDER: a CA, a certificate for each broker host, and one for the workers (User:rag-worker).
#
#     WORKER_KEY_PASSWORD=… ./certificates.sh FOLDER BROKER_HOST...
#
# For a trial, or where no other CA exists. ca.key stays with whoever signs: no broker and no worker needs it.
set -euo pipefail
umask 077
folder=$1
shift
mkdir -p "$folder"
cd "$folder"

new_key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1)
[ -e ca.key ] || openssl req -x509 "${new_key[@]}" -nodes -days 3650 -subj "/CN=kafka-ca" -keyout ca.key -out ca.pem

sign() { # NAME EXTENSIONS: NAME.key.pem must exist; writes NAME.crt.pem
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile <(echo "$2") -out "$1.crt.pem"
    rm "$1.csr"
}

for host in "$@"; do
    openssl req -new "${new_key[@]}" -nodes -subj "/CN=$host" -keyout "$host.key.pem" -out "$host.csr"
    sign "$host" "subjectAltName=DNS:$host"
    cat "$host.key.pem" "$host.crt.pem" >"$host.pem" # a broker's keystore
done

openssl req -new "${new_key[@]}" -passout env:WORKER_KEY_PASSWORD -subj "/CN=rag-worker" -keyout worker.key.pem -out worker.csr
sign worker "extendedKeyUsage=clientAuth"
