#include "client/c_api/handle.h"

#include <pthread.h>

#include <atomic>

namespace lowgear::client::c_api {
namespace {

std::atomic<int>& generation() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace

int fork_generation() { return generation().load(std::memory_order_relaxed); }

void watch_forks() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { generation().fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

std::string& last_error() {
  thread_local std::string message;
  return message;
}

}  // namespace lowgear::client::c_api
