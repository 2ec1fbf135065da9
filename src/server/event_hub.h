#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "http/reply.h"

namespace lowgear {

/// Sends events to those who watch: pages and programs, each one job or all.
class EventHub {
 public:
  /// `job` empty: all jobs.
  void add(std::shared_ptr<EventStream> stream, std::string job);
  /// To all who watch this job.
  void send(std::string_view event, const std::string& job, const Json& data);
  [[nodiscard]] bool has_listeners() const { return !listeners_.empty(); }

 private:
  struct Listener {
    std::shared_ptr<EventStream> stream;
    std::string job;
  };
  std::vector<Listener> listeners_;
};

}  // namespace lowgear
