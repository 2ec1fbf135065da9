#include "estimating/estimator/gpu/catalogue_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/text.h"

namespace lowgear::estimator {
namespace {

char lower_case(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& letter : lower) letter = lower_case(letter);
  return lower;
}

template <typename Fits>
std::vector<std::string_view> names_with_key(std::span<const std::string_view> names, const Fits& fits) {
  std::vector<std::string_view> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&fits](std::string_view name) { return fits(catalogue_key(name)); });
  return found;
}

/// Separators do not count.
std::optional<std::string_view> nearest_key(const std::string& key, std::span<const std::string_view> names) {
  std::vector<std::string> keys;
  for (const std::string_view name : names) keys.push_back(catalogue_key(name));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const std::optional<std::string_view> nearest = nearest_name(key, views);
  if (!nearest) return std::nullopt;
  return names[static_cast<std::size_t>(std::ranges::find(views, *nearest) - views.begin())];
}

}  // namespace

std::string catalogue_key(std::string_view name) {
  std::string key;
  for (const char letter : name) {
    if (std::string_view("-_ \t\r\n").find(letter) != std::string_view::npos) continue;
    key += lower_case(letter);
  }
  return key;
}

std::vector<std::string_view> meant_names(std::string_view name, std::span<const std::string_view> names) {
  const std::string key = catalogue_key(name);
  if (key.empty()) return {};
  std::vector<std::string_view> meant =
      names_with_key(names, [&](const std::string& known) { return known.starts_with(key); });
  if (!meant.empty()) return meant;
  const std::vector<std::string_view> within =
      names_with_key(names, [&](const std::string& known) { return key.find(known) != std::string::npos; });
  if (!within.empty()) return {*std::ranges::max_element(within, {}, &std::string_view::size)};
  const std::string text = lower_case(name);
  const std::vector<std::string_view> family = names_of_family(text, names);
  std::ranges::copy_if(family, std::back_inserter(meant),
                       [&text](std::string_view known) { return has_words_of(known, text); });
  if (!meant.empty()) return meant;
  if (!family.empty()) {
    const auto nearest = nearest_key(key, family);
    return nearest ? std::vector{*nearest} : family;
  }
  const auto nearest =
      nearest_key(key, names_with_key(names, [&](const std::string& known) { return known.front() == key.front(); }));
  if (nearest) meant = {*nearest};
  return meant;
}

void throw_unknown_name(std::string_view kind, std::string_view name, std::string_view own,
                        std::span<const std::string_view> names) {
  const std::vector<std::string_view> meant = meant_names(own, names);
  throw InputError(fmt::format("there is no {} {}; {}", kind, quote(name),
                               meant.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                                             : fmt::format("did you mean {}?", fmt::join(meant, " or "))));
}

}  // namespace lowgear::estimator
