#!/bin/sh
# old_glibc_test.sh OBJDUMP FILE...
#
# Every version of the C library that a program or library FILE asks for is one that glibc 2.31 has.
set -eu
objdump=$1
shift
for library in "$@"; do
  # `... *UND* 0000 (GLIBC_2.2.5) name`
  "$objdump" -T "$library" | sed -n 's/.*[( ]GLIBC_\([0-9.]*\)[) ] *\(.*\)/\1 \2/p' | sort -u >"${TMPDIR:-/tmp}/versions.$$"
  trap 'rm -f "${TMPDIR:-/tmp}/versions.$$"' EXIT
  [ -s "${TMPDIR:-/tmp}/versions.$$" ] || { echo "FAILED: objdump finds no versions of glibc in $library" && exit 1; }
  if awk '{ split($1, v, "."); if (v[1] > 2 || v[2] > 31) print "  " $2 " of " $1 }' "${TMPDIR:-/tmp}/versions.$$" |
    grep .; then
    echo "FAILED: $library needs the above, which glibc 2.31 does not have (cmake/LowgearOldGlibc.cmake)"
    exit 1
  fi
  echo "ok: $library, newest: glibc $(cut -d' ' -f1 "${TMPDIR:-/tmp}/versions.$$" | sort -V | tail -n 1)"
done
