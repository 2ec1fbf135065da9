#include "agent/process/power_share_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/http/client/client.h"
#include "base/http/message/error.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::agent {
namespace {

constexpr std::chrono::milliseconds kLook{50};
/// How often a limit that is not as it should be is set.
constexpr std::chrono::milliseconds kSet{250};
/// How often the server is asked while limits are not set yet, or it does not answer.
constexpr std::chrono::milliseconds kAsk{500};
/// How long the server may wait with its answer for a share that changes. With the patience, less than a share is valid
/// for: a server that hangs is asked again before.
constexpr std::chrono::milliseconds kWait{1'000};
constexpr std::chrono::milliseconds kPatience{2'000};
/// Drivers round limits by less.
constexpr double kLimitToleranceW = 1;

/// Throws InputError when a file cannot be used.
http::ClientOptions client_options(const PowerShareOptions& options) {
  http::ClientOptions client;
  client.tls = http::tls_files_from_environment(process_environment(), options.ca_file);
  return client;
}

double clamped(double watts, const gpu::PowerLimits& limits) { return std::clamp(watts, limits.min_w, limits.max_w); }

}  // namespace

void check_power_share(const PowerShareOptions& options) {
  (void)http::token_headers(options.token_file);
  const http::Client client(options.server, client_options(options));
}

class PowerShareRequests {
 public:
  /// With the body of the response, or a problem.
  using Done = std::function<void(const std::string& body, const std::string& problem)>;

  PowerShareRequests(boost::asio::io_context& io, const PowerShareOptions& options)
      : gate_(std::make_shared<LoopGate>(io)),
        token_file_(options.token_file),
        target_(fmt::format("/v1/nodes/{}/power?wait_s=", options.host)),
        client_(options.server, client_options(options)),
        thread_([this] { run(); }) {}
  ~PowerShareRequests() {
    gate_->close();
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    client_.cancel();
    asked_.notify_all();
    thread_.join();
  }
  PowerShareRequests(const PowerShareRequests&) = delete;
  PowerShareRequests& operator=(const PowerShareRequests&) = delete;

  /// The server answers at once where a share has changed, else within `wait`.
  void send(std::string body, std::chrono::milliseconds wait, Done done) {
    {
      const std::lock_guard lock(mutex_);
      next_ = {std::move(body), wait, std::move(done)};
    }
    asked_.notify_all();
  }

 private:
  struct Request {
    std::string body;
    std::chrono::milliseconds wait{};
    Done done;
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      asked_.wait(lock, [this] { return is_over_ || next_; });
      if (is_over_) return;
      const Request next = *std::exchange(next_, std::nullopt);
      lock.unlock();
      std::string answer;
      std::string problem;
      try {
        answer = ask(next);
      } catch (const std::exception& error) {
        problem = error.what();
      }
      gate_->post([done = next.done, answer, problem] { done(answer, problem); });
      lock.lock();
    }
  }

  /// The token is read each time: it may be replaced.
  std::string ask(const Request& next) {
    const http::Client::HeaderList headers = http::token_headers(token_file_);
    const std::string target = target_ + fmt::format("{}", std::chrono::duration<double>(next.wait).count());
    http::ReplyText reply = client_.request("POST", target, next.body, headers, kPatience + next.wait);
    if (reply.status == 200) return std::move(reply.body);
    throw Error(fmt::format("{} refuses {}: {}", client_.endpoint().text(), target,
                            http::refusal_text(reply.status, reply.body)));
  }

  std::shared_ptr<LoopGate> gate_;
  std::filesystem::path token_file_;
  std::string target_;
  http::Client client_;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::optional<Request> next_;  // under mutex_
  bool is_over_ = false;         // under mutex_
  std::thread thread_;
};

PowerShareKeeper::PowerShareKeeper(boost::asio::io_context& io, Agent& agent, PowerShareOptions options,
                                   std::function<void(std::string_view)> warn)
    : timer_(io),
      agent_(agent),
      options_(std::move(options)),
      warn_(std::move(warn)),
      requests_(std::make_unique<PowerShareRequests>(io, options_)) {
  if (const auto exposure = http::token_exposure(options_.token_file)) warn_(*exposure);
  look();
}

PowerShareKeeper::~PowerShareKeeper() = default;

void PowerShareKeeper::look() {
  const Clock::time_point now = Clock::now();
  if (now >= valid_until_ && !shares_w_.empty()) {
    shares_w_.clear();
    set_ = {};
  }
  if (now - set_ >= kSet) hold();
  // The server divides budgets by the limits in force: report new ones at once.
  if (!is_asking_ && (now - asked_ >= kAsk || (is_renewed_ && is_held()))) ask();
  timer_.expires_after(kLook);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) look();
  });
}

/// By UUID, the limits that are to be set: those that are not so.
std::map<std::string, double> PowerShareKeeper::unset_limits_w() const {
  std::map<std::string, double> unset_w;
  for (const GpuStatus& gpu : agent_.gpus()) {
    if (!gpu.controlled || !gpu.power_limits || !gpu.healthy) continue;
    const auto share = shares_w_.find(gpu.identity.uuid);
    const double wanted_w = clamped(share == shares_w_.end() ? options_.safe_w : share->second, *gpu.power_limits);
    if (std::abs(gpu.power_limits->current_w - wanted_w) >= kLimitToleranceW) unset_w[gpu.identity.uuid] = wanted_w;
  }
  return unset_w;
}

/// A lease that has ended leaves the safe limit.
void PowerShareKeeper::hold() {
  set_ = Clock::now();
  for (const auto& [uuid, watts] : unset_limits_w()) agent_.limit_power(uuid, watts);
}

void PowerShareKeeper::ask() {
  protocol::NodePower node{.safe_w = options_.safe_w, .gpus = {}};
  for (const GpuStatus& gpu : agent_.gpus()) {
    if (!gpu.controlled || !gpu.power_limits) continue;
    node.gpus.push_back({.uuid = gpu.identity.uuid,
                         .limit_w = gpu.power_limits->current_w,
                         .least_w = gpu.power_limits->min_w,
                         .most_w = gpu.power_limits->max_w});
  }
  asked_ = Clock::now();
  if (node.gpus.empty()) return;  // settings are not read yet
  is_asking_ = true;
  is_renewed_ = false;
  const bool may_wait = !shares_w_.empty() && is_held();
  requests_->send(to_json(node).dump(), may_wait ? kWait : std::chrono::milliseconds::zero(),
                  [this, asked = asked_](const std::string& answer, const std::string& problem) {
                    is_asking_ = false;
                    if (problem.empty()) return take(answer, asked);
                    report(problem);
                  });
}

void PowerShareKeeper::take(const std::string& answer, Clock::time_point asked) {
  try {
    const Json document = parse_json(answer, options_.server.text());
    const protocol::NodeShares shares = protocol::read_node_shares(JsonView(document, options_.server.text()));
    shares_w_.clear();
    for (const protocol::PowerShare& share : shares.shares) shares_w_[share.uuid] = share.watts;
    valid_until_ = asked + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(shares.valid_s));
    hold();
    is_renewed_ = true;
    report({});
  } catch (const Error& error) {
    report(error.what());
  }
}

void PowerShareKeeper::report(const std::string& problem) {
  if (problem.empty() == problem_.empty()) return;
  problem_ = problem;
  warn_(problem.empty() ? std::string("the server gives this node its share of power again")
                        : fmt::format("no share of power from the server ({}): each GPU is limited to {} W", problem,
                                      options_.safe_w));
}

}  // namespace lowgear::agent
