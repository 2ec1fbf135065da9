#pragma once

#include <string>

#include "base/core/error.h"

namespace lowgear {

/// The message of the InputError that `action` throws; "no error" when it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace lowgear
