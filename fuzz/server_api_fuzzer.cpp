#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/message/error.h"
#include "checks.h"
#include "server/http/api.h"
#include "server/http/api_routes.h"

namespace {

using namespace lowgear;

/// Tells outcomes when it is asked to, and refuses some of the changes.
class LateStore final : public server::Store {
 public:
  server::StoreContents load() override { return {}; }
  void write(server::StoreChange change, std::function<void(server::StoreOutcome)> done) override {
    require(!change.empty());
    waiting_.push_back(std::move(done));
  }
  void read_decisions(std::string, std::int64_t, int,
                      std::function<void(std::vector<server::StoredDecision>)> done) override {
    done({{.job = "j", .id = 1, .time_s = 0, .document = R"({"id":1})"}});
  }
  void read_archive(std::string, std::function<void(std::optional<server::StoredArchive>)> done) override { done({}); }
  /// A row of each table, and a next page.
  void read_page(server::ExportQuery query, std::function<void(std::optional<server::ExportPage>)> done) override {
    server::ExportPage page;
    page.hours.emplace_back();
    server::UsedJob job;
    job.job = "j";
    job.finished_s = query.from_s;
    page.jobs.push_back(std::move(job));
    page.decisions.push_back({.job = "j", .id = 1, .time_s = 0, .document = R"({"id":1})"});
    page.next = "3600.1";
    done(std::move(page));
  }
  void answer(server::StoreOutcome outcome) {
    while (!waiting_.empty()) {
      const auto done = std::move(waiting_.front());
      waiting_.pop_front();
      done(outcome);
    }
  }

 private:
  std::deque<std::function<void(server::StoreOutcome)>> waiting_;
};

/// Plans after the request that asks for it; nothing, where that takes too long for a fuzzer.
class SmallPlanning final : public server::PlanningService {
 public:
  void submit(server::PlanningTask task, Done done) override {
    waiting_.emplace_back(std::move(task), std::move(done));
  }
  void forget(const std::string& job) override {
    std::erase_if(waiting_, [&](const auto& entry) { return entry.first.job == job; });
  }
  void answer(bool really) {
    for (int left = 4; left > 0 && !waiting_.empty(); --left) {
      auto [task, done] = std::move(waiting_.front());
      waiting_.pop_front();
      server::PlanningAnswer answer;
      answer.serial = task.serial;
      answer.error = "no plan";
      if (really) {
        try {
          server::MeasuredJob planner(task.model);
          answer = answer_task(planner, task, done);
        } catch (const Error& error) {
          answer.error = error.what();
        }
      }
      done(std::move(answer));
    }
    waiting_.clear();
  }

 private:
  std::deque<std::pair<server::PlanningTask, Done>> waiting_;
};

class OneStream final : public http::EventStream {
 public:
  void push(std::shared_ptr<const std::string> event) override { require(event->ends_with("\n\n")); }
  [[nodiscard]] bool closed() const override { return false; }
};

class OneReply final : public http::Reply {
 public:
  ~OneReply() override { require(answers_ <= 1); }
  OneReply() = default;
  OneReply(const OneReply&) = delete;
  OneReply& operator=(const OneReply&) = delete;
  void send(http::Response response) override {
    ++answers_;
    require(response.status >= 200 && response.status != 500);
    if (response.content_type == "application/json" && response.status != 204) {
      require(Json::accept(response.text()));
      const Json body = Json::parse(response.text());
      require((response.status >= 400 && response.status != 503) == body.contains("error") || body.contains("status") ||
              body.contains("error"));
    }
  }
  std::shared_ptr<http::EventStream> stream(http::Response) override {
    ++answers_;
    return std::make_shared<OneStream>();
  }
  [[nodiscard]] bool closed() const override { return answers_ > 0; }
  void on_close(std::function<void()>) override {}

 private:
  int answers_ = 0;
};

/// A server with one job of two ranks, known to the fuzzer: job `j-000000000000`, keys of digits.
class Server {
 public:
  Server()
      : plane_({.store = &store_,
                .planning = &planning_,
                .events = &events_,
                .activity = &activity_,
                .now_s = [this] { return now_s_; },
                .calendar_s = {},
                .new_key = [this] { return fmt::format("{:032}", keys_++ % 10); },
                .log = {}},
               {.jobs = 4, .kept_jobs = 1, .ranks = 64, .silence_s = 1'800}),
        authenticator_({}, [](uid_t, gid_t) { return false; }),
        api_({.control_plane = &plane_,
              .authenticator = &authenticator_,
              .events = &events_,
              .activity = &activity_,
              .metrics = [] { return std::string("# metrics\n"); }}) {
    ask("POST", "/v1/jobs", {},
        R"({"run":"r","model":"m","gpu":"g","parallel":{"pp":2},"schedule":"1f1b","microbatches":2,)"
        R"("profile":{"clocks":4,"iterations":1,"settle_iterations":0}})");
  }

  void ask(std::string method, std::string path, std::string query, std::string body, std::string key = {}) {
    http::Request request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.query = std::move(query);
    request.body = std::move(body);
    request.peer = ipc::UnixPeer{};  // root
    request.headers["lowgear-rank-key"] = std::move(key);
    api_.handle(request, std::make_shared<OneReply>());
  }

  void pass(double seconds) {
    now_s_ += seconds;
    plane_.tick();
  }
  LateStore& store() { return store_; }
  SmallPlanning& planning() { return planning_; }

 private:
  double now_s_ = 1e9;
  int keys_ = 0;
  LateStore store_;
  SmallPlanning planning_;
  server::EventHub events_;
  server::Activity activity_;
  server::ControlPlane plane_;
  server::Authenticator authenticator_;
  server::Api api_;
};

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

/// Lines, of which the first character says what happens: a request by its route, `A` the first of the table, with the
/// last digit of a rank key, `?` and the query, and the body (`C1?rank=0 {...}`); or `=METHOD PATH BODY`; `+` and `!`:
/// the store commits, or its disk is full; `#` and `~`: a plan is made, or none; `@`: time passes, `@-`: it goes back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Server server;
  for (int steps = 0; steps < 64 && !text.empty(); ++steps) {
    std::string_view line = take_line(text);
    if (line.empty()) continue;
    const char what = line.front();
    line.remove_prefix(1);
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string_view head = line.substr(0, space);
    const std::string body(line.substr(std::min(space + 1, line.size())));
    if (what == '+') {
      server.store().answer(server::StoreOutcome::committed);
    } else if (what == '!') {
      server.store().answer(server::StoreOutcome::disk_full);
    } else if (what == '#' || what == '~') {
      server.planning().answer(what == '#');
    } else if (what == '@') {
      server.pass(head == "-" ? -100 : 30);
    } else if (what == '=') {
      const std::size_t end = std::min(body.find(' '), body.size());
      server.ask(std::string(head), body.substr(0, end), {}, body.substr(end));
    } else if (what >= 'A' && what < 'A' + static_cast<char>(server::api_routes().size())) {
      const server::ApiRoute& route = server::api_routes()[static_cast<std::size_t>(what - 'A')];
      std::string path(route.pattern);
      const std::string_view name = path.starts_with("/v1/signals")   ? "s"
                                    : path.starts_with("/v1/exports") ? "usage.csv"
                                                                      : "j-000000000000";
      if (const std::size_t hole = path.find("{}"); hole != std::string::npos) path.replace(hole, 2, name);
      const std::size_t query = std::min(head.find('?'), head.size());
      const std::string key = std::string(31, '0') + std::string(head.substr(0, query));
      server.ask(std::string(route.method), path, std::string(head.substr(std::min(query + 1, head.size()))), body,
                 key);
    }
  }
  server.store().answer(server::StoreOutcome::committed);
  server.pass(1e5);
  return 0;
}
