#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::tensorfile {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename Element>
std::span<const std::byte> bytes_of(const std::vector<Element>& elements) {
  return std::as_bytes(std::span(elements));
}

/// A file of this header and this data, put together by hand.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes.append(header).append(data);
}

}  // namespace lowgear::tensorfile
