#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace lowgear::protocol {

/// Documents that a test writes and reads back.
inline constexpr int kRoundTrips = 200;

/// Values for members of documents, the same in every run.
class RandomDocument {
 public:
  [[nodiscard]] bool coin() { return whole(0, 1) == 1; }
  [[nodiscard]] int whole(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }
  [[nodiscard]] std::int64_t whole64(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  /// With all digits that a double has; whole numbers and the bounds, too.
  [[nodiscard]] double number(double low, double high) {
    const double value = std::uniform_real_distribution<double>(low, high)(engine_);
    switch (whole(0, 3)) {
      case 0:
        return low;
      case 1:
        return std::ceil(value) <= high ? std::ceil(value) : high;
      default:
        return value;
    }
  }
  template <typename Value>
  [[nodiscard]] std::optional<Value> maybe(Value value) {
    return coin() ? std::optional(value) : std::nullopt;
  }
  /// A text that can be printed, with what JSON has to escape.
  [[nodiscard]] std::string name() {
    static const std::string kLetters = R"(abcXYZ 0189-_./\"'{}[]:,)";
    std::string text;
    for (int left = whole(1, 20); left > 0; --left) {
      text += whole(0, 9) == 0 ? std::string("\u00e4") : std::string(1, letter(kLetters));
    }
    return text;
  }

 private:
  [[nodiscard]] char letter(const std::string& of) {
    return of[static_cast<std::size_t>(whole(0, static_cast<int>(of.size()) - 1))];
  }
  std::mt19937_64 engine_{20'260'829};
};

}  // namespace lowgear::protocol
