#!/usr/bin/env bash
# Fetches a few documentation packages of Debian and keeps their HTML and PDF: real pages to research without a key or a network.
#   scripts/debian_docs.sh FOLDER [PATTERN ...]   nothing is installed; needs Debian or Ubuntu with its package lists (apt-get update)
# A package whose name carries a version is found by its pattern; the last one that the lists know is taken.
set -euo pipefail
folder=$1
patterns=("${@:2}")
if [ ${#patterns[@]} -eq 0 ]; then
  patterns=('postgresql-doc-[0-9]+' 'sqlite3-doc' 'git-doc' 'debian-policy' 'debian-faq')
fi

for tool in apt-get apt-cache dpkg-deb; do
  if ! command -v "$tool" >/dev/null; then
    echo "There is no $tool: this needs Debian or Ubuntu (a container of one will do)" >&2
    exit 1
  fi
done

packages=()
for pattern in "${patterns[@]}"; do
  name=$(apt-cache search --names-only "^$pattern\$" | cut -d' ' -f1 | sort -V | tail -n 1)
  if [ -n "$name" ]; then packages+=("$name"); else echo "no package is called $pattern: left out" >&2; fi
done
if [ ${#packages[@]} -eq 0 ]; then
  echo "The package lists are empty: run apt-get update first" >&2
  exit 1
fi

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$(id -u)" = 0 ] && id _apt >/dev/null 2>&1; then chown _apt "$work"; fi  # apt fetches as a user of its own
echo "fetching ${packages[*]}" >&2
(cd "$work" && apt-get download --quiet=2 "${packages[@]}")

for archive in "$work"/*.deb; do
  dpkg-deb --extract "$archive" "$work/unpacked"
done
cd "$work/unpacked/usr/share"
find . -type f -name '*.pdf' | while read -r pdf; do
  name=$(basename "$pdf" .pdf)
  mkdir -p "$folder/pdf/$name" && cp "$pdf" "$folder/pdf/$name"
done
cd doc
find . -type f \( -name '*.html' -o -name '*.htm' \) -exec cp --parents --target-directory="$folder" {} +
echo "$(find "$folder" -type f | wc -l) pages are in $folder" >&2
