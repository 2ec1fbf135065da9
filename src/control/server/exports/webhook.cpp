#include "control/server/exports/webhook.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/core/backoff.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/trusted_path.h"
#include "report/metrics/exposition.h"

namespace lowgear::server {
namespace {

constexpr std::size_t kMaxAddressBytes = 4'096;
constexpr std::string_view kDecision = "event: decision\ndata: ";

/// Of a receiver's response nothing is needed but its status.
http::ClientOptions client_options() {
  http::ClientOptions options;
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

/// A status after which the same post is worth another attempt.
bool is_worth_repeating(int status) { return status >= 500 || status == 408 || status == 429; }

}  // namespace

WebhookAddress read_webhook_address(const std::filesystem::path& file) {
  const std::filesystem::path absolute = require_trusted(file);
  const std::string name = printable(file.string());
  struct stat status {};
  if (::stat(absolute.c_str(), &status) != 0 || (status.st_mode & 077U) != 0) {
    throw InputError(fmt::format("{}: others may read it, and it holds a secret; chmod 600 {}", name, name));
  }
  std::string text = read_file(absolute, kMaxAddressBytes);
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

std::string webhook_body(const Json& decision) {
  Json body = decision;
  body["text"] = fmt::format("Lowgear, job {}: {}: {}", escaped(text_of(decision, "job")),
                             escaped(text_of(decision, "kind")), escaped(text_of(decision, "reason")));
  return body.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Webhook::Webhook(const WebhookConfig& config, WebhookAddress address, std::function<void(const std::string&)> warn,
                 WebhookOptions options)
    : kinds_(config.kinds),
      address_(std::move(address)),
      options_(options),
      warn_(std::move(warn)),
      client_(address_.endpoint, client_options()) {
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
  const std::string_view text = *events;
  for (std::size_t begin = text.find(kDecision); begin != std::string_view::npos;) {
    begin += kDecision.size();
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const Json decision = Json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = text.find(kDecision, end);
    if (!decision.is_object() || (!kinds_.empty() && !kinds_.contains(text_of(decision, "kind")))) continue;
    const std::scoped_lock lock(mutex_);
    if (queue_.size() >= options_.most_waiting) {
      ++statistics_.dropped;
      continue;
    }
    queue_.push_back(webhook_body(decision));
    changed_.notify_all();
  }
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
    const Outcome outcome = post(body);
    if (outcome != Outcome::failed) return outcome == Outcome::received;
    if (attempt == options_.attempts || !pause(backoff.next())) return false;
  }
  return false;
}

Webhook::Outcome Webhook::post(const std::string& body) {
  Outcome outcome = Outcome::failed;
  std::string problem;
  try {
    const http::ReplyText reply =
        client_.request("POST", address_.target, body, {{"Content-Type", "application/json"}}, options_.timeout);
    if (reply.status >= 300) problem = fmt::format("status {}", reply.status);
    if (!is_worth_repeating(reply.status)) outcome = reply.status < 300 ? Outcome::received : Outcome::refused;
  } catch (const http::ClientError& error) {
    const bool is_unreadable = error.kind() == http::ClientError::Kind::malformed;
    problem = is_unreadable ? "its response is invalid, too large or chunked" : error.what();
    if (is_unreadable) outcome = Outcome::refused;  // most likely it was received: do not fill a channel with copies
  } catch (const Error& error) {
    problem = error.what();
  }
  note(problem);
  return outcome;
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
  warn_(is_failing ? fmt::format("webhook {}: decisions cannot be posted: {}", quote(name), problem)
                   : fmt::format("webhook {}: decisions are posted again", quote(name)));
}

std::string webhook_metrics(std::span<const WebhookStatistics> webhooks) {
  metrics::Exposition exposition;
  metrics::MetricFamily& decisions =
      exposition.counter("server_webhook_decisions", "Decisions that a webhook was to post, by what became of them.");
  metrics::MetricFamily& failures = exposition.counter("server_webhook_failures", "Attempts to post one that failed.");
  metrics::MetricFamily& waiting = exposition.gauge("server_webhook_waiting", "Decisions that wait to be posted.");
  for (const WebhookStatistics& webhook : webhooks) {
    const metrics::MetricLabels labels{{"webhook", webhook.name}};
    decisions.add(metrics::with(labels, "outcome", "sent"), static_cast<double>(webhook.sent));
    decisions.add(metrics::with(labels, "outcome", "dropped"), static_cast<double>(webhook.dropped));
    failures.add(labels, static_cast<double>(webhook.failed));
    waiting.add(labels, static_cast<double>(webhook.waiting));
  }
  return exposition.text();
}

}  // namespace lowgear::server
