/// `lowgear serve` under the load of large jobs, as a process of its own, over loopback TCP with a token, its state on
/// the disk of the temporary folder: `server_ranks_study [ranks] [fetch] [straggler] [dashboards]`, all of them when
/// none is named. All ranks and people are in this process, in one thread, but for the dashboards, which have another.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "measurement.h"
#include "served.h"
#include "server/load_connections.h"
#include "server/load_job.h"

namespace lowgear::bench {
namespace {

using Clock = server::LoadConnections::Clock;

constexpr double kPatienceS = 120;
constexpr std::string_view kModel = "gpt3-175b";

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

std::string spread_ms(const std::vector<double>& values_s) {
  return fmt::format("median {:.2f}, p99 {:.2f}, largest {:.2f} ms ({})", quantile(values_s, 0.5) * 1e3,
                     quantile(values_s, 0.99) * 1e3, quantile(values_s, 1) * 1e3, values_s.size());
}

/// The small job that learns the profile.
server::LoadJobShape small_job() {
  return {.run = "profiles", .model = std::string(kModel), .pp = 8, .dp = 1, .microbatches = 8};
}

/// The ranks of a large job, each on one connection: all register, wait for the first plan, report ten iterations and
/// wait for the next plan.
class Ranks {
 public:
  struct Times {
    double registered_s = 0;     ///< the last rank
    double baseline_s = 0;       ///< the last rank has the plan for the baseline
    double reported_s = 0;       ///< all reports are acknowledged
    double training_plan_s = 0;  ///< the last rank has the plan for training
  };

  Ranks(server::Process& server, server::LoadJobShape shape, std::size_t reports_per_request)
      : connections_(server.socket(), server.port()),
        shape_(std::move(shape)),
        batch_(reports_per_request),
        ranks_(static_cast<std::size_t>(shape_.world_size())) {
    (void)connections_.add(ranks_.size());
  }

  Times begin() {
    begin_ = Clock::now();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) connections_.send(rank, "POST", "/v1/jobs", body_);
    while (with_training_plan_ < ranks_.size()) {
      if (seconds_since(begin_) > kPatienceS) throw Error("the job takes too long");
      connections_.receive(seconds(0.1),
                           [this](std::size_t rank, const server::LoadAnswer& answer) { next(rank, answer); });
    }
    return times_;
  }

  [[nodiscard]] server::LoadConnections& connections() { return connections_; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] const std::string& job() const { return job_; }
  [[nodiscard]] std::size_t plan_bytes() const { return plan_bytes_; }
  void ask_for_plan(std::size_t rank, std::int64_t after, int wait_s) {
    connections_.send(rank, "GET",
                      fmt::format("/v1/jobs/{}/plan?rank={}&after={}&wait_s={}", job_, rank, after, wait_s), {},
                      ranks_[rank].key);
  }

 private:
  static constexpr int kIterations = 10;
  enum class Stage : unsigned char { job, rank, baseline, reports, training };
  struct Rank {
    Stage stage = Stage::job;
    std::string key;
    int reported = 0;
  };

  void report(std::size_t number) {
    Rank& rank = ranks_[number];
    std::vector<server::LoadReport> reports;
    for (; reports.size() < batch_ && rank.reported < kIterations; ++rank.reported) {
      reports.push_back({.iteration = rank.reported,
                         .plan_version = 1,
                         .time_s = shape_.iteration_s,
                         .compute_s = shape_.iteration_s * 0.5});
    }
    connections_.send(number, "POST", fmt::format("/v1/jobs/{}/reports", job_),
                      reports_text(static_cast<int>(number), reports), rank.key);
  }

  void next(std::size_t number, const server::LoadAnswer& answer) {
    if (answer.status != 200 && answer.status != 201) {
      throw Error(fmt::format("rank {} was answered {}: {}", number, answer.status, answer.body));
    }
    Rank& rank = ranks_[number];
    switch (rank.stage) {
      case Stage::job:
        if (job_.empty()) job_ = server::member_text(answer.body, "job");
        rank.stage = Stage::rank;
        return connections_.send(number, "POST", fmt::format("/v1/jobs/{}/ranks", job_),
                                 rank_text(shape_, static_cast<int>(number)));
      case Stage::rank:
        rank.key = server::member_text(answer.body, "rank_key");
        rank.stage = Stage::baseline;
        if (++registered_ == ranks_.size()) times_.registered_s = seconds_since(begin_);
        return ask_for_plan(number, 0, 60);
      case Stage::baseline:
        if (server::member_text(answer.body, "purpose") != "baseline") throw Error("the first plan is no baseline");
        if (++with_baseline_ == ranks_.size()) times_.baseline_s = seconds_since(begin_);
        rank.stage = Stage::reports;
        return report(number);
      case Stage::reports:
        if (rank.reported < kIterations) return report(number);
        if (++reported_ == ranks_.size()) times_.reported_s = seconds_since(begin_);
        rank.stage = Stage::training;
        return ask_for_plan(number, 1, 60);
      case Stage::training:
        if (server::member_text(answer.body, "purpose") != "train") throw Error("the second plan is not for training");
        plan_bytes_ = answer.body.size();
        if (++with_training_plan_ == ranks_.size()) times_.training_plan_s = seconds_since(begin_);
    }
  }

  server::LoadConnections connections_;
  server::LoadJobShape shape_;
  std::size_t batch_;
  std::string body_ = job_text(shape_);
  std::vector<Rank> ranks_;
  std::string job_;
  Clock::time_point begin_;
  Times times_;
  std::size_t registered_ = 0;
  std::size_t with_baseline_ = 0;
  std::size_t reported_ = 0;
  std::size_t with_training_plan_ = 0;
  std::size_t plan_bytes_ = 0;
};

server::LoadJobShape large_job(std::string run, int dp) {
  return {
      .run = std::move(run), .model = std::string(kModel), .pp = 8, .dp = dp, .microbatches = 96, .iteration_s = 0.5};
}

/// Plan fetches on a fixed schedule; an answer's time counts from when its request was due.
void study_fetches(Ranks& ranks) {
  constexpr int kRequestsPerS = 1'000;
  constexpr int kRequests = 10 * kRequestsPerS;
  std::vector<Clock::time_point> due(ranks.size());
  std::vector<double> latencies_s;
  std::vector<std::size_t> idle;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) idle.push_back(rank);
  std::shuffle(idle.begin(), idle.end(), std::mt19937_64(7));
  std::deque<std::size_t> next(idle.begin(), idle.end());
  const Clock::time_point begin = Clock::now();
  for (int sent = 0; latencies_s.size() < kRequests;) {
    const Clock::time_point now = Clock::now();
    for (; sent < kRequests && !next.empty(); ++sent) {
      const Clock::time_point at = begin + seconds(static_cast<double>(sent) / kRequestsPerS);
      if (at > now) break;
      due[next.front()] = at;
      ranks.ask_for_plan(next.front(), 0, 0);
      next.pop_front();
    }
    const Clock::time_point wake = begin + seconds(static_cast<double>(sent) / kRequestsPerS);
    ranks.connections().receive(wake - Clock::now(), [&](std::size_t rank, const server::LoadAnswer& answer) {
      if (answer.status != 200) throw Error(fmt::format("a fetch was answered {}", answer.status));
      latencies_s.push_back(seconds_since(due[rank]));
      next.push_back(rank);
    });
  }
  fmt::print("plan fetch of {} bytes at {}/s beside {} connections: {}; load average {:.1f}\n", ranks.plan_bytes(),
             kRequestsPerS, ranks.size(), spread_ms(latencies_s), load_average());
  const double p99_ms = quantile(latencies_s, 0.99) * 1e3;
  print_target("plan fetch at 1,000 requests/s, p99", fmt::format("{:.2f} ms", p99_ms), "≤ 10 ms", p99_ms <= 10);
}

void study_ranks(bool and_fetches) {
  for (const std::size_t reports_per_request : {std::size_t{10}, std::size_t{1}}) {
    Served served;
    learn_profile(served.process(), small_job(), kPatienceS);
    const double cpu_s = served.process().cpu_time_s();
    Ranks ranks(served.process(), large_job("ranks", 1'250), reports_per_request);
    const Ranks::Times times = ranks.begin();
    const double memory_mb = served.process().peak_memory_mb();
    fmt::print(
        "{} ranks, {} reports a request: registered {:.2f} s, all have the baseline's plan {:.2f} s, all reports "
        "acknowledged {:.2f} s, all have the plan for training {:.2f} s; server {:.2f} s of CPU, {:.0f} MB; load "
        "average {:.1f}\n",
        ranks.size(), reports_per_request, times.registered_s, times.baseline_s, times.reported_s,
        times.training_plan_s, served.process().cpu_time_s() - cpu_s, memory_mb, load_average());
    const std::string what =
        fmt::format("10,000 ranks register, fetch the plan, report 10 iterations ({} a request)", reports_per_request);
    print_target(what, fmt::format("{:.2f} s", times.reported_s), "≤ 5 s", times.reported_s <= 5);
    print_target(what, fmt::format("{:.0f} MB", memory_mb), "≤ 300 MB", memory_mb <= 300);
    if (and_fetches && reports_per_request == 1) study_fetches(ranks);
  }
}

/// Ranks that wait for plans, and what they get when a straggler comes or goes.
class StragglerEvents {
 public:
  StragglerEvents(server::Process& server, Ranks& ranks)
      : ranks_(ranks), admin_(server.socket(), server.port()), versions_(ranks.size(), 2) {
    (void)admin_.add(1);
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_.ask_for_plan(rank, 2, 60);
  }

  void send(int rank, double factor) {
    const std::int64_t before = *std::ranges::max_element(versions_);
    const Clock::time_point begin = Clock::now();
    with_new_ = with_final_ = 0;
    admin_.send(0, "POST", fmt::format("/v1/jobs/{}/straggler", ranks_.job()),
                fmt::format(R"({{"rank":{},"factor":{}}})", rank, factor));
    double first_s = 0;
    double all_s = 0;
    double final_s = 0;
    while (seconds_since(begin) < 1.5 || with_new_ < ranks_.size()) {
      if (seconds_since(begin) > kPatienceS) throw Error("no new plan for the straggler");
      receive(before, begin);
      if (with_new_ > 0 && first_s == 0) first_s = latest_s_;
      if (with_new_ == ranks_.size() && all_s == 0) all_s = latest_s_;
      if (with_final_ == ranks_.size()) {
        final_s = latest_s_;
        break;
      }
    }
    first_s_.push_back(first_s);
    all_s_.push_back(all_s);
    if (final_s > 0) final_s_.push_back(final_s);
    // The answer to the event itself.
    admin_.receive(seconds(0.01), [](std::size_t, const server::LoadAnswer& answer) {
      if (answer.status != 200) throw Error(fmt::format("the event was answered {}", answer.status));
    });
  }

  [[nodiscard]] const std::vector<double>& first_s() const { return first_s_; }
  [[nodiscard]] const std::vector<double>& all_s() const { return all_s_; }
  [[nodiscard]] const std::vector<double>& final_s() const { return final_s_; }

 private:
  void receive(std::int64_t before, Clock::time_point begin) {
    ranks_.connections().receive(seconds(0.05), [&](std::size_t rank, const server::LoadAnswer& answer) {
      if (answer.status == 204) return ranks_.ask_for_plan(rank, versions_[rank], 60);
      const std::int64_t version = server::member_integer(answer.body, "version");
      const bool is_first_new = versions_[rank] == before;
      versions_[rank] = version;
      latest_s_ = seconds_since(begin);
      if (is_first_new) ++with_new_;
      // Its version, purpose and reason come before the ops.
      const std::string_view head = answer.body.substr(0, answer.body.find("\"plan\":"));
      if (head.find("a better one follows") == std::string_view::npos) ++with_final_;
      ranks_.ask_for_plan(rank, version, 60);
    });
  }

  Ranks& ranks_;
  server::LoadConnections admin_;
  std::vector<std::int64_t> versions_;
  std::size_t with_new_ = 0;
  std::size_t with_final_ = 0;
  double latest_s_ = 0;
  std::vector<double> first_s_;
  std::vector<double> all_s_;
  std::vector<double> final_s_;
};

void study_stragglers() {
  Served served;
  learn_profile(served.process(), small_job(), kPatienceS);
  Ranks ranks(served.process(), large_job("stragglers", 128), 10);
  (void)ranks.begin();
  StragglerEvents events(served.process(), ranks);
  std::mt19937_64 random(7);
  constexpr int kStragglers = 20;
  for (int i = 0; i < kStragglers; ++i) {
    const auto rank = static_cast<int>(random() % ranks.size());
    events.send(rank, 1.05 + static_cast<double>(random() % 100) / 200);
    events.send(rank, 1);
  }
  fmt::print(
      "{} events (a straggler comes, and goes), {} ranks: first rank has a new plan {}; all ranks {}; all ranks "
      "have the final plan {}; load average {:.1f}\n",
      2 * kStragglers, ranks.size(), spread_ms(events.first_s()), spread_ms(events.all_s()),
      spread_ms(events.final_s()), load_average());
  const double p99_ms = quantile(events.all_s(), 0.99) * 1e3;
  print_target("straggler event to the new plan at all of 1,024 ranks, p99", fmt::format("{:.1f} ms", p99_ms),
               "≤ 50 ms", p99_ms <= 50);
}

/// Watches with so many dashboards until it is killed; says how many events it has seen once a second, in a file.
class Dashboards {
 public:
  Dashboards(server::Process& server, std::size_t count) {
    process_ = server::fork_with_parent();
    if (process_ > 0) return;
    try {
      server::LoadConnections connections(server.socket(), server.port());
      (void)connections.add(count);
      for (std::size_t i = 0; i < count; ++i) connections.send(i, "GET", "/v1/events");
      const Clock::time_point begin = Clock::now();
      while (seconds_since(begin) < kSeconds) {
        connections.receive(seconds(0.1), [](std::size_t, const server::LoadAnswer& answer) {
          if (answer.status != 200) ::_exit(3);
        });
      }
      fmt::print("{} dashboards were sent {:.0f} events/s\n", count,
                 static_cast<double>(connections.events()) / kSeconds);
      std::fflush(stdout);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ::_exit(2);
    }
    ::_exit(0);
  }
  ~Dashboards() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    if (status != 0) fmt::print(stderr, "a dashboard lost its stream ({})\n", status);
  }
  Dashboards(const Dashboards&) = delete;
  Dashboards& operator=(const Dashboards&) = delete;

  static constexpr double kSeconds = 14;

 private:
  pid_t process_ = -1;
};

/// What people ask, on a fixed schedule, and reports of a rank; by what is asked.
class SteadyRequests {
 public:
  explicit SteadyRequests(server::Process& server) : connections_(server.socket(), server.port()) {
    (void)connections_.add(kConnections);
    const server::LoadJobShape shape{.run = "one", .model = "one", .pp = 1, .dp = 1, .microbatches = 1};
    const std::string job(server::member_text(connections_.ask(0, "POST", "/v1/jobs", job_text(shape)).body, "job"));
    const auto rank = connections_.ask(0, "POST", fmt::format("/v1/jobs/{}/ranks", job), rank_text(shape, 0));
    key_ = server::member_text(rank.body, "rank_key");
    kinds_ = {{"GET /healthz", "/healthz", {}},
              {"GET /v1/jobs", "/v1/jobs", {}},
              {"GET a job's 100 last iterations", fmt::format("/v1/jobs/{}/iterations?limit=100", job), {}},
              {"GET a plan", fmt::format("/v1/jobs/{}/plan?rank=0", job), {}},
              {"POST a report", fmt::format("/v1/jobs/{}/reports", job), {}}};
    for (std::size_t i = 0; i < kConnections; ++i) idle_.push_back(i);
  }

  /// Sends what is due and takes what has come.
  void work(Clock::time_point begin) {
    while (!idle_.empty()) {
      const Clock::time_point at = begin + seconds(static_cast<double>(sent_) / kRequestsPerS);
      if (at > Clock::now()) break;
      send(idle_.front(), at);
      idle_.pop_front();
    }
    connections_.receive(Clock::duration::zero(), [this](std::size_t from, const server::LoadAnswer& answer) {
      if (answer.status != 200) throw Error(fmt::format("a request was answered {}: {}", answer.status, answer.body));
      kinds_[under_way_[from].kind].latencies_s.push_back(seconds_since(under_way_[from].due));
      idle_.push_back(from);
    });
  }

  /// Prints the figures of each; returns all latencies of the ones that need no disk.
  std::vector<double> print() const {
    std::vector<double> all_s;
    for (const Kind& kind : kinds_) {
      fmt::print("  {}: {}\n", kind.name, spread_ms(kind.latencies_s));
      if (&kind != &kinds_.back()) all_s.insert(all_s.end(), kind.latencies_s.begin(), kind.latencies_s.end());
    }
    return all_s;
  }
  [[nodiscard]] const std::vector<double>& reports_s() const { return kinds_.back().latencies_s; }

 private:
  static constexpr std::size_t kConnections = 64;
  static constexpr int kRequestsPerS = 250;
  struct Kind {
    std::string name;
    std::string target;
    std::vector<double> latencies_s;
  };
  struct UnderWay {
    std::size_t kind = 0;
    Clock::time_point due;
  };

  void send(std::size_t connection, Clock::time_point due) {
    const std::size_t kind = sent_++ % kinds_.size();
    under_way_[connection] = {kind, due};
    if (kind + 1 < kinds_.size()) return connections_.send(connection, "GET", kinds_[kind].target, {}, key_);
    connections_.send(connection, "POST", kinds_[kind].target,
                      server::reports_text(0, {{.iteration = iteration_++, .time_s = 0.02, .compute_s = 0.01}}), key_);
  }

  server::LoadConnections connections_;
  std::string key_;
  std::vector<Kind> kinds_;
  std::vector<UnderWay> under_way_ = std::vector<UnderWay>(kConnections);
  std::deque<std::size_t> idle_;
  std::size_t sent_ = 0;
  std::int64_t iteration_ = 0;
};

void study_dashboards() {
  constexpr std::size_t kDashboards = 200;
  Served served;
  learn_profile(served.process(), small_job(), kPatienceS);
  SteadyRequests requests(served.process());
  server::LoadConnections connections(served.process().socket(), served.process().port());
  server::LoadJob job(
      connections,
      {.run = "watched", .model = std::string(kModel), .pp = 8, .dp = 8, .microbatches = 16, .iteration_s = 0.05});
  const Dashboards dashboards(served.process(), kDashboards);
  const Clock::time_point begin = Clock::now();
  const Clock::time_point first = begin + std::chrono::seconds(2);
  while (seconds_since(begin) < Dashboards::kSeconds - 1) {
    job.work();
    connections.receive(Clock::duration::zero(),
                        [&](std::size_t from, const server::LoadAnswer& answer) { (void)job.answered(from, answer); });
    if (Clock::now() > first) requests.work(first);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  fmt::print("beside {} dashboards and a job of {} ranks at 20 iterations/s; load average {:.1f}\n", kDashboards,
             job.shape().world_size(), load_average());
  const double p99_ms = quantile(requests.print(), 0.99) * 1e3;
  const double reports_ms = quantile(requests.reports_s(), 0.99) * 1e3;
  print_target("200 dashboards open on SSE: other requests, p99", fmt::format("{:.2f} ms", p99_ms), "≤ 5 ms",
               p99_ms <= 5);
  print_target("the same, requests that wait for the disk", fmt::format("{:.2f} ms", reports_ms), "≤ 5 ms",
               reports_ms <= 5);
}

void study(const std::set<std::string_view>& wanted) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  const auto is_wanted = [&](std::string_view part) { return wanted.empty() || wanted.contains(part); };
  if (is_wanted("ranks") || is_wanted("fetch")) study_ranks(is_wanted("fetch"));
  if (is_wanted("straggler")) study_stragglers();
  if (is_wanted("dashboards")) study_dashboards();
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    lowgear::bench::study({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
