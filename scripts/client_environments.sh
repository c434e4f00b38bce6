#!/usr/bin/env bash
# Makes the environments of tests/services/test_clients.py: one below build/clients for each tests/clients/NAME.txt, because
# their dependencies disagree. One whose list has not changed is kept. PYTHON=/path/to/python chooses the interpreter.
#   scripts/client_environments.sh [NAME…]        without a name: all
set -euo pipefail
[ $# -gt 0 ] || set -- $(basename -s .txt tests/clients/*.txt)
mkdir -p build/clients
exec 9>build/clients/.lock
flock 9  # the tests of another process may make them too
prepare() {
  local list=tests/clients/$1.txt venv=build/clients/$1
  cmp -s "$list" "$venv/.installed" && return
  echo "Preparing $venv (once, a minute or more)" >&2
  rm -rf "$venv"
  "${PYTHON:-.venv/bin/python}" -m venv "$venv"
  # A program imports a small part of these packages, so Python compiles what it needs at the first run.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --requirement "$list"
  cp "$list" "$venv/.installed"
}
export -f prepare
# All at once: they wait for downloads most of the time.
printf '%s\n' "$@" | xargs -P "$#" -I NAME bash -euo pipefail -c 'prepare NAME' 9>&-
