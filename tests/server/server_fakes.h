#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/http/server/reply.h"
#include "server/fleet/control_plane.h"

namespace lowgear::server {

/// A store that tells outcomes when the test says so.
class HeldStore final : public Store {
 public:
  [[nodiscard]] StoreContents load() override { return {}; }
  void write(StoreChange change, std::function<void(StoreOutcome)> done) override {
    changes.push_back(std::move(change));
    waiting_.push_back(std::move(done));
  }
  void read_decisions(std::string /*job*/, std::int64_t /*after*/, int /*limit*/,
                      std::function<void(std::vector<StoredDecision>)> done) override {
    done({});
  }
  void read_page(ExportQuery /*query*/, std::function<void(std::optional<ExportPage>)> done) override {
    done(ExportPage{});
  }
  void read_archive(std::string job, std::function<void(std::optional<StoredArchive>)> done) override {
    std::optional<StoredArchive> found;
    for (const StoreChange& change : changes) {
      for (const StoredArchive& archive : change.archives) {
        if (archive.job == job) found = archive;
      }
    }
    if (found) found->spec = "{}";
    done(found);
  }
  /// The outcome of the change that has waited longest; false when none waits.
  bool answer(StoreOutcome outcome) {
    if (waiting_.empty()) return false;
    const auto done = std::move(waiting_.front());
    waiting_.pop_front();
    if (done) done(outcome);
    return true;
  }
  /// Of all, also of those that come of it.
  void answer_all(StoreOutcome outcome) {
    while (answer(outcome)) {
    }
  }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

  std::vector<StoreChange> changes;  ///< all that were given

 private:
  std::deque<std::function<void(StoreOutcome)>> waiting_;
};

/// Keeps tasks for the test to answer.
class HeldPlanning final : public PlanningService {
 public:
  void submit(PlanningTask task, Done done) override { tasks.emplace_back(std::move(task), std::move(done)); }
  void forget(const std::string& job) override { forgotten.push_back(job); }
  /// Answers all with what a planner says to them.
  void plan() {
    while (!tasks.empty()) {
      auto [task, done] = std::move(tasks.front());
      tasks.pop_front();
      MeasuredJob planner(task.model);
      done(answer_task(planner, task, {}));
    }
  }

  std::deque<std::pair<PlanningTask, Done>> tasks;
  std::vector<std::string> forgotten;  ///< jobs
};

class HeldStream final : public http::EventStream {
 public:
  void push(std::shared_ptr<const std::string> event) override { text += *event; }
  [[nodiscard]] bool closed() const override { return is_closed; }

  std::string text;
  bool is_closed = false;
};

/// Remembers the answer.
class HeldReply final : public http::Reply {
 public:
  void send(http::Response sent) override {
    if (!response) response = std::move(sent);
  }
  [[nodiscard]] std::shared_ptr<http::EventStream> stream(http::Response head) override {
    response = std::move(head);
    events = std::make_shared<HeldStream>();
    return events;
  }
  [[nodiscard]] bool closed() const override { return gone || response.has_value(); }
  void on_close(std::function<void()> /*callback*/) override {}
  /// 0: not answered yet.
  [[nodiscard]] int status() const { return response ? response->status : 0; }

  std::optional<http::Response> response;
  std::shared_ptr<HeldStream> events;
  bool gone = false;
};

}  // namespace lowgear::server
