#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/core/backoff.h"
#include "base/http/client/client.h"
#include "report/metrics/exposition.h"
#include "report/metrics/otlp/otlp_json.h"
#include "report/metrics/otlp/otlp_options.h"

namespace lowgear::metrics {

struct OtlpLimits {
  std::size_t most_waiting = 20;  ///< exports; the oldest is dropped for one more
  std::chrono::milliseconds first_pause{1'000};
  std::chrono::milliseconds longest_pause{60'000};
  std::chrono::milliseconds longest_wish{600'000};  ///< of a collector that says when to come back
  std::chrono::milliseconds timeout{10'000};        ///< of one attempt
  std::chrono::milliseconds last_patience{2'000};   ///< for what waits when the program ends
};

/// What became of exports since the program started.
struct OtlpStatistics {
  std::uint64_t sent = 0;
  std::uint64_t dropped = 0;          ///< refused, or the oldest of too many
  std::uint64_t failed = 0;           ///< attempts
  std::uint64_t rejected_points = 0;  ///< of exports that were sent
  std::size_t waiting = 0;
};

/// Reads the files that the options name. Throws InputError when one cannot be used.
void check_otlp(const OtlpOptions& options);

/// Posts metrics to an OpenTelemetry collector, one request after the other, from a thread of its own: no collector can
/// hold the program up. What can be repeated by OTLP's specification (429, 502, 503, 504, no response) is repeated
/// until it is received or newer exports need its place.
class OtlpExporter {
 public:
  /// `warn` is called from the thread when posts begin to fail, and when they work again. Throws InputError when a file
  /// that the options name cannot be used.
  OtlpExporter(OtlpOptions options, OtlpResource resource, std::function<void(const std::string&)> warn,
               OtlpLimits limits = {});
  /// Gives up what waits, at once.
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  /// Whether the interval has passed since the last export; at first at once.
  [[nodiscard]] bool is_due() const { return std::chrono::steady_clock::now() >= due_; }
  /// Takes the values of this time; never waits. By the thread that asks `is_due`.
  void push(Exposition exposition);
  /// Takes the values of the program's end, and waits a moment until they and what is before them are posted.
  void end(Exposition last);
  [[nodiscard]] OtlpStatistics statistics() const;

 private:
  struct Export {
    Exposition exposition;
    std::int64_t time_ns = 0;
  };
  /// Of one attempt; a body that is refused is not posted again.
  enum class Outcome : unsigned char { received, refused, failed };
  struct Answer {
    Outcome outcome = Outcome::failed;
    std::chrono::milliseconds wish{0};  ///< of the collector: not before
    std::string problem = {};
  };

  void run();
  [[nodiscard]] bool deliver(const std::string& body);
  [[nodiscard]] Answer post(const std::string& body);
  [[nodiscard]] Answer answer_to(const http::ReplyText& reply);
  [[nodiscard]] bool pause_until(std::chrono::steady_clock::time_point time);
  void note(const Answer& answer);

  const OtlpOptions options_;
  const OtlpResource resource_;
  const OtlpLimits limits_;
  const std::function<void(const std::string&)> warn_;
  const std::int64_t start_ns_;
  std::chrono::steady_clock::time_point due_;
  std::chrono::steady_clock::time_point not_before_;  ///< the next post
  ScatteredBackoff backoff_;
  http::Client client_;
  bool is_failing_ = false;  ///< and the log says so
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Export> queue_;   // under mutex_
  OtlpStatistics statistics_;  // under mutex_
  bool is_posting_ = false;    // under mutex_
  bool is_ending_ = false;     // under mutex_
  std::thread thread_;         ///< last: it uses all the others
};

/// Adds `lowgear_otlp_...`.
void add_otlp_metrics(const OtlpStatistics& statistics, Exposition& exposition);

}  // namespace lowgear::metrics
