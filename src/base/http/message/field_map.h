#pragma once

#include <algorithm>
#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/fields.hpp>
#include <string>
#include <string_view>

#include "base/http/message/message.h"

namespace lowgear::http {

[[nodiscard]] inline std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// Beast's headers as Headers. What stands in several headers of one name is one list (RFC 9110, 5.2): none of them
/// hides another one.
[[nodiscard]] inline Headers to_headers(const boost::beast::http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) {
    std::string name(to_std(field.name_string()));
    std::ranges::transform(name, name.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    const auto [known, is_new] = headers.try_emplace(std::move(name), to_std(field.value()));
    if (!is_new) known->second.append(", ").append(to_std(field.value()));
  }
  return headers;
}

}  // namespace lowgear::http
