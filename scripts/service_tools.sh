#!/usr/bin/env bash
# Installs what the tests with real services need beyond Python, as root on Debian; elsewhere it names what is missing.
set -euo pipefail
shopt -s nullglob
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need java default-jre-headless
need mvn maven
need redis-server redis-server
need nginx nginx-light
need promtool prometheus
# Any Chromium will do; the shell without a window is the smallest.
command -v chromium-headless-shell chromium chromium-browser google-chrome-stable google-chrome >/dev/null || missing+=(chromium-headless-shell)
need npm npm
# Debian's own Python makes environments with a package of its own.
[ ! -x /usr/bin/python3 ] || /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
# The page is tried with a wide font and a narrow one.
need_font() { { command -v fc-list >/dev/null && [ -n "$(fc-list "$1")" ]; } || missing+=("$2"); }
need_font "DejaVu Sans" fonts-dejavu-core
need_font "Noto Sans" fonts-noto-core
postgres=(/usr/lib/postgresql/*/bin/postgres)
[ ${#postgres[@]} -gt 0 ] || command -v postgres >/dev/null || missing+=(postgresql)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests with real services need Java 17, Maven, Redis, PostgreSQL, nginx, promtool, Chromium's headless shell, npm and two fonts (Debian: apt-get install ${missing[*]})" >&2
    exit 1
fi
# Debian starts a service when it is installed. The tests start their own servers, so nothing may be started here.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
fi
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "${missing[@]}" >/dev/null
