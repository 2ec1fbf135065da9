#include "estimating/estimator/gpu/catalogue_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/suggestion.h"

namespace lowgear::estimator {

std::string catalogue_key(std::string_view name) {
  std::string key;
  for (const char letter : name) {
    if (letter == '-' || letter == '_' || letter == ' ') continue;
    key += letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return key;
}

void throw_unknown_name(std::string_view kind, std::string_view name, std::span<const std::string_view> names) {
  const std::string key = catalogue_key(name);
  std::vector<std::string_view> meant;
  if (!key.empty()) {
    std::ranges::copy_if(names, std::back_inserter(meant),
                         [&key](std::string_view known) { return catalogue_key(known).starts_with(key); });
  }
  if (meant.empty()) {
    if (const auto nearest = nearest_name(name, names)) meant = {*nearest};
  }
  throw InputError(fmt::format("there is no {} {}; {}", kind, quote(name),
                               meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                             : fmt::format("did you mean {}?", fmt::join(meant, " or "))));
}

}  // namespace lowgear::estimator
