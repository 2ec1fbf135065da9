#include "estimating/sampling/word_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/core/error.h"
#include "base/core/suggestion.h"

namespace lowgear::sampling {

void take_words(std::string_view list, std::string_view option, std::string_view kind,
                std::span<const std::string_view> words, const std::function<bool(std::string_view)>& take) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view word = list.substr(begin, end - begin);
    begin = end + 1;
    if (take(word)) continue;
    const std::optional<std::string_view> nearest = nearest_name(word, words);
    throw InputError(fmt::format(
        "{}: there is no {} {}; {}", option, kind, quote(word),
        nearest ? fmt::format("did you mean {}?", *nearest) : fmt::format("there are {}", fmt::join(words, ", "))));
  }
}

}  // namespace lowgear::sampling
