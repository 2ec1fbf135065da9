#include "control/server/http/access_tokens.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/trusted_path.h"
#include "control/server/http/words.h"

namespace lowgear::server {
namespace {

constexpr std::size_t kMaxTokenFileBytes = std::size_t{1} << 20U;
constexpr std::string_view kNameKey = "name=";
constexpr const char* kHowToWrite = "write SCOPES TOKEN or SCOPES name=NAME TOKEN";

bool is_token(std::string_view text) {
  return text.size() <= kMaxTokenBytes && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTokenNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.@").find(c) != std::string_view::npos;
  });
}

Scopes read_scopes(std::string_view word, const SourceLocation& where) {
  if (const auto scopes = parse_scopes(word)) return *scopes;
  throw_input_error(where,
                    "a line begins with scopes, separated by commas: read, jobs and operate; train stands for "
                    "read,jobs, and admin for all of them",
                    kHowToWrite);
}

/// The word `name=NAME` that may come before the token.
std::string read_name(std::string_view& rest, const SourceLocation& where) {
  std::string_view after = rest;
  const std::string_view word = take_word(after);
  // A token may begin like this, too; nothing follows it then.
  if (!word.starts_with(kNameKey) || !has_word(after)) {
    return fmt::format("line {}", where.line);
  }
  const std::string_view name = word.substr(kNameKey.size());
  if (!is_name(name)) {
    throw_input_error(where,
                      fmt::format("a name has up to {} of the characters a-z A-Z 0-9 - _ . @", kMaxTokenNameBytes));
  }
  rest = after;
  return std::string(name);
}

/// Everything after scopes and name.
std::string_view read_token(std::string_view rest, const SourceLocation& where) {
  const std::string_view token = take_word(rest);
  if (token.empty()) throw_input_error(where, "the token is missing", kHowToWrite);
  if (has_word(rest)) throw_input_error(where, "something follows the token", kHowToWrite);
  if (!is_token(token)) {
    throw_input_error(where, fmt::format("a token is at most {} printable ASCII characters", kMaxTokenBytes));
  }
  if (token.size() < kMinTokenBytes) {
    throw_input_error(where, fmt::format("the token has less than {} characters", kMinTokenBytes),
                      "make one with: openssl rand -hex 32");
  }
  return token;
}

/// Whether others than the server and root may read a file of secrets. The group may read one that belongs to root,
/// where the server is another user: so does Kubernetes mount secrets.
bool others_may_read(const struct stat& status) {
  const bool by_its_group = status.st_uid == 0 && ::geteuid() != 0;
  return (status.st_mode & (by_its_group ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) != 0;
}

}  // namespace

std::vector<AccessToken> parse_tokens(std::string_view text, const std::string& source) {
  std::vector<AccessToken> tokens;
  std::map<std::string_view, int> lines;
  SourceLocation where{source, 0, 0};
  while (!text.empty()) {
    ++where.line;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view word = take_word(line);
    if (word.empty() || word.starts_with('#')) continue;
    const Scopes scopes = read_scopes(word, where);
    std::string name = read_name(line, where);
    const std::string_view token = read_token(line, where);
    const auto [first, is_new] = lines.emplace(token, where.line);
    if (!is_new) throw_input_error(where, fmt::format("the same token as in line {}", first->second));
    if (tokens.size() == kMaxTokens) throw_input_error(where, fmt::format("more than {} tokens", kMaxTokens));
    tokens.push_back({scopes, std::move(name), std::string(token)});
  }
  if (tokens.empty()) throw_input_error({source, 0, 0}, "there is no token in it", kHowToWrite);
  return tokens;
}

std::vector<AccessToken> load_tokens(const std::filesystem::path& path) {
  const std::filesystem::path absolute = require_trusted(path);
  struct stat status {};
  const std::string name = printable(path.string());
  if (::stat(absolute.c_str(), &status) != 0 || others_may_read(status)) {
    throw InputError(
        fmt::format("{}: others may read it (mode {:04o}); chmod 600 {}", name, status.st_mode & 07777U, name));
  }
  return parse_tokens(read_file(absolute, kMaxTokenFileBytes), path.string());
}

}  // namespace lowgear::server
