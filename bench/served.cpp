#include "served.h"

#include <stdlib.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/core/error.h"

namespace lowgear::bench {

namespace fs = std::filesystem;
using Clock = server::LoadConnections::Clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double load_average() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

Served::Served() : folder_((fs::temp_directory_path() / "lg-XXXXXX").string()) {
  if (::mkdtemp(folder_.data()) == nullptr) throw Error("no temporary folder can be made");
  server_.emplace(LOWGEAR_BINARY, folder_);
  server_->launch();
  server_->await_start();
}

Served::~Served() {
  server_.reset();
  fs::remove_all(folder_);
}

void learn_profile(server::Process& server, const server::LoadJobShape& shape, double patience_s) {
  server::LoadConnections connections(server.socket(), server.port());
  server::LoadJob job(connections, shape);
  const Clock::time_point begin = Clock::now();
  while (!job.finished()) {
    if (seconds_since(begin) > patience_s) throw Error("the small job was not planned for");
    job.work();
    connections.receive(std::chrono::milliseconds(1),
                        [&](std::size_t from, const server::LoadAnswer& answer) { (void)job.answered(from, answer); });
    if (job.trains()) job.end();
  }
}

}  // namespace lowgear::bench
