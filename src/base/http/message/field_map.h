#pragma once

#include <algorithm>
#include <boost/beast/core/string_type.hpp>
#include <boost/beast/http/fields.hpp>
#include <string>
#include <string_view>

#include "base/http/message/message.h"

namespace lowgear::http {

[[nodiscard]] inline std::string_view to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// Beast's headers as Headers.
[[nodiscard]] inline Headers to_headers(const boost::beast::http::fields& fields) {
  Headers headers;
  for (const auto& field : fields) {
    std::string name(to_std(field.name_string()));
    std::ranges::transform(name, name.begin(), [](char letter) {
      return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    headers[std::move(name)] = to_std(field.value());
  }
  return headers;
}

}  // namespace lowgear::http
