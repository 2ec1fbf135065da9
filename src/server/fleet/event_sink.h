#pragma once

#include <string>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear::server {

/// Receives what happens to jobs, for whoever watches.
class EventSink {
 public:
  virtual ~EventSink() = default;
  /// To all who watch this job; to those who watch all jobs where `job` is empty.
  virtual void send(std::string_view event, const std::string& job, const Json& data) = 0;
  /// To be called some times a second.
  virtual void flush() = 0;
  /// Nothing more will be sent.
  virtual void end_streams() = 0;
  [[nodiscard]] virtual bool has_listeners() const = 0;
};

}  // namespace lowgear::server
