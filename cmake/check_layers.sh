#!/bin/sh
# check_layers.sh LAYERS SRC
#
# Checks the folders below SRC and every #include in them against LAYERS (see cmake/layers.txt) and prints one line for
# each that breaks it:
#   - a module includes headers of modules before it in the list only, a room those of rooms before it;
#   - a header of a line `only HEADER MODULE...` is included by these modules alone;
#   - every source lies in a module and a room of the list.
# Exit codes: 0 in order, 1 not in order, 2 bad usage.
set -eu

if [ $# -ne 2 ] || [ ! -r "$1" ] || [ ! -d "$2" ]; then
  echo "usage: check_layers.sh LAYERS SRC   (LAYERS: the list of modules, SRC: the folder that holds them)" >&2
  exit 2
fi
layers=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$2"

# A header that was renamed would be free for all.
sed -n 's/^only[ \t]*\([^ \t#]*\).*/\1/p' "$layers" | while read -r header; do
  [ -e "$header" ] || { echo "$(basename "$layers"): $header: there is no such header" >&2 && exit 1; }
done || exit 1

sources() { find . -type f \( -name '*.h' -o -name '*.hpp' -o -name '*.c' -o -name '*.cc' -o -name '*.cpp' -o -name '*.cu' \) "$@"; }

if [ -z "$(sources -print | head -n 1)" ]; then
  echo "$2: no C++ sources here to check" >&2
  exit 2
fi

# shellcheck disable=SC2016  # the dollars are awk's
check='
  function complain(what) {
    printf "%s:%d: %s\n", substr(FILENAME, 3), FNR, what > "/dev/stderr"
    bad = 1
  }

  # The module of a path below src/, MODULE or WING/MODULE; empty where the list has no such module.
  function module_of(path,    part, parts) {
    parts = split(path, part, "/")
    if (parts > 1 && part[1] in rank) return part[1]
    if (parts > 2 && (part[1] "/" part[2]) in rank) return part[1] "/" part[2]
    return ""
  }

  # The folder within the module; a dot for files that lie in none.
  function room_of(path, module,    part) {
    return split(substr(path, length(module) + 2), part, "/") > 1 ? part[1] : "."
  }

  function name_of(module) {
    return substr(module, index(module, "/") + 1)
  }

  function check_own(path,    used, used_room) {
    used = module_of(path)
    used_room = room_of(path, used)
    if (path ~ /(^|\/)\.\.?\//)
      complain("\"" path "\" is a relative include; write it as \"wing/module/file.h\"")
    else if (used == "")
      complain("\"" path "\" names no module of this project; write \"wing/module/file.h\", and <...> for other libraries")
    else if (rank[used] > rank[module])
      complain(module " may not include \"" path "\": " used " stands after it in " list)
    else if (used == module && has_rooms[module] && room_rank[module, used_room] > room_rank[module, room])
      complain("room " room " may not include \"" path "\": room " used_room " stands after it in " list)
    else if ((path in restricted) && !((path, name_of(module)) in allowed))
      complain(module " may not include \"" path "\": " list " keeps it to" restricted[path])
  }

  function check_foreign(path) {
    if (path ~ torch_headers && !may[module, "torch"])
      complain(module " may not include <" path ">: only modules marked torch in " list " may")
    if (path ~ effect_headers && (may[module, "pure"] || pure_room[module, room]))
      complain(module " may not include <" path ">: " (may[module, "pure"] ? "it" : "its room " room) " is marked pure in " list)
  }

  function read_module(words, word,    i, rooms) {
    rank[word[1]] = ++modules
    for (i = 2; i <= words && word[i] != ":"; ++i) may[word[1], word[i]] = 1
    has_rooms[word[1]] = i <= words
    while (++i <= words) {
      if (sub(/=pure$/, "", word[i])) pure_room[word[1], word[i]] = 1
      room_rank[word[1], word[i]] = ++rooms
    }
  }

  BEGIN {
    list = layers
    sub(/.*\//, "", list)
    while ((getline line < layers) > 0) {
      sub(/#.*/, "", line)
      words = split(line, word, " ")
      if (word[1] == "only") {
        for (i = 3; i <= words; ++i) {
          restricted[word[2]] = restricted[word[2]] " " word[i]
          allowed[word[2], word[i]] = 1
        }
      } else if (words) {
        read_module(words, word)
      }
    }
    torch_headers = "^(torch|ATen|c10|c10d|caffe2)/"
    effect_headers = "^(thread|mutex|shared_mutex|condition_variable|future|chrono|ctime|time\\.h|filesystem|fstream" \
                     "|iostream|unistd\\.h|fcntl\\.h|pthread\\.h|sys/.*|spdlog/.*|boost/asio.*)$"
  }

  FNR == 1 {
    path = substr(FILENAME, 3)
    module = module_of(path)
    room = room_of(path, module)
    if (module == "") {
      complain("this file is in no module of " list "; move it into one, or list its folder there")
      nextfile
    }
    if (has_rooms[module] ? !((module, room) in room_rank) : room != ".")
      complain(list " names no room " room " of " module)
  }

  /^[ \t]*#[ \t]*include/ {
    if (match($0, /"[^"]*"/))
      check_own(substr($0, RSTART + 1, RLENGTH - 2))
    else if (!match($0, /<[^>]*>/))
      complain("an include that is put together by a macro cannot be checked; name the header")
    else if (module_of(path = substr($0, RSTART + 1, RLENGTH - 2)) != "")
      check_own(path)
    else
      check_foreign(path)
  }

  END { exit bad }
'
sources -exec awk -v layers="$layers" "$check" {} + || exit 1
