# cmake -DOUTPUT=page_files.cpp -DHEADER=report/page_template.h -DFUNCTION=lowgear::report::page_file "-DFILES=a.html;b.js"
#       -P embed_files.cmake
# Writes the files as byte arrays into one C++ source that defines FUNCTION, which HEADER declares:
# std::string_view FUNCTION(std::string_view name). It throws std::out_of_range where there is no file of that name.
set(arrays "")
set(entries "")
set(index 0)
foreach(file IN LISTS FILES)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  get_filename_component(name ${file} NAME)
  string(APPEND arrays "constexpr unsigned char kFile${index}[] = {\n${bytes}};\n\n")
  string(APPEND entries "    {\"${name}\", {reinterpret_cast<const char*>(kFile${index}), sizeof kFile${index}}},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT} "// Made by embed_files.cmake.
// NOLINTBEGIN
#include \"${HEADER}\"

#include <stdexcept>
#include <string>

namespace {

struct EmbeddedFile {
  std::string_view name;
  std::string_view content;
};

${arrays}}  // namespace

std::string_view ${FUNCTION}(std::string_view name) {
  static const EmbeddedFile files[] = {
${entries}  };
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return file.content;
  }
  throw std::out_of_range(\"no embedded file is named \" + std::string(name));
}
// NOLINTEND
")
