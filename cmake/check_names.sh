#!/bin/sh
# check_names.sh SRC
#
# Checks that no two headers below SRC define a type of one name: all of them are in one namespace and meet in one
# program, where the linker would take one definition for the other without a word. Prints one line for each that does.
# Exit codes: 0 every name is defined once, 1 one is not, 2 bad usage.
set -eu

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  echo "usage: check_names.sh SRC   (SRC: the folder that holds the modules)" >&2
  exit 2
fi
cd "$1"

# shellcheck disable=SC2016  # the dollars are awk's
check='
  # At the outermost level a definition begins its line. One that ends there without a brace only declares.
  /^(class|struct|union|enum|enum class|enum struct) +(\[\[|[A-Za-z_])/ && (/\{/ || !/;[ \t]*(\/\/.*)?$/) {
    name = $0
    sub(/^(class|struct|union|enum class|enum struct|enum) +(\[\[[^]]*\]\] *)?/, "", name)
    sub(/[^A-Za-z0-9_].*/, "", name)
    place = substr(FILENAME, 3) ":" FNR
    if (name in first) {
      printf "%s: %s is defined at %s, too; give one of them another name\n", place, name, first[name] > "/dev/stderr"
      bad = 1
    } else {
      first[name] = place
    }
  }
  END { exit bad }
'
find . -type f -name '*.h' -exec awk "$check" {} + || exit 1
