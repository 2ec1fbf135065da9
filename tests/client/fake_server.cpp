#include "client/fake_server.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace lowgear::client {
namespace {

http::ServerOptions large_bodies() {
  http::ServerOptions options;
  options.limits.body_bytes = std::size_t{1} << 20U;
  return options;
}

}  // namespace

FakeServer::FakeServer(std::string socket, std::string job)
    : job_(std::move(job)), server_(io_, *this, large_bodies()) {
  server_.listen_unix(socket, 0600);
  thread_ = std::thread([this] {
    const auto work = boost::asio::make_work_guard(io_);
    io_.run();
  });
}

FakeServer::~FakeServer() {
  boost::asio::post(io_, [this] {
    waiting_.clear();
    server_.stop();
    io_.stop();
  });
  thread_.join();
}

void FakeServer::offer(Json plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
  boost::asio::post(io_, [this] { answer_plans(); });
}

void FakeServer::answer_next(std::string path_end, http::Response response, int times) {
  const std::lock_guard lock(mutex_);
  answers_.push_back({std::move(path_end), std::move(response), times});
}

std::vector<Json> FakeServer::bodies(const std::string& path_end) const {
  const std::lock_guard lock(mutex_);
  std::vector<Json> bodies;
  for (const Seen& seen : seen_) {
    if (seen.path.ends_with(path_end)) bodies.push_back(parse_json(seen.body, "body"));
  }
  return bodies;
}

std::vector<std::string> FakeServer::plan_queries() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> queries;
  for (const Seen& seen : seen_) {
    if (seen.path.ends_with("/plan")) queries.push_back(seen.query);
  }
  return queries;
}

std::vector<std::string> FakeServer::authorizations() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> authorizations;
  for (const Seen& seen : seen_) authorizations.push_back(seen.authorization);
  return authorizations;
}

void FakeServer::handle(http::Request request, std::shared_ptr<http::Reply> reply) {
  {
    const std::lock_guard lock(mutex_);
    seen_.push_back({request.path, request.query, request.body, std::string(request.header("authorization"))});
  }
  if (const auto response = answer(request)) return reply->send(*response);
  const std::string_view query = request.query;
  waiting_.emplace_back(std::stoi(std::string(query.substr(query.find("after=") + 6))), std::move(reply));
  answer_plans();
}

/// Empty where a plan is asked for.
std::optional<http::Response> FakeServer::answer(const http::Request& request) {
  const std::lock_guard lock(mutex_);
  for (Answer& answer : answers_) {
    if (answer.times == 0 || !request.path.ends_with(answer.path_end)) continue;
    --answer.times;
    return answer.response;
  }
  const auto json = [](const Json& body) { return http::Response::with_body(200, "application/json", body.dump()); };
  if (request.path == "/v1/jobs") return json({{"job", job_}, {"created", true}, {"state", "registering"}});
  if (!request.path.starts_with("/v1/jobs/" + job_ + "/") ||
      (!request.path.ends_with("/ranks") && request.header("lowgear-rank-key") != "key-of-" + job_)) {
    return http::Response::with_body(404, "application/json", R"({"error": {"message": "no such job", "code": "x"}})");
  }
  if (request.path.ends_with("/ranks")) return json({{"rank_key", "key-of-" + job_}, {"plan_version", 0}});
  if (request.path.ends_with("/plan")) return std::nullopt;
  return json(Json::object());
}

void FakeServer::answer_plans() {
  const std::lock_guard lock(mutex_);
  if (plan_.is_null()) return;
  std::erase_if(waiting_, [this](const auto& waiting) {
    if (waiting.first >= plan_["version"].template get<int>()) return false;
    waiting.second->send(http::Response::with_body(200, "application/json", plan_.dump()));
    return true;
  });
}

}  // namespace lowgear::client
