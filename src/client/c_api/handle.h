#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/core/error.h"
#include "client/client.h"
#include "client/job_search.h"
#include "client/lowgear.h"
#include "client/steps/attached_steps.h"

// What the calls of lowgear.h share: the client behind its pointer, structures as values, exceptions as codes.

struct lowgear_client {
  int fork_generation = 0;
  lowgear::client::RankInfo rank;
  lowgear::client::SearchingRank searching;
  bool has_server = false;
  bool has_plan = false;                                      ///< one was loaded
  std::filesystem::path recording;                            ///< empty: nothing is recorded
  std::unique_ptr<lowgear::client::IterationLog> iterations;  ///< null: none was searched; the client writes to it
  std::optional<lowgear::client::Client> client;              ///< within this object: a pointer is time of each mark
  std::mutex search_mutex;                                    ///< of the two below
  bool searches_elsewhere = false;
  std::unique_ptr<lowgear::client::JobSearch> search;
  std::unique_ptr<lowgear::client::AttachedSteps> steps;  ///< null: no lengths are told
};

namespace lowgear::client::c_api {

/// How often this process has been forked off, counted in the child: a client of another count is the parent's.
[[nodiscard]] int fork_generation();
void watch_forks();
/// Of the calling thread's last failure.
[[nodiscard]] std::string& last_error();

/// Whether calls on this client do something here.
[[nodiscard]] inline bool usable(const lowgear_client* client) {
  return client != nullptr && client->fork_generation == fork_generation();
}
[[nodiscard]] inline int unusable(const lowgear_client* client) {
  return client == nullptr ? LOWGEAR_OK : LOWGEAR_FORKED;
}

/// Runs a call and turns what it throws into a code.
template <typename Call>
int guarded(Call&& call) noexcept {
  try {
    last_error().clear();
    return call();
  } catch (const LeaseRefused& error) {
    last_error() = error.what();
    return LOWGEAR_REFUSED;
  } catch (const InputError& error) {
    last_error() = error.what();
    return LOWGEAR_INVALID;
  } catch (const std::exception& error) {
    last_error() = error.what();
    return LOWGEAR_FAILED;
  } catch (...) {
    return LOWGEAR_FAILED;
  }
}

/// Gives the caller as much of a structure as it has room for.
template <typename Struct>
int give(const Struct& value, Struct* target) {
  if (target == nullptr) throw InputError("the pointer for the result is null");
  if (target->struct_size < sizeof target->struct_size) throw InputError("struct_size of the result is not set");
  const std::size_t size = std::min(target->struct_size, sizeof value);
  std::memcpy(reinterpret_cast<char*>(target) + sizeof target->struct_size,
              reinterpret_cast<const char*>(&value) + sizeof target->struct_size, size - sizeof target->struct_size);
  return LOWGEAR_OK;
}

[[nodiscard]] inline std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

template <std::size_t kSize>
void copy_text(char (&target)[kSize], const std::string& text) {  // NOLINT(*-avoid-c-arrays): of a structure of C
  const std::size_t size = std::min(text.size(), kSize - 1);
  std::memcpy(target, text.data(), size);
  target[size] = '\0';
}

}  // namespace lowgear::client::c_api
