#pragma once

#include <string>
#include <utility>

#include "base/core/error.h"

namespace lowgear {

/// What `throw_input_error` throws: an InputError that knows its place and its text apart.
class LocatedError final : public InputError {
 public:
  LocatedError(const std::string& message, SourceLocation where, std::string problem)
      : InputError(message), where_(std::move(where)), problem_(std::move(problem)) {}

  [[nodiscard]] const SourceLocation& where() const { return where_; }
  /// The message without the place.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  SourceLocation where_;
  std::string problem_;
};

}  // namespace lowgear
