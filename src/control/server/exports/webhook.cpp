#include "control/server/exports/webhook.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/backoff.h"
#include "base/core/error.h"
#include "base/core/files/secret_file.h"
#include "base/http/message/retry_after.h"

namespace lowgear::server {
namespace {

constexpr std::size_t kMaxAddressBytes = 4'096;
constexpr std::string_view kEvent = "event: ";
constexpr std::string_view kData = "data: ";

/// Of a receiver's response nothing is needed but its status.
http::ClientOptions client_options(const WebhookConfig& config) {
  http::ClientOptions options;
  options.tls.ca = config.ca_file;
  options.limits = {.header_bytes = std::size_t{16} << 10U, .body_bytes = std::size_t{64} << 10U};
  return options;
}

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

std::string text_of(const Json& decision, const char* member) {
  const auto found = decision.find(member);
  return found != decision.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Slack reads `&`, `<` and `>` as marks.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else {
      result += c;
    }
  }
  return result;
}

/// The next line of a text of events that begins so, without that; the text is then what follows. Empty: there is none.
std::string_view field(std::string_view& text, std::string_view begin) {
  if (!text.starts_with(begin)) {
    const std::size_t found = text.find(std::string("\n").append(begin));
    if (found == std::string_view::npos) return {};
    text.remove_prefix(found + 1);
  }
  text.remove_prefix(begin.size());
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end);
  return line;
}

/// `job j-1`
std::string subject_of(const Json& data) {
  for (const char* subject : {"job", "budget", "node"}) {
    if (const std::string name = text_of(data, subject); !name.empty()) {
      return fmt::format("{} {}", std::string_view(subject) == "budget" ? "power budget" : subject, escaped(name));
    }
  }
  return "server";
}

/// A status after which the same post is worth another attempt.
bool is_worth_repeating(int status) { return status >= 500 || status == 408 || status == 429; }

}  // namespace

WebhookAddress read_webhook_address(const std::filesystem::path& file) {
  std::string text = read_secret_file(file, kMaxAddressBytes);
  const std::string name = printable(file.string());
  while (!text.empty() && text.back() <= ' ') text.pop_back();
  const std::size_t scheme = text.find("://");
  const bool is_http = text.starts_with("http://") || text.starts_with("https://");
  if (!is_http || !is_printable(text)) {
    throw InputError(fmt::format("{}: expected one address that begins with https:// or http://", name));
  }
  const std::size_t slash = text.find('/', scheme + 3);
  WebhookAddress address;
  address.target = slash == std::string::npos ? "/" : text.substr(slash);
  try {
    address.endpoint = http::Endpoint::parse(text.substr(0, slash));
  } catch (const InputError&) {
    throw InputError(fmt::format("{}: its address has no valid host and port", name));
  }
  return address;
}

void check_webhook(const WebhookConfig& config) {
  const http::Client client(read_webhook_address(config.url_file).endpoint, client_options(config));
}

std::string webhook_body(const NamedEvent& event, const Json& data) {
  Json body = data;
  body["event"] = event.name;
  const std::string words = event.words.empty() ? text_of(data, "kind") : std::string(event.words);
  body["text"] = fmt::format("Lowgear, {}: {}: {}", subject_of(data), escaped(words), escaped(text_of(data, "reason")));
  return body.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Webhook::Webhook(const WebhookConfig& config, WebhookAddress address, std::function<void(const std::string&)> warn,
                 WebhookOptions options)
    : events_(config.events),
      kinds_(config.kinds),
      address_(std::move(address)),
      options_(options),
      warn_(std::move(warn)),
      client_(address_.endpoint, client_options(config)) {
  statistics_.name = config.name;
  thread_ = std::thread([this] { run(); });
}

Webhook::~Webhook() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  client_.cancel();
  changed_.notify_all();
  thread_.join();
}

void Webhook::push(std::shared_ptr<const std::string> events) {
  std::string_view text = *events;
  while (true) {
    const std::string_view name = field(text, kEvent);
    const std::string_view data = field(text, kData);
    if (name.empty() || data.empty()) return;
    const NamedEvent* event = find_server_event(name);
    if (event != nullptr && events_.contains(event->event)) add(*event, data);
  }
}

void Webhook::add(const NamedEvent& event, std::string_view document) {
  const Json data = Json::parse(document, nullptr, false);
  if (!data.is_object()) return;
  if (event.event == ServerEvent::decision && !kinds_.empty() && !kinds_.contains(text_of(data, "kind"))) return;
  const std::scoped_lock lock(mutex_);
  if (queue_.size() >= options_.most_waiting) {
    ++statistics_.dropped;
    return;
  }
  queue_.push_back(webhook_body(event, data));
  changed_.notify_all();
}

WebhookStatistics Webhook::statistics() const {
  const std::scoped_lock lock(mutex_);
  WebhookStatistics statistics = statistics_;
  statistics.waiting = queue_.size();
  return statistics;
}

void Webhook::run() {
  while (true) {
    std::string body;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
      if (is_ending_) return;
      body = queue_.front();
    }
    const bool is_delivered = deliver(body);
    const std::scoped_lock lock(mutex_);
    queue_.pop_front();
    ++(is_delivered ? statistics_.sent : statistics_.dropped);
  }
}

/// As often as it may take.
bool Webhook::deliver(const std::string& body) {
  Backoff<std::chrono::milliseconds> backoff(options_.first_pause, options_.longest_pause);
  for (int attempt = 1; attempt <= options_.attempts; ++attempt) {
    const Answer answer = post(body);
    note(answer.problem);
    if (answer.outcome != Outcome::failed) return answer.outcome == Outcome::received;
    if (attempt == options_.attempts || !pause(std::max(backoff.next(), answer.wish))) return false;
  }
  return false;
}

Webhook::Answer Webhook::post(const std::string& body) {
  try {
    const http::ReplyText reply =
        client_.request("POST", address_.target, body, {{"Content-Type", "application/json"}}, options_.timeout);
    if (reply.status < 300) return {.outcome = Outcome::received};
    return {.outcome = is_worth_repeating(reply.status) ? Outcome::failed : Outcome::refused,
            .wish = http::retry_after(reply.headers, options_.longest_wish),
            .problem = fmt::format("status {}", reply.status)};
  } catch (const http::ClientError& error) {
    if (error.kind() != http::ClientError::Kind::malformed) return {.problem = error.what()};
    // Most likely it was received: do not fill a channel with copies.
    return {.outcome = Outcome::refused, .problem = "its response is invalid, too large or chunked"};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

/// False: it is time to end.
bool Webhook::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [&] { return is_ending_; });
}

void Webhook::note(const std::string& problem) {
  const bool is_failing = !problem.empty();
  std::string name;
  {
    const std::scoped_lock lock(mutex_);
    if (is_ending_) return;
    statistics_.failed += is_failing ? 1 : 0;
    name = statistics_.name;
  }
  if (std::exchange(is_failing_, is_failing) == is_failing) return;
  warn_(is_failing ? fmt::format("webhook {}: events cannot be posted: {}", quote(name), problem)
                   : fmt::format("webhook {}: events are posted again", quote(name)));
}

void add_webhook_metrics(std::span<const WebhookStatistics> webhooks, metrics::Exposition& exposition) {
  metrics::MetricFamily& events =
      exposition.counter("server_webhook_events", "Events that a webhook was to post, by what became of them.");
  metrics::MetricFamily& failures = exposition.counter("server_webhook_failures", "Attempts to post one that failed.");
  metrics::MetricFamily& waiting = exposition.gauge("server_webhook_waiting", "Events that wait to be posted.");
  for (const WebhookStatistics& webhook : webhooks) {
    const metrics::MetricLabels labels{{"webhook", webhook.name}};
    events.add(metrics::with(labels, "outcome", "sent"), static_cast<double>(webhook.sent));
    events.add(metrics::with(labels, "outcome", "dropped"), static_cast<double>(webhook.dropped));
    failures.add(labels, static_cast<double>(webhook.failed));
    waiting.add(labels, static_cast<double>(webhook.waiting));
  }
}

}  // namespace lowgear::server
