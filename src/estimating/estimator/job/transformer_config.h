#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "estimating/estimator/job/transformer_shape.h"

namespace lowgear::estimator {

/// The members of a config.json, whatever they are written in. All throw InputError that says where.
class ConfigMembers {
 public:
  virtual ~ConfigMembers() = default;
  /// Whether the member is there, and not as null.
  [[nodiscard]] virtual bool has(std::string_view key) const = 0;
  [[nodiscard]] virtual std::int64_t integer(std::string_view key) const = 0;
  [[nodiscard]] virtual std::string text(std::string_view key) const = 0;
  [[nodiscard]] virtual bool boolean(std::string_view key) const = 0;
  /// `key` must be there.
  [[noreturn]] virtual void fail(std::string_view key, std::string_view what, std::string_view fix = {}) const = 0;
};

/// The shape that they describe (see parse_transformer_shape), with this name.
[[nodiscard]] TransformerShape read_transformer_shape(const ConfigMembers& members, std::string name);

}  // namespace lowgear::estimator
