#!/bin/sh
# exports_test.sh LIBRARY HEADER
#
# What LIBRARY shows to a process that loads it is what HEADER declares with LOWGEAR_API, no more and no less; and all
# that it needs there is the C library.
set -eu
library=$1
header=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A declaration may go on over several lines.
sed 's/^#.*//' "$header" | tr '\n' ' ' | grep -oE 'LOWGEAR_API [^;({]*\(' | sed -E 's/.*[ *]([a-z_]+)\($/\1/' | sort >"$work/declared"
# `address type name@@version`; the version itself is an absolute symbol.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
[ -s "$work/declared" ] || { echo "FAILED: no declarations found in $header" && exit 1; }
if ! diff -u "$work/declared" "$work/exported"; then
  echo "FAILED: $library does not export exactly what $header declares"
  exit 1
fi
echo "ok: $(wc -l <"$work/exported") functions"

readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
grep -qx 'libc\.so\.6' "$work/needed" || { echo "FAILED: readelf finds no libc.so.6: $(cat "$work/needed")" && exit 1; }
# Parts of the C library. The C++ library and fmt are within the library: a process may bring others of its own.
if grep -vxE 'lib(c|m)\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-.*\.so\.[0-9]+' "$work/needed"; then
  echo "FAILED: $library needs the libraries above"
  exit 1
fi
echo "ok: needs $(tr '\n' ' ' <"$work/needed")"
