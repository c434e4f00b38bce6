#!/usr/bin/env bash
# Makes the environments of tests/services/test_clients.py below build/clients: one for each tests/clients/NAME.txt, because
# their dependencies disagree, and one of JavaScript for tests/clients/node/package.json. One whose list has not changed is
# kept. PYTHON=/path/to/python chooses the interpreter.
#   scripts/client_environments.sh [NAME…]        without a name: all
set -euo pipefail
export NODE_MAJOR=22  # the oldest that the packages take
export NODE_VERSION=24.21.0  # of the package that brings Node where it is older or missing
[ $# -gt 0 ] || set -- $(basename -s .txt tests/clients/*.txt) node
mkdir -p build/clients
exec 9>build/clients/.lock
flock 9  # the tests of another process may make them too
prepare() {
  local list=tests/clients/$1.txt folder=build/clients/$1
  [ "$1" != node ] || list=tests/clients/node/package.json
  cat "$list" $(without_dependencies "$1") | cmp -s - "$folder/.installed" && return
  echo "Preparing $folder (once, a minute or more)" >&2
  rm -rf "$folder"
  if [ "$1" = node ]; then install_node "$list" "$folder"; else install_python "$list" "$folder"; fi
  cat "$list" $(without_dependencies "$1") > "$folder/.installed"
}
# Packages of which parts run with the few packages of the list alone.
without_dependencies() { find tests/clients -name "$1.without-dependencies"; }
install_python() {
  local python=${PYTHON:-.venv/bin/python}
  "$python" -m venv --without-pip "$2"  # ours installs into it: a pip of its own costs four seconds of CPU time
  # A program imports a small part of these packages, so Python compiles what it needs at the first run.
  "$python" -m pip --python "$2/bin/python" install --quiet --disable-pip-version-check --no-compile --requirement "$1"
  local alone
  alone=$(without_dependencies "$(basename "$2")")
  [ -z "$alone" ] || "$python" -m pip --python "$2/bin/python" install --quiet --disable-pip-version-check --no-compile \
    --no-deps --requirement "$alone"
}
install_node() {
  local install=(npm install --no-audit --no-fund --ignore-scripts --loglevel=error --prefix)
  mkdir -p "$2/bin"
  cp "$1" "$2/package.json"
  "${install[@]}" "$2" >&2
  if [ "$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)" -ge "$NODE_MAJOR" ]; then
    ln -s "$(command -v node)" "$2/bin/node"
  else
    local package=node-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')
    "${install[@]}" "$2/runtime" "$package@$NODE_VERSION" >&2
    ln -s "../runtime/node_modules/$package/bin/node" "$2/bin/node"
  fi
}
export -f prepare without_dependencies install_python install_node
# All at once: they wait for downloads most of the time.
printf '%s\n' "$@" | xargs -P "$#" -I NAME bash -euo pipefail -c 'prepare NAME' 9>&-
