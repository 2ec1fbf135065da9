/// metrics_fixture: the agent's HTTP side over two simulated GPUs that exist only here, and the server's metrics of a
/// job that does, each on a TCP port of its own. Prints the ports when it listens, ends with its standard input.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <exception>

#include "agent/fake_agent_service.h"
#include "agent/http/http_api.h"
#include "base/http/server/server.h"
#include "report/metrics/exposition.h"
#include "server/job/server_metrics.h"

namespace lowgear {
namespace {

class MetricsHandler final : public http::Handler {
 public:
  void handle(http::Request /*request*/, std::shared_ptr<http::Reply> reply) override {
    activity_.request("GET", "/metrics", 200, 0.001);
    activity_.plan("quick", 0.02);
    activity_.decision("straggler", "applied");
    iterations_.iteration("baseline", 2.0, 1000);
    iterations_.iteration("train", 2.0, 800);
    iterations_.guard_decision("step_back");
    reply->send(http::Response::with_body(200, metrics::kMetricsContentType, server_metrics(snapshot()).text()));
  }

 private:
  [[nodiscard]] server::Snapshot snapshot() const {
    server::JobSnapshot job;
    job.job = "j-1";
    job.name = "a \"name\"\nof two lines";
    job.model = "llama";
    job.gpu = "Simulated H100";
    job.schedule = "1f1b";
    job.state = "running";
    job.simulated = true;
    job.ranks = job.registered = 4;
    job.slowdown_allowed_ratio = 0.02;
    job.planned_step_s = 2;
    job.planned_step_j = 790;
    job.baseline = server::JobSnapshot::Baseline{2, 1000};
    job.saved_ratio = 0.2;
    job.saved_error_ratio = 0.01;
    job.slowdown_ratio = 0.0;
    job.stragglers = {{"reported", 1}};
    job.work = lowgear::protocol::JobWork{.layers = 24, .frozen_layers = 4, .precision = "bf16"};
    job.activity = &iterations_;
    server::Snapshot snapshot;
    snapshot.jobs = {{"running", 1}};
    snapshot.running = {job};
    snapshot.activity = &activity_;
    return snapshot;
  }

  server::Activity activity_;
  server::JobActivity iterations_;
};

void serve() {
  boost::asio::io_context io;
  agent::FakeAgentService service;
  agent::FakeCpuMeter cpu_meter;
  agent::HttpApi agent(io, service, &cpu_meter);
  MetricsHandler handler;
  http::Server server(io, handler);
  const int agent_port = agent.listen_tcp(0);
  const int server_port = server.listen_tcp("127.0.0.1", 0);
  boost::asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read, [&](const boost::system::error_code&) {
    agent.stop();
    server.stop();
    io.stop();
  });
  std::printf("%d %d\n", agent_port, server_port);
  std::fflush(stdout);
  io.run();
}

}  // namespace
}  // namespace lowgear

int main() try {
  lowgear::serve();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "metrics_fixture: %s\n", error.what());
  return 1;
}
