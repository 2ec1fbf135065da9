/// Kills `lowgear serve` at random moments while jobs register, try clocks out, train, report and have stragglers;
/// looks at what is on the disk, starts it again, and in the end lets every job come to its end. `server_kill_test
/// ROUNDS SEED`; the same as bench's server_kill_study.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/eventually.h"
#include "base/core/formats/json.h"
#include "base/core/kill_program.h"
#include "server/job/iteration_log.h"
#include "server/load_connections.h"
#include "server/load_job.h"
#include "server/store/sqlite_store.h"

namespace lowgear::server {
namespace {

using Clock = LoadConnections::Clock;

constexpr double kIterationS = 0.01;
constexpr std::size_t kJobsAtOnce = 3;

Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct Figures {
  int rounds = 0;
  int killed_at_start = 0;
  std::int64_t reports = 0;  ///< acknowledged
  std::size_t cells = 0;     ///< requests with cells, acknowledged
  std::int64_t decisions = 0;
  int jobs = 0;  ///< that came to their end
  double slowest_start_s = 0;
};

/// A job on its way: it trains by a plan, gets a straggler, trains by a later plan, and ends.
class Life {
 public:
  Life(LoadConnections& connections, LoadJobShape shape)
      : connections_(connections), admin_(connections.add(1)), job_(connections, std::move(shape)) {}

  void work() {
    job_.work();
    if (phase_ == Phase::planned && job_.trains()) {
      version_before_ = job_.newest_version();
      phase_ = Phase::straggler;
    }
    if (phase_ == Phase::straggler && !connections_.busy(admin_) && Clock::now() >= not_before_) {
      connections_.send(admin_, "POST", fmt::format("/v1/jobs/{}/straggler", job_.id()), R"({"rank":0,"factor":1.4})");
    }
    if (phase_ == Phase::planned_again && job_.trains(version_before_ + 1)) {
      job_.end();
      phase_ = Phase::ending;
    }
  }

  [[nodiscard]] bool answered(std::size_t connection, const LoadAnswer& answer) {
    if (connection != admin_) return job_.answered(connection, answer);
    if (answer.status == 200) {
      const std::int64_t id = member_integer(answer.body, "decision");
      if (id <= last_decision_) throw Error(fmt::format("decision {} came after {}", id, last_decision_));
      last_decision_ = id;
      phase_ = Phase::planned_again;
    } else if (answer.status == 0 || answer.status == 503) {
      not_before_ = Clock::now() + std::chrono::milliseconds(5);
    } else {
      throw Error(fmt::format("the straggler was answered {}: {}", answer.status, answer.body));
    }
    return true;
  }

  /// What the store has must be all that was acknowledged.
  void check(const StoreContents& contents) {
    if (job_.id().empty() || phase_ == Phase::ending) return;  // a finished job's reports need not be loaded
    const auto of_job = [this](const auto& row) { return row.job == job_.id(); };
    std::vector<std::set<std::int64_t>> stored(static_cast<std::size_t>(job_.shape().world_size()));
    for (const StoredReports& row : contents.reports) {
      if (!of_job(row)) continue;
      const Json document = parse_json(row.document, "reports");
      for (const protocol::IterationReport& report :
           protocol::read_rank_reports(JsonView(document, "reports")).reports) {
        stored.at(static_cast<std::size_t>(row.rank)).insert(report.iteration);
      }
    }
    for (int rank = 0; rank < job_.shape().world_size(); ++rank) {
      for (std::int64_t i = 0; i <= job_.acknowledged(rank); ++i) {
        if (stored[static_cast<std::size_t>(rank)].contains(i)) continue;
        throw Error(fmt::format("iteration {} of rank {} of {} was acknowledged and is lost", i, rank, job_.id()));
      }
      const bool is_stored =
          std::ranges::any_of(contents.ranks, [&](const StoredRank& row) { return of_job(row) && row.rank == rank; });
      if (!job_.rank_key(rank).empty() && !is_stored) throw Error(fmt::format("rank {} is lost", rank));
    }
    if (static_cast<std::size_t>(std::ranges::count_if(contents.cells, of_job)) < job_.cells_acknowledged()) {
      throw Error("cells are lost");
    }
    std::int64_t decisions = 0;
    for (const StoredDecision& row : contents.decisions) {
      if (of_job(row) && row.id != ++decisions) throw Error(fmt::format("decision {} is number {}", row.id, decisions));
    }
    if (decisions < std::max(last_decision_, stored_decisions_)) throw Error("decisions are lost");
    stored_decisions_ = decisions;
  }

  /// What a server that has started again says of each rank.
  void check_served(LoadConnections& connections) const {
    if (job_.id().empty() || !job_.registered() || phase_ == Phase::ending) return;
    const auto answer = connections.ask(0, "GET", fmt::format("/v1/jobs/{}", job_.id()));
    if (answer.status != 200) throw Error(fmt::format("{} is answered {}", job_.id(), answer.status));
    const Json document = Json::parse(answer.body);
    for (const Json& rank : document.at("ranks")) {
      const std::int64_t last =
          rank.at("last_iteration").is_null() ? -1 : rank.at("last_iteration").get<std::int64_t>();
      const int number = rank.at("rank").get<int>();
      if (last >= job_.acknowledged(number)) continue;
      throw Error(fmt::format("rank {} has reported {} and not only {}", number, job_.acknowledged(number), last));
    }
  }

  [[nodiscard]] bool over() const { return job_.finished(); }
  [[nodiscard]] std::string state(LoadConnections& connections) const {
    const std::string path = fmt::format("/v1/jobs/{}", job_.id());
    return fmt::format("ranks have version {}; {}; {}", job_.newest_version(), connections.ask(0, "GET", path).body,
                       connections.ask(0, "GET", path + "/decisions").body);
  }
  void count(Figures& figures) const {
    for (int rank = 0; rank < job_.shape().world_size(); ++rank) figures.reports += job_.acknowledged(rank) + 1;
    figures.cells += job_.cells_acknowledged();
    figures.decisions += stored_decisions_;
    ++figures.jobs;
  }

 private:
  enum class Phase : unsigned char { planned, straggler, planned_again, ending };

  LoadConnections& connections_;
  std::size_t admin_;
  LoadJob job_;
  Phase phase_ = Phase::planned;
  int version_before_ = 0;
  std::int64_t last_decision_ = 0;
  std::int64_t stored_decisions_ = 0;
  Clock::time_point not_before_;
};

class Rounds {
 public:
  Rounds(const std::filesystem::path& folder, std::uint64_t seed)
      : server_(LOWGEAR_BINARY, folder), connections_(server_.socket(), 0), random_(seed) {}

  Figures run(int rounds) {
    while (figures_.rounds < rounds) {
      begin_jobs();
      run_round();
      ++figures_.rounds;
    }
    start();
    const Clock::time_point begin = Clock::now();
    while (!lives_.empty()) {
      if (Clock::now() - begin > kPatience) {
        LoadConnections person(server_.socket(), 0);
        (void)person.add(1);
        throw Error(fmt::format("stuck: {}", lives_.front()->state(person)));
      }
      train(0.05);
    }
    server_.stop();
    return figures_;
  }

 private:
  double uniform(double high) { return std::uniform_real_distribution<double>(0, high)(random_); }

  void begin_jobs() {
    static constexpr std::array<std::pair<int, int>, 4> kSizes{{{2, 2}, {4, 1}, {1, 3}, {2, 1}}};
    while (lives_.size() < kJobsAtOnce) {
      const auto [pp, dp] = kSizes[static_cast<std::size_t>(begun_) % kSizes.size()];
      // Every other round of sizes finds a profile that is known.
      lives_.push_back(std::make_unique<Life>(
          connections_, LoadJobShape{.run = fmt::format("run-{}", begun_),
                                     .model = fmt::format("model-{}", begun_ / (2 * static_cast<int>(kSizes.size()))),
                                     .pp = pp,
                                     .dp = dp,
                                     .microbatches = 4,
                                     .iteration_s = kIterationS}));
      ++begun_;
    }
  }

  void start() {
    const Clock::time_point begin = Clock::now();
    server_.launch();
    server_.await_start();
    figures_.slowest_start_s = std::max(figures_.slowest_start_s, seconds_since(begin));
    LoadConnections person(server_.socket(), 0);
    (void)person.add(1);
    for (const auto& life : lives_) life->check_served(person);
  }

  void train(double time_s) {
    const Clock::time_point end = Clock::now() + seconds(time_s);
    while (Clock::now() < end) {
      for (const auto& life : lives_) life->work();
      connections_.receive(std::chrono::milliseconds(1), [this](std::size_t connection, const LoadAnswer& answer) {
        for (const auto& life : lives_) {
          if (life->answered(connection, answer)) return;
        }
      });
    }
    std::erase_if(lives_, [this](const auto& life) {
      if (life->over()) life->count(figures_);
      return life->over();
    });
  }

  void run_round() {
    // Some kills fall into the start, others soon after it.
    if (random_() % 5 == 0) {
      server_.launch();
      std::this_thread::sleep_for(seconds(uniform(0.04)));
      ++figures_.killed_at_start;
    } else {
      start();
      train(random_() % 2 == 0 ? uniform(0.03) : uniform(0.4));
    }
    server_.kill();
    check_store();
  }

  void check_store() {
    if (!std::filesystem::exists(server_.state_folder())) return;
    SqliteStoreOptions options;
    options.retention.loaded_reports = 1'000'000'000;
    options.retention.loaded_decisions = 1'000'000'000;
    SqliteStore store(
        server_.state_folder(), [](const std::function<void()>& function) { function(); }, options);
    const StoreContents contents = store.load();
    for (const auto& life : lives_) life->check(contents);
  }

  Process server_;
  LoadConnections connections_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Life>> lives_;
  int begun_ = 0;
  Figures figures_;
};

}  // namespace
}  // namespace lowgear::server

int main(int argc, char** argv) {
  return lowgear::kill_program(argc, argv, "server_kill_test", 200, [](const lowgear::KillRounds& given) {
    const lowgear::server::Figures figures = lowgear::server::Rounds(given.folder, given.seed).run(given.rounds);
    fmt::print(
        "{} SIGKILLs of the server (seed {}, {} of them as it started): of {} reports, {} requests with cells and {} "
        "decisions that were acknowledged none is lost; all {} jobs were planned for, planned for again and ended; it "
        "started within {:.2f} s\n",
        figures.rounds, given.seed, figures.killed_at_start, figures.reports, figures.cells, figures.decisions,
        figures.jobs, figures.slowest_start_s);
    return figures.reports > 0 && figures.jobs > 0;
  });
}
