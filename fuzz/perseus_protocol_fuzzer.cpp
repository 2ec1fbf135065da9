#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "server/perseus/protocol.h"
#include "server/perseus/window.h"

namespace {

using namespace lowgear;

void read_job(std::string_view body) {
  const server::perseus::JobInfo job = server::perseus::read_perseus_job(body);
  require(job.world_size == job.pp_degree * job.dp_degree * job.tp_degree);
  require(server::perseus::read_perseus_job(to_json(job).dump()) == job);
  require(perseus_job_name(job, "Lowgear", 0).find_first_of("/?#% \n") == std::string::npos);
}

void read_rank(std::string_view body, server::perseus::Client client) {
  const server::perseus::RankRegistration registration = read_perseus_rank(body, client);
  require(!registration.rank.power_states.empty());
  Json json = to_json(registration.rank);
  json["job_id"] = "";
  require(read_perseus_rank(json.dump(), server::perseus::Client::artifact).rank == registration.rank);
}

/// Whatever a rank reports can be written down and condensed, or is refused.
void read_result(std::string_view body) {
  server::perseus::Result result = server::perseus::read_perseus_result(body);
  require(server::perseus::read_perseus_result(to_json(result).dump()) == result);
  result.rank = 0;
  const server::perseus::RankInfo rank = {0, 0, 0, 0, {}, {1}};
  const server::perseus::Layout layout = server::perseus::rank_layout({}, {&rank, 1});
  const std::vector<server::perseus::Window> windows = condense(layout, {&result, 1}, 0.1);
  const Json json = Json::parse(to_json(windows).dump());
  require(server::perseus::read_perseus_windows(JsonView(json, "windows")) == windows);
}

}  // namespace

/// The first byte says what the rest is the body of.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'j':
        read_job(body);
        break;
      case 'r':
        read_rank(body, server::perseus::Client::artifact);
        break;
      case 'z':
        read_rank(body, server::perseus::Client::zeus);
        break;
      default:
        read_result(body);
    }
  } catch (const InputError&) {
    // What is wrong is refused.
  }
  return 0;
}
