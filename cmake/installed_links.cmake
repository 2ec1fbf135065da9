# Included when the component lowgear is installed, with `share`, the folder below which its pages are: their links lead
# to what is installed. What only the source tree has is named without a link.

# Folders of the source tree, each with its installed folder after it.
set(places bench doc/lowgear/bench data lowgear/data deploy lowgear docs doc/lowgear)

file(GLOB pages ${share}/doc/lowgear/*.md ${share}/doc/lowgear/bench/*.md ${share}/lowgear/data/*.md)
foreach(page IN LISTS pages)
  cmake_path(GET page PARENT_PATH folder)
  file(READ ${page} text)
  set(left ${places})
  while(left)
    list(POP_FRONT left source installed)
    file(RELATIVE_PATH path ${folder} ${share}/${installed})
    string(REPLACE "](../${source}/" "](${path}/" text "${text}")
  endwhile()
  string(REGEX REPLACE "\\[([^]]+)\\]\\(\\.\\./(cmake|examples|src)/[^)]*\\)" "\\1" text "${text}")
  file(WRITE ${page} "${text}")
endforeach()
