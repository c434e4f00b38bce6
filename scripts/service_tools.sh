#!/usr/bin/env bash
# What the tests with real services need beyond Python: a Java and Maven. Installs them where it may, says so where not.
set -euo pipefail
missing=()
command -v java >/dev/null || missing+=(default-jre-headless)
command -v mvn >/dev/null || missing+=(maven)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Kafka's tests need Java 17 or newer and Maven; install them first (Debian: apt-get install ${missing[*]})" >&2
    exit 1
fi
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "${missing[@]}" >/dev/null
