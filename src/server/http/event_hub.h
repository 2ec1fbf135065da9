#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/http/server/reply.h"
#include "server/fleet/control_plane.h"

namespace lowgear::server {

/// Sends events to watchers (pages and programs), each of one job or of all.
class EventHub final : public EventSink {
 public:
  /// Of all jobs when `job` is empty; from now on.
  void add(std::shared_ptr<http::EventStream> stream, std::string job);
  /// To all who watch this job, with the next `flush`: sent one by one, events would cost each watcher a system call.
  void send(std::string_view event, const std::string& job, const Json& data) override;
  void flush() override;
  /// Ends all streams: who may still watch comes back.
  void end_streams() override;
  [[nodiscard]] bool has_listeners() const override { return !listeners_.empty(); }

 private:
  struct Listener {
    std::shared_ptr<http::EventStream> stream;
    std::string job;
  };
  struct Event {
    std::string job;
    std::string text;
  };

  [[nodiscard]] std::shared_ptr<const std::string> texts_of(const std::string& job) const;

  std::vector<Listener> listeners_;
  std::vector<Event> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace lowgear::server
