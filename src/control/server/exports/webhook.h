#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/formats/json.h"
#include "base/http/client/client.h"
#include "base/http/server/reply.h"
#include "control/server/parts/server_event.h"
#include "report/metrics/exposition.h"

namespace lowgear::server {

/// Where events are posted to.
struct WebhookConfig {
  std::string name;                ///< for the log and metrics
  std::filesystem::path url_file;  ///< holds the address, which is a secret
  std::set<ServerEvent> events = {ServerEvent::decision};
  std::set<std::string> kinds = {};    ///< of decisions; empty: all
  std::filesystem::path ca_file = {};  ///< authorities of an https address in PEM; empty: those of the system
};

/// The address of a webhook, in parts: only the target is secret.
struct WebhookAddress {
  http::Endpoint endpoint;
  std::string target;  ///< `/services/T000/B000/XXXX`
};
/// Reads a file that only its owner may read. Throws InputError, which does not show the address.
[[nodiscard]] WebhookAddress read_webhook_address(const std::filesystem::path& file);

/// Reads what posting to it needs: its address and the authorities to trust. Throws InputError when a file cannot be
/// used.
void check_webhook(const WebhookConfig& config);

/// What is posted of an event: its own members, `event`, and `text`, which Slack shows.
[[nodiscard]] std::string webhook_body(const NamedEvent& event, const Json& data);

/// What became of posts since the server started.
struct WebhookStatistics {
  std::string name;
  std::uint64_t sent = 0;
  std::uint64_t failed = 0;   ///< attempts
  std::uint64_t dropped = 0;  ///< events that were given up, or found the queue full
  std::size_t waiting = 0;
};

struct WebhookOptions {
  std::size_t most_waiting = 1'000;  ///< events; one more is dropped
  int attempts = 8;                  ///< for one event
  std::chrono::milliseconds first_pause{1'000};
  std::chrono::milliseconds longest_pause{60'000};
  std::chrono::milliseconds longest_wish{600'000};  ///< of a receiver that says when to come back
  std::chrono::milliseconds timeout{10'000};        ///< of one attempt
};

/// Posts events, one after the other, from a thread of its own: no receiver can hold the server up. It is a listener
/// to the server's events as their streams are (fleet/event_hub.h). An event is posted again when it is not certain
/// that it was received, so that it may come twice.
class Webhook final : public http::EventStream {
 public:
  /// `warn` is called from the thread when posts begin to fail, and when they work again.
  Webhook(const WebhookConfig& config, WebhookAddress address, std::function<void(const std::string&)> warn,
          WebhookOptions options = {});
  /// Gives up what waits, at once.
  ~Webhook() override;
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Takes what is to be posted out of a text of events; never waits.
  void push(std::shared_ptr<const std::string> events) override;
  [[nodiscard]] bool closed() const override { return false; }
  [[nodiscard]] WebhookStatistics statistics() const;

 private:
  /// Of one attempt; an event that is refused is not posted again.
  enum class Outcome : unsigned char { received, refused, failed };
  struct Answer {
    Outcome outcome = Outcome::failed;
    std::chrono::milliseconds wish{0};  ///< of the receiver: not before
    std::string problem = {};
  };

  void add(const NamedEvent& event, std::string_view document);
  void run();
  [[nodiscard]] bool deliver(const std::string& body);
  [[nodiscard]] Answer post(const std::string& body);
  [[nodiscard]] bool pause(std::chrono::milliseconds time);
  void note(const std::string& problem);

  const std::set<ServerEvent> events_;
  const std::set<std::string> kinds_;
  const WebhookAddress address_;
  const WebhookOptions options_;
  const std::function<void(const std::string&)> warn_;
  http::Client client_;
  bool is_failing_ = false;  ///< and the log says so
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;  ///< bodies
  WebhookStatistics statistics_;
  bool is_ending_ = false;
  std::thread thread_;  ///< last: it uses all the others
};

/// Adds `lowgear_server_webhook_...` of all webhooks.
void add_webhook_metrics(std::span<const WebhookStatistics> webhooks, metrics::Exposition& exposition);

}  // namespace lowgear::server
