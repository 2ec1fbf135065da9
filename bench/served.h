#pragma once

#include <optional>
#include <string>

#include "server/load_connections.h"
#include "server/load_job.h"

namespace lowgear::bench {

/// What studies of a real server under load share.

double seconds_since(server::LoadConnections::Clock::time_point begin);

/// The machine's, over the last minute.
double load_average();

/// A server, and the folder that it leaves with this.
class Served {
 public:
  Served();
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  [[nodiscard]] server::Process& process() { return *server_; }

 private:
  std::string folder_;
  std::optional<server::Process> server_;
};

/// A small job tries clocks, so that later ones of the same model need not. Throws Error when that takes longer than
/// the patience.
void learn_profile(server::Process& server, const server::LoadJobShape& shape, double patience_s);

}  // namespace lowgear::bench
