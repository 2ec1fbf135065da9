#include "app/cli/call/planning_library.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "app/cli/call/call.h"
#include "base/core/version.h"

const char* lowgear_version() {
  static const std::string text(lowgear::version());
  return text.c_str();
}

char* lowgear_call(const char* verb, const char* request, int* cancelled) {
  using lowgear::Json;
  try {
    const Json reply = lowgear::cli::call(
        verb, request, [cancelled] { return std::atomic_ref<int>(*cancelled).load(std::memory_order_relaxed) != 0; });
    const std::string text = reply.dump(-1, ' ', false, Json::error_handler_t::replace);
    auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
    if (copy != nullptr) std::memcpy(copy, text.c_str(), text.size() + 1);
    return copy;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void lowgear_free(char* reply) { std::free(reply); }
