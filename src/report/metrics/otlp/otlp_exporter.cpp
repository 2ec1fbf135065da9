#include "report/metrics/otlp/otlp_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "base/http/message/retry_after.h"

namespace lowgear::metrics {
namespace {

constexpr std::size_t kMaxMessage = 200;

http::ClientOptions client_options(const OtlpOptions& options) {
  http::ClientOptions client;
  client.limits = {.header_bytes = std::size_t{16} << 10U, .body_bytes = std::size_t{64} << 10U};
  client.tls.ca = options.ca_file;
  return client;
}

std::int64_t system_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// By OTLP's specification; the same request may be sent again after these alone.
bool is_worth_repeating(int status) { return status == 429 || status == 502 || status == 503 || status == 504; }

/// What a collector has not taken of a request that it took.
struct Rejected {
  std::uint64_t points = 0;
  std::string message;
};

/// A collector that says nothing has taken all.
Rejected rejected_of(const std::string& body) {
  const Json document = Json::parse(body, nullptr, false);
  if (!document.is_object()) return {};
  const auto partial = document.find("partialSuccess");
  if (partial == document.end() || !partial->is_object()) return {};
  Rejected rejected;
  if (const auto points = partial->find("rejectedDataPoints"); points != partial->end()) {
    const std::string digits = points->is_string() ? points->get<std::string>() : points->dump();
    rejected.points = static_cast<std::uint64_t>(std::max<long long>(0, parse_integer(digits).value_or(0)));
  }
  const auto message = partial->find("errorMessage");
  if (message != partial->end() && message->is_string()) rejected.message = message->get<std::string>();
  return rejected;
}

}  // namespace

void check_otlp(const OtlpOptions& options) {
  if (!options.headers_file.empty()) (void)read_otlp_headers(options.headers_file);
  const http::Client client(options.collector, client_options(options));
}

OtlpExporter::OtlpExporter(OtlpOptions options, OtlpResource resource, std::function<void(const std::string&)> warn,
                           OtlpLimits limits)
    : options_(std::move(options)),
      resource_(std::move(resource)),
      limits_(limits),
      warn_(std::move(warn)),
      start_ns_(system_ns()),
      due_(std::chrono::steady_clock::now()),
      not_before_(due_),
      backoff_(limits_.first_pause, limits_.longest_pause, std::random_device()()),
      client_(options_.collector, client_options(options_)) {
  check_otlp(options_);
  thread_ = std::thread([this] { run(); });
}

OtlpExporter::~OtlpExporter() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  client_.cancel();
  changed_.notify_all();
  thread_.join();
}

void OtlpExporter::end(Exposition last) {
  push(std::move(last));
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limits_.last_patience, [&] { return queue_.empty() && !is_posting_; });
}

void OtlpExporter::push(Exposition exposition) {
  due_ = std::chrono::steady_clock::now() + options_.interval;
  const std::scoped_lock lock(mutex_);
  while (queue_.size() >= limits_.most_waiting) {
    queue_.pop_front();
    ++statistics_.dropped;
  }
  queue_.push_back({std::move(exposition), std::max(system_ns(), start_ns_)});
  changed_.notify_all();
}

OtlpStatistics OtlpExporter::statistics() const {
  const std::scoped_lock lock(mutex_);
  OtlpStatistics statistics = statistics_;
  statistics.waiting = queue_.size();
  return statistics;
}

void OtlpExporter::run() {
  while (true) {
    Export next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
      if (is_ending_) return;
      next = std::move(queue_.front());
      queue_.pop_front();
      is_posting_ = true;
    }
    const OtlpTimes times{.start_ns = start_ns_, .time_ns = next.time_ns};
    bool is_delivered = true;
    for (const std::string& body : otlp_requests(next.exposition, resource_, times)) {
      is_delivered = deliver(body) && is_delivered;
    }
    const std::scoped_lock lock(mutex_);
    ++(is_delivered ? statistics_.sent : statistics_.dropped);
    is_posting_ = false;
    changed_.notify_all();
  }
}

/// As long as no newer exports need its place.
bool OtlpExporter::deliver(const std::string& body) {
  while (pause_until(not_before_)) {
    const Answer answer = post(body);
    note(answer);
    if (answer.outcome != Outcome::failed) {
      backoff_.reset();
      return answer.outcome == Outcome::received;
    }
    not_before_ = std::chrono::steady_clock::now() + std::max(backoff_.next(), answer.wish);
    const std::scoped_lock lock(mutex_);
    if (queue_.size() >= limits_.most_waiting) return false;
  }
  return false;
}

OtlpExporter::Answer OtlpExporter::post(const std::string& body) {
  try {
    http::Client::HeaderList headers;
    if (!options_.headers_file.empty()) headers = read_otlp_headers(options_.headers_file);  // it may be replaced
    headers.emplace_back("Content-Type", "application/json");
    return answer_to(client_.request("POST", options_.target, body, headers, limits_.timeout));
  } catch (const http::ClientError& error) {
    // A response that cannot be read: most likely the request was received.
    if (error.kind() != http::ClientError::Kind::malformed) return {.problem = error.what()};
    return {.outcome = Outcome::refused, .problem = "its response is invalid, too large or chunked"};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

OtlpExporter::Answer OtlpExporter::answer_to(const http::ReplyText& reply) {
  if (is_worth_repeating(reply.status)) {
    return {.wish = http::retry_after(reply.headers, limits_.longest_wish),
            .problem = fmt::format("status {}", reply.status)};
  }
  if (reply.status < 200 || reply.status >= 300) {
    return {.outcome = Outcome::refused, .problem = fmt::format("status {}", reply.status)};
  }
  const Rejected rejected = rejected_of(reply.body);
  if (rejected.points == 0) return {.outcome = Outcome::received};
  const std::scoped_lock lock(mutex_);
  statistics_.rejected_points += rejected.points;
  return {.outcome = Outcome::received,
          .problem = fmt::format("{} data points were rejected: {}", rejected.points,
                                 printable(rejected.message, kMaxMessage))};
}

/// False: it is time to end.
bool OtlpExporter::pause_until(std::chrono::steady_clock::time_point time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, time, [&] { return is_ending_; });
}

void OtlpExporter::note(const Answer& answer) {
  const bool is_failing = !answer.problem.empty();
  {
    const std::scoped_lock lock(mutex_);
    if (is_ending_) return;
    statistics_.failed += answer.outcome == Outcome::received ? 0 : 1;
  }
  if (std::exchange(is_failing_, is_failing) == is_failing) return;
  const std::string collector = options_.collector.text() + options_.target;
  warn_(is_failing ? fmt::format("metrics cannot be exported to {}: {}", collector, answer.problem)
                   : fmt::format("metrics are exported to {} again", collector));
}

void add_otlp_metrics(const OtlpStatistics& statistics, Exposition& exposition) {
  MetricFamily& exports = exposition.counter("otlp_exports", "Exports of all metrics by OTLP, by what became of them.");
  exports.add({{"outcome", "sent"}}, static_cast<double>(statistics.sent));
  exports.add({{"outcome", "dropped"}}, static_cast<double>(statistics.dropped));
  exposition.counter("otlp_failures", "Attempts to post one that failed.")
      .add({}, static_cast<double>(statistics.failed));
  exposition.counter("otlp_rejected_points", "Data points that the collector has not taken of exports that it took.")
      .add({}, static_cast<double>(statistics.rejected_points));
  exposition.gauge("otlp_waiting", "Exports that wait to be posted.").add({}, static_cast<double>(statistics.waiting));
}

}  // namespace lowgear::metrics
