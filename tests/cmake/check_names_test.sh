#!/bin/sh
# check_names_test.sh CHECK: runs check_names.sh on small trees in which a name is defined once or twice.
set -u
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/expect.sh"

# tree FIRST SECOND: two headers with these lines.
tree() {
  rm -rf "$work/src" && mkdir -p "$work/src/a" "$work/src/b"
  printf '#pragma once\n%s\n' "$1" >"$work/src/a/one.h"
  printf '#pragma once\n%s\n' "$2" >"$work/src/b/two.h"
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

rm -r "$work/src"
expect 2 'usage:' "does not pass without the folder"

echo "$failures failed"
[ "$failures" -eq 0 ]
