#include "estimator/catalogue_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "core/error.h"
#include "core/suggestion.h"

namespace lowgear {

std::string catalogue_key(std::string_view name) {
  std::string key;
  for (const char letter : name) {
    if (letter == '-' || letter == '_' || letter == ' ') continue;
    key += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return key;
}

void throw_unknown_name(std::string_view kind, std::string_view name, std::span<const std::string_view> names) {
  const std::optional<std::string_view> meant = nearest_name(name, names);
  throw InputError(fmt::format(
      "there is no {} {}; {}", kind, quote(name),
      meant ? fmt::format("did you mean {}?", *meant) : fmt::format("there are {}", fmt::join(names, ", "))));
}

}  // namespace lowgear
