# cmake -DOUTPUT=page_files.cpp "-DFILES=a.html;b.js" -P embed_files.cmake
# Writes the files as byte arrays into one C++ source that defines page_file (page_files.h).
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
#include \"report/page_files.h\"

#include <stdexcept>
#include <string>

namespace lowgear {

namespace {

struct PageFile {
  std::string_view name;
  std::string_view content;
};

${arrays}}  // namespace

std::string_view page_file(std::string_view name) {
  static const PageFile files[] = {
${entries}  };
  for (const PageFile& file : files) {
    if (file.name == name) return file.content;
  }
  throw std::out_of_range(\"the report has no page file \" + std::string(name));
}

}  // namespace lowgear
// NOLINTEND
")
