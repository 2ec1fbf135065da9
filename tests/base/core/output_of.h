#pragma once

#include <stdio.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

namespace lowgear {

/// What a shell command writes to standard output until it ends. Throws std::runtime_error when no shell starts.
inline std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  if (pipe == nullptr) throw std::runtime_error("cannot start: " + command.substr(0, 100));
  std::string output;
  std::array<char, 65536> block;
  while (const std::size_t size = ::fread(block.data(), 1, block.size(), pipe.get())) output.append(block.data(), size);
  return output;
}

}  // namespace lowgear
