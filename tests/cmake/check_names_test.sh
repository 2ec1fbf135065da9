#!/bin/sh
# check_names_test.sh CHECK: runs check_names.sh on small trees in which a name is defined once or twice.
set -u
. "$(dirname "$0")/expect.sh"

# header FILE NAMESPACE LINE: a header with this line in this namespace.
header() {
  mkdir -p "$work/src/$(dirname "$1")"
  printf '#pragma once\n\nnamespace %s {\n\n%s\n\n}  // namespace %s\n' "$2" "$3" "$2" >"$work/src/$1"
}

# tree FIRST SECOND: two headers of one module with these lines.
tree() {
  rm -rf "$work/src"
  header wing/a/one.h lowgear::a "$1"
  header wing/a/two.h lowgear::a "$2"
}

run_check() { "$check" "$work/src"; }

tree 'struct Row {' 'struct Column {'
expect 0 "" "accepts two names"
tree 'struct Row {' 'class Row final : public Base {'
expect 1 'Row is defined at ' "refuses a second definition, of whatever kind"
tree 'enum class Kind { a, b };' 'struct Kind {};'
expect 1 'Kind is defined at ' "refuses definitions of one line"
tree 'class Row;' 'class Row {'
expect 0 "" "accepts a declaration elsewhere"
tree '  struct Row {' 'struct Row {'
expect 0 "" "accepts a type within another"
tree 'class [[nodiscard]] Row {' 'struct Row {'
expect 1 'Row is defined at ' "reads over attributes"

tree 'struct Row {' 'struct Column {'
header wing/b/three.h lowgear::b 'struct Row {'
expect 0 "" "accepts one name in two modules"
header wing/b/three.h lowgear 'struct Other {'
expect 1 'wing/b/three.h:5: defines names in lowgear; ' "refuses names outside of the namespace of their module"
header wing/b/three.h lowgear::a 'void f();'
expect 1 'belong into lowgear::b' "refuses names in the namespace of another module"

tree 'struct Row {' 'struct Column {'
mkdir -p "$work/src/alone" && : >"$work/src/alone/CMakeLists.txt"
header alone/room/four.h lowgear::alone 'struct Row {'
expect 0 "" "accepts a wing that is one module"
header alone/five.h lowgear::room 'struct Other {'
expect 1 'belong into lowgear::alone' "refuses other names in a wing that is one module"
rm -rf "$work/src/alone"
header wing/b/three.h lowgear::a 'class Row;'
expect 0 "" "accepts declarations of types of another module"
header wing/b/three.h lowgear::b::inside 'struct Row {'
expect 0 "" "accepts a namespace inside that of the module"
header wing/core/text.h lowgear 'struct Row {'
expect 0 "" "accepts the names of core in the outermost namespace"
header wing/core/text.h lowgear::output 'struct Row {'
expect 0 "" "accepts a namespace inside that of core"

rm -r "$work/src"
expect 2 'usage:' "does not pass without the folder"

echo "$failures failed"
[ "$failures" -eq 0 ]
