#!/usr/bin/env bash
# Makes the environments of tests/services/test_clients.py: one below build/clients for each tests/clients/NAME.txt, because
# their dependencies disagree. One whose list has not changed is kept. PYTHON=/path/to/python chooses the interpreter.
#   scripts/client_environments.sh [NAME…]        without a name: all
set -euo pipefail
[ $# -gt 0 ] || set -- $(basename -s .txt tests/clients/*.txt)
mkdir -p build/clients
exec 9>build/clients/.lock
flock 9  # the tests of another process may make them too
for name in "$@"; do
  list=tests/clients/$name.txt venv=build/clients/$name
  cmp -s "$list" "$venv/.installed" && continue
  echo "Preparing $venv (once, a minute or more)" >&2
  rm -rf "$venv"
  "${PYTHON:-.venv/bin/python}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$list" 9>&-
  cp "$list" "$venv/.installed"
done
