/// `lowgear serve` with a cluster of 8 GPUs a node, as a process of its own, over loopback TCP with a token, its state
/// on the disk of the temporary folder: `fleet_study [nodes] [seconds] [microbatches]`, 1,000 nodes, 20 s and 8 when
/// they are not given. All ranks are in this process, in one thread. Each does what ranks do: it registers the job and
/// itself, waits for plans on one connection and reports every iteration, of a second, on another one. Jobs are on 1 to
/// 32 neighbouring nodes. The cluster, every row of 20 nodes and every node have a power budget; that of the cluster
/// falls and rises.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "measurement.h"
#include "served.h"
#include "server/load_connections.h"
#include "server/load_job.h"

namespace lowgear::bench {
namespace {

using Clock = server::LoadConnections::Clock;

constexpr double kPatienceS = 900;
constexpr int kGpusPerNode = 8;
constexpr int kNodesPerRow = 20;
constexpr int kStages = 8;
constexpr double kIterationS = 1;
constexpr std::string_view kModel = "gpt3-175b";
/// What the demonstration's stages draw at most, as they report it.
constexpr double kGpuW = 400;

/// Wall clock, and the server's processor time, of a part of the study.
struct Cost {
  double wall_s = 0;
  double cpu_s = 0;
  [[nodiscard]] double cores() const { return cpu_s / wall_s; }
};

/// All jobs of the cluster.
class Fleet {
 public:
  Fleet(server::Process& server, int nodes, int microbatches)
      : server_(server), connections_(server.socket(), server.port()), admin_(server.socket(), server.port()) {
    (void)admin_.add(1);
    std::mt19937 random(1);
    for (int first = 0; first < nodes;) {
      const int spread = std::min(1 << random() % 6, nodes - first);
      add({.run = fmt::format("job-{}", first),
           .model = std::string(kModel),
           .pp = kStages,
           .dp = spread * kGpusPerNode / kStages,
           .microbatches = microbatches,
           .iteration_s = kIterationS,
           .first_node = first});
      first += spread;
    }
  }

  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] std::size_t ranks() const { return job_of_connection_.size() / 2; }

  /// Lets all ranks do what they do for `seconds_s`, or until `done`.
  Cost work(
      double seconds_s, const std::function<bool()>& done = [] { return false; }) {
    const Clock::time_point begin = Clock::now();
    const double cpu_s = server_.cpu_time_s();
    while (seconds_since(begin) < seconds_s && !done()) {
      for (const auto& job : jobs_) job->work();
      connections_.receive(std::chrono::milliseconds(2), [&](std::size_t from, const server::LoadAnswer& answer) {
        if (from % 2 == 0 && answer.status == 200) note_plan(from, answer.body);
        (void)jobs_[job_of_connection_[from]]->answered(from, answer);
      });
    }
    return {seconds_since(begin), server_.cpu_time_s() - cpu_s};
  }

  Cost work_until(std::string_view what, const std::function<bool(const server::LoadJob&)>& done) {
    const Cost cost =
        work(kPatienceS, [&] { return std::ranges::all_of(jobs_, [&](const auto& j) { return done(*j); }); });
    if (cost.wall_s >= kPatienceS) throw Error(fmt::format("{}: not after {} s", what, kPatienceS));
    return cost;
  }

  /// PUTs a budget. Times of plans count from here on.
  void put_budget(const std::string& name, const std::string& body) {
    changed_ = Clock::now();
    first_plan_s_.clear();
    last_plan_s_.clear();
    const auto answer = admin_.ask(0, "PUT", "/v1/budgets/" + name, body);
    if (answer.status != 200) throw Error(fmt::format("budget {}: {} {}", name, answer.status, answer.body));
  }
  [[nodiscard]] std::string get(const std::string& target) { return admin_.ask(0, "GET", target).body; }

  /// By ranks that were given a plan since the last change of a budget: the time of the first and of the last one.
  [[nodiscard]] std::vector<double> first_plans_s() const { return times(first_plan_s_); }
  [[nodiscard]] std::vector<double> last_plans_s() const { return times(last_plan_s_); }

 private:
  void add(server::LoadJobShape shape) {
    const auto ranks = static_cast<std::size_t>(shape.world_size());
    jobs_.push_back(std::make_unique<server::LoadJob>(connections_, std::move(shape)));
    job_of_connection_.insert(job_of_connection_.end(), 2 * ranks, jobs_.size() - 1);
  }

  void note_plan(std::size_t connection, std::string_view body) {
    const std::string_view head = body.substr(0, body.find("\"plan\":"));
    if (head.find("\"train\"") == std::string_view::npos) return;
    const double at_s = seconds_since(changed_);
    first_plan_s_.try_emplace(connection, at_s);
    last_plan_s_[connection] = at_s;
  }

  static std::vector<double> times(const std::map<std::size_t, double>& by_connection) {
    std::vector<double> values;
    for (const auto& [connection, at_s] : by_connection) values.push_back(at_s);
    return values;
  }

  server::Process& server_;
  server::LoadConnections connections_;
  server::LoadConnections admin_;
  std::vector<std::unique_ptr<server::LoadJob>> jobs_;
  std::vector<std::size_t> job_of_connection_;
  Clock::time_point changed_ = Clock::now();
  std::map<std::size_t, double> first_plan_s_;  ///< by connection
  std::map<std::size_t, double> last_plan_s_;
};

/// The small job that learns the profile. Its units take as long as those of the cluster's jobs.
server::LoadJobShape small_job(int microbatches) {
  return {.run = "profiles",
          .model = std::string(kModel),
          .pp = kStages,
          .dp = 1,
          .microbatches = microbatches,
          .iteration_s = kIterationS};
}

void print_cost(std::string_view what, const Cost& cost) {
  fmt::print("{}: {:.2f} s, server {:.2f} s of CPU ({:.2f} cores); load average {:.1f}\n", what, cost.wall_s,
             cost.cpu_s, cost.cores(), load_average());
  std::fflush(stdout);
}

std::string spread_ms(const std::vector<double>& values_s) {
  return fmt::format("median {:.0f}, p99 {:.0f}, largest {:.0f} ms", quantile(values_s, 0.5) * 1e3,
                     quantile(values_s, 0.99) * 1e3, quantile(values_s, 1) * 1e3);
}

void study_change(Fleet& fleet, std::string_view what, double watts) {
  fleet.put_budget("cluster", fmt::format(R"({{"watts":{}}})", watts));
  const Cost cost = fleet.work(10);
  const std::vector<double> first_s = fleet.first_plans_s();
  if (first_s.empty()) throw Error(fmt::format("{}: no rank was given a plan", what));
  fmt::print("{} to {:.0f} kW: {} of {} ranks are given a new plan, the first one after {}; the last one after {}\n",
             what, watts / 1e3, first_s.size(), fleet.ranks(), spread_ms(first_s), spread_ms(fleet.last_plans_s()));
  print_cost(fmt::format("{}, 10 s", what), cost);
  const double p99_s = quantile(first_s, 0.99);
  print_target(fmt::format("{} to new plans, p99 of {} ranks", what, first_s.size()), fmt::format("{:.2f} s", p99_s),
               "≤ 1 s", p99_s <= 1);
}

double planned_w(const std::string& budgets) {
  const std::size_t cluster = budgets.find(R"("name":"cluster")");
  return static_cast<double>(server::member_integer(std::string_view(budgets).substr(cluster), "planned_w"));
}

void study(int nodes, double steady_s, int microbatches) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  Served served;
  learn_profile(served.process(), small_job(microbatches), kPatienceS);
  Fleet fleet(served.process(), nodes, microbatches);
  fmt::print("{} nodes, {} ranks in {} jobs, {} microbatches\n", nodes, fleet.ranks(), fleet.jobs(), microbatches);
  const Cost registration =
      fleet.work_until("registration", [](const server::LoadJob& job) { return job.registered(); });
  print_cost("registration", registration);
  print_target(fmt::format("registration of {} ranks", fleet.ranks()), fmt::format("{:.2f} s", registration.wall_s),
               "≤ 10 s", registration.wall_s <= 10);
  print_cost("baseline and first plans",
             fleet.work_until("plans", [](const server::LoadJob& job) { return job.trains(); }));
  (void)fleet.work(5);
  const Cost free = fleet.work(steady_s);
  print_cost("reports at 1 Hz, no budget", free);
  const Clock::time_point begin = Clock::now();
  const double cpu_s = served.process().cpu_time_s();
  fleet.put_budget("cluster", fmt::format(R"({{"watts":{}}})", 2 * kGpuW * kGpusPerNode * nodes));
  for (int row = 0; row * kNodesPerRow < nodes; ++row) {
    std::string hosts;
    for (int node = row * kNodesPerRow; node < std::min(nodes, (row + 1) * kNodesPerRow); ++node) {
      const std::string host = fmt::format("node-{}", node);
      hosts += fmt::format(R"({}"{}")", hosts.empty() ? "" : ",", host);
      fleet.put_budget(host, fmt::format(R"({{"watts":{},"hosts":["{}"]}})", kGpuW * kGpusPerNode, host));
    }
    fleet.put_budget(fmt::format("row-{}", row),
                     fmt::format(R"({{"watts":{},"hosts":[{}]}})", kGpuW * kGpusPerNode * kNodesPerRow, hosts));
    (void)fleet.work(0.002);
  }
  print_cost("budgets are put", {seconds_since(begin), served.process().cpu_time_s() - cpu_s});
  (void)fleet.work(5);
  const Cost steady = fleet.work(steady_s);
  print_cost("reports at 1 Hz, budgets of the cluster, rows and nodes", steady);
  print_target(fmt::format("server, {} reports/s, {} budgets", fleet.ranks(), nodes + nodes / kNodesPerRow + 1),
               fmt::format("{:.2f} cores", steady.cores()), "≤ 1 core", steady.cores() <= 1);
  const double full_w = planned_w(fleet.get("/v1/budgets"));
  for (const double share : {0.9, 0.8, 0.95}) {
    study_change(fleet, fmt::format("budget of the cluster {}", share < 0.95 ? "falls" : "rises"), share * full_w);
  }
  fmt::print("peak memory of the server {:.0f} MB\n", served.process().peak_memory_mb());
}

}  // namespace
}  // namespace lowgear::bench

int main(int argc, char** argv) {
  try {
    lowgear::bench::study(argc > 1 ? std::stoi(argv[1]) : 1'000, argc > 2 ? std::stod(argv[2]) : 20,
                          argc > 3 ? std::stoi(argv[3]) : 8);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
