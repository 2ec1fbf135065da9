#pragma once

#include <string>

#include "base/core/error.h"

namespace lowgear {

/// The message of the error of this kind that `action` throws; "no error" when it throws none.
template <typename Kind = InputError, typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Kind& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace lowgear
