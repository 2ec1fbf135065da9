#pragma once

#include <functional>
#include <span>
#include <string_view>

namespace lowgear::sampling {

/// Hands every word of `linear,norm` to `take`, which returns whether there is such a thing. Throws InputError that
/// names the option, `kind` (`operator`) and the nearest of `words` where there is not.
void take_words(std::string_view list, std::string_view option, std::string_view kind,
                std::span<const std::string_view> words, const std::function<bool(std::string_view)>& take);

}  // namespace lowgear::sampling
