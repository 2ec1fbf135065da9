#include "base/http/client/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/core/error.h"
#include "base/core/files/file.h"

namespace lowgear::http {
namespace {

constexpr std::size_t kMaxTokenBytes = 4'096;

}  // namespace

std::string read_token_file(const std::filesystem::path& file) {
  std::string token = read_file(file, kMaxTokenBytes);
  token.erase(std::find_if(token.rbegin(), token.rend(), [](char c) { return c > ' '; }).base(), token.end());
  const bool is_word = std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; });
  if (!token.empty() && is_word) return token;
  throw InputError(fmt::format("{}: contains no token; expected one word", printable(file.string())));
}

}  // namespace lowgear::http
