#!/usr/bin/env bash
# Makes the environment that every make target uses: the locked dependencies, and this project on top of them, editable.
#   scripts/bootstrap.sh FOLDER        PYTHON=/path/to/python chooses the interpreter
set -euo pipefail
venv=$1

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.14 python; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
  {
    echo "llm-platform needs Python 3.11 or newer; this machine's python3 is: $(python3 --version 2>&1 || true)"
    echo "Install one, or name it: make demo PYTHON=/path/to/python3.11"
  } >&2
  return 1
}

# Reads what pip prints, and says from time to time how far it is: it installs for a minute or two.
report_progress() {
  local line fetched=0
  while read -r line; do
    case $line in
      Collecting*)
        fetched=$((fetched + 1))
        if [ $((fetched % 25)) -eq 0 ]; then echo "  $fetched of $packages fetched"; fi ;;
      "Installing collected packages"*) echo "  unpacking them" ;;
    esac
  done >&2
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  python=$(find_python)
  echo "Creating the environment $venv with $("$python" --version), once" >&2
  if ! "$python" -m venv --clear "$venv"; then
    echo "That Python cannot make environments. On Debian and Ubuntu: apt install python3-venv" >&2
    exit 1
  fi
fi
packages=$(grep -c '^[A-Za-z0-9].*==' requirements.lock)
echo "Installing $packages packages of requirements.lock into it" >&2
# The lock is complete. Without --no-deps an older pip warns of an extra of lxml whose name it does not find.
"$venv/bin/python" -m pip install --progress-bar off --disable-pip-version-check --no-deps --require-hashes \
  -r requirements.lock | report_progress
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index --editable .
