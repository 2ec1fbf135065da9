/// HTTP: whatever bytes a connection carries, cut into pieces anyhow, end in a request that is answered, in a refusal,
/// or in waiting for more; the size of what waits is bounded, and every answer is well-formed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "agent/http/http_routes.h"
#include "base/core/formats/json.h"
#include "base/http/message/wire.h"

namespace {

using namespace lowgear;

/// Two GPUs; takes everything from users below 1000, refuses the others.
class Service : public agent::Service {
 public:
  Service() : gpus_(2) {
    for (int i = 0; i < 2; ++i) {
      gpus_[static_cast<std::size_t>(i)].identity.index = i;
      gpus_[static_cast<std::size_t>(i)].identity.uuid = i == 0 ? "GPU-0" : "GPU-1";
      gpus_[static_cast<std::size_t>(i)].reading.power_w = 75;
    }
  }
  bool simulated() const override { return true; }
  bool dry_run() const override { return false; }
  std::string driver_version() const override { return "580"; }
  std::vector<agent::GpuStatus> gpus() override { return gpus_; }
  std::vector<agent::UnattendedGpu> unattended_gpus() override { return {}; }
  std::vector<std::string> hidden_gpus() const override { return {}; }
  std::vector<agent::LeaseStatus> leases() override { return {}; }
  void apply(const agent::Peer&, std::string_view gpu, const gpu::GpuSetting& setting, agent::WriteDone done) override {
    check(gpu, std::visit([](const auto& each) { return is_in_range(each); }, setting));
    done(nullptr);
  }
  void release(const agent::Peer&, std::uint64_t) override { throw agent::NotFound("no lease"); }
  void assign(const agent::Peer&, std::string_view gpu, agent::GpuAssignment assignment) override {
    check(gpu, !assignment.job.empty());
  }
  void give_back(const agent::Peer&, std::string_view gpu, std::string_view) override { check(gpu, true); }
  void restore_all(const agent::Peer&, agent::WriteDone) override { throw agent::AccessDenied("root only"); }
  bool may_read(const agent::Peer& peer) const override { return peer.uid < 1000; }

 private:
  template <typename Setting>
  static bool is_in_range(const Setting& setting) {
    if constexpr (requires { setting.min_mhz; }) return 0 <= setting.min_mhz && setting.min_mhz <= setting.max_mhz;
    if constexpr (requires { setting.limit_w; }) return setting.limit_w > 0 && setting.limit_w <= 1e5;
    return true;
  }
  /// What reaches the service has been checked.
  static void check(std::string_view gpu, bool in_range) {
    if (!in_range) std::abort();
    if (gpu != "GPU-0" && gpu != "GPU-1") throw agent::NotFound("no such GPU");
  }
  std::vector<agent::GpuStatus> gpus_;
};

void check_answer(const agent::RouteAnswer& response) {
  if (response.status < 200 || response.status > 599) std::abort();
  if (response.ask_again_after.count() > 0 || response.stream || response.text().empty()) return;
  for (const auto& [name, value] : response.headers) {
    if ((name + value).find_first_of("\r\n") != std::string::npos) std::abort();
  }
  if (response.content_type != "application/json") return;
  const Json body = parse_json(response.text(), "answer");
  if (response.status >= 400 && !body.at("error").at("message").is_string()) std::abort();
}

void answer(const http::Request& request) {
  Service service;
  agent::CpuPower cpu_power(nullptr, [] { return std::int64_t{1}; });
  const agent::Metrics metrics;
  const agent::RouteContext context{service, cpu_power, metrics};
  for (const std::optional<agent::Peer>& peer :
       {std::optional<agent::Peer>(), std::optional<agent::Peer>(agent::Peer{0, 0, 1}),
        std::optional<agent::Peer>(agent::Peer{1000, 1000, 2})}) {
    http::Request asked = request;
    asked.peer = peer;
    agent::RouteAnswer response = handle(asked, context);
    if (const auto later = response.later) later([&response](http::Response answer) { response = std::move(answer); });
    if (!peer && request.method != "GET" && request.method != "HEAD" && response.status < 400) std::abort();
    check_answer(response);
    (void)serialize_head(response, http::AfterResponse::keep_alive, http::ResponseLength::known);
    if (response.stream) (void)stream_events(*response.stream, service.gpus(), context);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] == 0 ? size : data[0];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const http::Limits limits{.header_bytes = 512, .body_bytes = 256};
  std::optional<http::RequestParser> parser(std::in_place, limits);
  std::string waiting;
  while (!rest.empty() && !parser->refusal()) {
    waiting += rest.substr(0, piece);
    rest.remove_prefix(std::min(piece, rest.size()));
    while (!waiting.empty()) {
      const std::size_t taken = parser->put(waiting);
      if (taken > waiting.size()) std::abort();
      waiting.erase(0, taken);
      if (parser->refusal()) {
        check_answer(*parser->refusal());
        return 0;
      }
      if (parser->complete()) {
        const http::Request request = parser->take();
        if (request.body.size() > limits.body_bytes || request.path.size() > limits.header_bytes) std::abort();
        answer(request);
        parser.emplace(limits);
        continue;
      }
      if (taken == 0) break;
    }
    if (waiting.size() > limits.header_bytes + piece) std::abort();
  }
  return 0;
}
