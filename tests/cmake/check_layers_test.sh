#!/bin/sh
# check_layers_test.sh CHECK: runs check_layers.sh on small trees that keep or break the module order.
set -u
. "$(dirname "$0")/expect.sh"

# A tree of three modules that is in order.
fresh_tree() {
  rm -rf "$work/tree"
  mkdir -p "$work/tree/src/a/base" "$work/tree/src/a/logic/deep" "$work/tree/src/b/engine"
  printf '# module order\na/base\na/logic   pure : . deep\nb/engine  torch\n' >"$work/tree/layers.txt"
  printf '#pragma once\n#include <fstream>\n' >"$work/tree/src/a/base/units.h"
  printf '#include "a/logic/solve.h"\n\n#include <vector>\n\n#include "a/base/units.h"\n' >"$work/tree/src/a/logic/solve.cpp"
  printf '#pragma once\n' >"$work/tree/src/a/logic/solve.h"
  printf '#include <torch/torch.h>\n#include "a/base/units.h"\n  #  include "a/logic/solve.h"\n' >"$work/tree/src/b/engine/run.cpp"
}

run_check() { "$check" "$work/tree/layers.txt" "$work/tree/src"; }

# refuse TEXT DESCRIPTION FILE LINE: LINE added to FILE must be refused with TEXT.
refuse() {
  fresh_tree
  printf '%s\n' "$4" >>"$work/tree/src/$3"
  expect 1 "$1" "$2"
}

fresh_tree
expect 0 "" "accepts a tree in order"

refuse 'a/logic/solve.h:2: a/logic may not include "b/engine/run.h": b/engine stands after it in layers.txt' \
  "refuses an include of a lower module" a/logic/solve.h '#include "b/engine/run.h"'
refuse 'a/base/units.h:3: a/base may not include "a/logic/solve.h"' \
  "refuses an indented include with blanks" a/base/units.h "	#  include  \"a/logic/solve.h\""
refuse 'a/base may not include "b/engine/run.h"' "refuses angle brackets as a way round" a/base/units.h '#include <b/engine/run.h>'
refuse '"units.h" names no module' "refuses an include without its module" a/base/units.h '#include "units.h"'
refuse '"vendor/json.h" names no module' "refuses a foreign header in quotes" a/base/units.h '#include "vendor/json.h"'
refuse 'is a relative include' "refuses a relative include" a/logic/solve.h '#include "../../b/engine/run.h"'
refuse 'is a relative include' "refuses a relative include after a module" a/logic/solve.h '#include "a/base/../../b/engine/run.h"'
refuse 'put together by a macro' "refuses a computed include" a/logic/solve.h '#include HEADER'
refuse 'a/logic may not include <torch/torch.h>' "refuses torch outside its module" a/logic/solve.h '#include <torch/torch.h>'
refuse 'a/base may not include <c10/core/Device.h>' "refuses torch's parts, too" a/base/units.h '#include <c10/core/Device.h>'
refuse 'a/logic may not include <thread>: it is marked pure' "refuses threads in a pure module" a/logic/solve.h '#include <thread>'
refuse 'a/logic may not include <sys/stat.h>' "refuses system calls in a pure module" a/logic/solve.h '#include <sys/stat.h>'

fresh_tree
printf 'only a/base/setters.h  logic\n' >>"$work/tree/layers.txt"
printf '#pragma once\n' >"$work/tree/src/a/base/setters.h"
printf '#include "a/base/setters.h"\n' >>"$work/tree/src/a/logic/solve.cpp"
expect 0 "" "accepts a restricted header in a module that may have it"
printf '#include "a/base/setters.h"\n' >>"$work/tree/src/b/engine/run.cpp"
expect 1 'b/engine/run.cpp:4: b/engine may not include "a/base/setters.h": layers.txt keeps it to logic' \
  "refuses a restricted header elsewhere"
printf '#include <a/base/setters.h>\n' >>"$work/tree/src/a/base/units.h"
expect 1 'a/base/units.h:3: a/base may not include "a/base/setters.h": layers.txt keeps it to logic' \
  "refuses it in its own module when that is not named, and in angle brackets"
sed -i 's|base/setters.h|base/gone.h|' "$work/tree/layers.txt"
expect 1 'layers.txt: a/base/gone.h: there is no such header' "refuses to restrict a header that is not there"

fresh_tree
printf '// #include "b/engine/run.h"\n' >>"$work/tree/src/a/logic/solve.h"
expect 0 "" "ignores an include that is commented out"

fresh_tree
mkdir "$work/tree/src/stray" && printf '#pragma once\n' >"$work/tree/src/stray/x.h"
expect 1 'stray/x.h:1: this file is in no module of layers.txt' "refuses a folder that the list lacks"

fresh_tree
printf '#pragma once\n' >"$work/tree/src/loose.h"
expect 1 'loose.h:1: this file is in no module of layers.txt' "refuses a file outside every module"

fresh_tree
printf '#pragma once\n#include "a/logic/solve.h"\n' >"$work/tree/src/a/logic/deep/root.h"
expect 0 "" "accepts a room that includes one before it"
printf '#include "a/logic/deep/root.h"\n' >>"$work/tree/src/a/logic/solve.cpp"
expect 1 'room . may not include "a/logic/deep/root.h": room deep stands after it' "refuses a room that includes one after it"

fresh_tree
mkdir "$work/tree/src/a/logic/attic" && printf '#pragma once\n' >"$work/tree/src/a/logic/attic/x.h"
expect 1 'layers.txt names no room attic of a/logic' "refuses a room that the list lacks"
mkdir "$work/tree/src/a/base/attic" && printf '#pragma once\n' >"$work/tree/src/a/base/attic/x.h"
expect 1 'layers.txt names no room attic of a/base' "refuses a room of a module without rooms"

# A wing that is one module, with a room that is pure.
fresh_tree
printf 'c   : sums=pure web\n' >>"$work/tree/layers.txt"
mkdir -p "$work/tree/src/c/sums" "$work/tree/src/c/web"
printf '#include "a/base/units.h"\n' >"$work/tree/src/c/sums/add.h"
printf '#include <thread>\n#include "c/sums/add.h"\n' >"$work/tree/src/c/web/serve.cpp"
expect 0 "" "accepts a wing that is one module, and threads beside its pure room"
printf '#include <thread>\n' >>"$work/tree/src/c/sums/add.h"
expect 1 'c/sums/add.h:2: c may not include <thread>: its room sums is marked pure' "refuses threads in a pure room"
printf '#include "c/sums/add.h"\n' >>"$work/tree/src/a/base/units.h"
expect 1 'a/base may not include "c/sums/add.h": c stands after it' "refuses an include of a lower wing"

fresh_tree
printf '#include "b/engine/run.h"\n#include <thread>\n' >>"$work/tree/src/a/logic/solve.h"
expect 1 'a/logic/solve.h:3: a/logic may not include <thread>' "names every offence, not only the first"

fresh_tree
find "$work/tree/src" -type f -delete
expect 2 'no C++ sources' "does not pass where there is nothing to check"

rm -r "$work/tree/src"
expect 2 'usage:' "does not pass without the folder"

echo "$failures failed"
[ "$failures" -eq 0 ]
