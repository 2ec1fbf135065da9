#!/bin/sh
# check_names.sh SRC
#
# Checks the names below SRC, whose folders are modules (with a CMakeLists.txt) or wings of modules, and prints one line for each that breaks a rule:
#   - a module defines its names in lowgear::MODULE and the namespaces inside it, the module core in lowgear; of other
#     modules' names it only declares types;
#   - no two headers define a type of one name in one namespace: the linker would take one definition for the other
#     without a word.
# Exit codes: 0 in order, 1 not in order, 2 bad usage.
set -eu

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  echo "usage: check_names.sh SRC   (SRC: the folder that holds the modules)" >&2
  exit 2
fi
cd "$1"
alone=" $(for list in */CMakeLists.txt; do printf '%s ' "${list%/*}"; done)"

# shellcheck disable=SC2016  # the dollars are awk's
check='
  function complain(what) {
    printf "%s:%d: %s\n", substr(FILENAME, 3), FNR, what > "/dev/stderr"
    bad = 1
  }

  # Whether a name that is defined in the namespace belongs to the module of this file.
  function is_own(name,    part) {
    if (module == "core") return name == "lowgear" || name ~ /^lowgear::/
    split(name, part, "::")
    return part[2] == module
  }

  FNR == 1 {
    split(FILENAME, folders, "/")
    module = index(alone, " " folders[2] " ") ? folders[2] : folders[3]
    space = ""
  }

  # At the outermost level clang-format indents nothing, and each namespace ends with its name.
  /^namespace lowgear[a-z_:0-9]* \{$/ {
    space = $2
    next
  }
  /^}  \/\/ namespace lowgear/ {
    space = ""
    next
  }
  /^(class|struct|union|enum|enum class|enum struct) +[A-Za-z0-9_]+( : [a-z0-9_:]+)?;[ \t]*(\/\/.*)?$/ { next }
  space != "" && /^[A-Za-z]/ && !is_own(space) && !(FILENAME in complained) {
    complained[FILENAME] = 1
    complain("defines names in " space "; the names of this module belong into lowgear" (module == "core" ? "" : "::" module))
  }
  FILENAME ~ /\.h$/ && /^(class|struct|union|enum|enum class|enum struct) +(\[\[|[A-Za-z_])/ && (/\{/ || !/;[ \t]*(\/\/.*)?$/) {
    name = $0
    sub(/^(class|struct|union|enum class|enum struct|enum) +(\[\[[^]]*\]\] *)?/, "", name)
    sub(/[^A-Za-z0-9_].*/, "", name)
    whole = space "::" name
    if (whole in first) {
      complain(name " is defined at " first[whole] ", too; give one of them another name")
    } else {
      first[whole] = substr(FILENAME, 3) ":" FNR
    }
  }
  END { exit bad }
'
find . -mindepth 2 -type f \( -name '*.h' -o -name '*.cpp' \) -exec awk -v alone="$alone" "$check" {} + || exit 1
