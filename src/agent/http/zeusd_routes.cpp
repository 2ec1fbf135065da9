/// What clients of the Zeus daemon ask for. Facts from ml-energy/zeus: docs/zeusd/api.md of 2026-08-20, and the routes
/// and clients of zeusd 0.3 to 0.5 (Zeus 0.14 to 0.16). Parameters come in the query, GPUs are indices of the driver,
/// replies are maps from index to value, and a setter answers with an empty body.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "agent/http/http_routes.h"
#include "base/core/numbers/number.h"
#include "base/core/units.h"

namespace lowgear::agent {
namespace {

constexpr long long kMaxPowerMw = 100'000'000;
constexpr int kMaxIds = 1024;
constexpr std::chrono::milliseconds kCpuSamplePeriod{100};

std::int64_t unix_time_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t thousandths(double value) {
  return value <= 0 ? 0 : static_cast<std::uint64_t>(std::llround(value * 1e3));
}

/// The indices in `gpu_ids=0,1`, each once, ascending.
std::vector<int> parse_ids(const RouteCall& call, std::string_view parameter) {
  std::set<int> ids;
  std::string_view rest = call.parameter(parameter);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view text = rest.substr(0, comma);
    const std::optional<long long> id = parse_integer(text);
    if (!id || *id < 0 || *id >= kMaxIds) {
      throw InputError(fmt::format("parameter {}: {} is not an index; write 0,1,2", parameter, quote(text)));
    }
    ids.insert(static_cast<int>(*id));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return {ids.begin(), ids.end()};
}

/// The GPUs that `gpu_ids` names, or all when a reader leaves it out. zeusd answers 400 to an index that is not there.
std::vector<GpuStatus> selected_gpus(const RouteCall& call) {
  std::vector<GpuStatus> gpus = call.context.service.gpus();
  if (!call.has("gpu_ids")) return gpus;
  if (const std::vector<std::string> hidden = call.context.service.hidden_gpus(); !hidden.empty()) {
    throw InputError(
        fmt::format("the caller may number GPUs in another way than the agent, as the driver does not show "
                    "every one ({}): name them by UUID (/v1/gpus/UUID), or repair the GPU and restart the "
                    "agent",
                    fmt::join(hidden, "; ")));
  }
  std::vector<GpuStatus> selected;
  for (const int id : parse_ids(call, "gpu_ids")) {
    const auto found = std::ranges::find_if(gpus, [&](const GpuStatus& gpu) { return gpu.identity.index == id; });
    if (found == gpus.end()) throw InputError(fmt::format("GPU index {} does not exist; /discover lists them", id));
    selected.push_back(std::move(*found));
  }
  return selected;
}

/// zeusd's answer when some devices failed: a message for each, with the worst status.
class DeviceErrors {
 public:
  void add(int id, http::ErrorCode code, std::string_view message) {
    const http::ErrorRow& row = row_of(code);
    if (row.status >= status_) code_ = row.name;
    status_ = std::max(status_, row.status);
    errors_[std::to_string(id)] = message;
  }
  [[nodiscard]] bool empty() const { return errors_.empty(); }
  [[nodiscard]] http::Response response() const {
    Json body;
    body["errors"] = errors_;
    body["error"]["message"] = fmt::format("{} device(s) failed", errors_.size());
    body["error"]["code"] = code_;
    return http::json_response(body, status_);
  }

 private:
  Json errors_ = Json::object();
  int status_ = 0;
  std::string code_;
};

/// The GPUs of one request that are being set. Answers when the last of them is, or has failed.
class SettingRound {
 public:
  SettingRound(std::size_t gpus, RouteAnswer::Send send) : waiting_for_(gpus), send_(std::move(send)) {}

  void add(int id, const std::exception_ptr& error) {
    errors_[id] = error;
    if (errors_.size() == waiting_for_) send_(response());
  }

 private:
  [[nodiscard]] http::Response response() const {
    DeviceErrors failed;
    for (const auto& [id, error] : errors_) {
      try {
        if (error) std::rethrow_exception(error);
      } catch (const std::exception& failure) {
        failed.add(id, agent_error_code_of(failure), failure.what());
      }
    }
    return failed.empty() ? http::Response() : failed.response();
  }

  std::size_t waiting_for_;
  RouteAnswer::Send send_;
  std::map<int, std::exception_ptr> errors_;  ///< by index; null where the GPU was set
};

/// Sets all of the GPUs at once and answers when that is done, whether or not the client would wait: an error must not
/// be lost.
template <typename Set>
RouteAnswer on_each(const RouteCall& call, Set set) {
  (void)call.boolean("block");
  (void)call.parameter("gpu_ids");
  RouteAnswer answer;
  answer.later = [&service = call.context.service, who = *call.request.peer, gpus = selected_gpus(call),
                  set](const RouteAnswer::Send& send) {
    const auto round = std::make_shared<SettingRound>(gpus.size(), send);
    for (const GpuStatus& gpu : gpus) {
      const auto done = [round, id = gpu.identity.index](const std::exception_ptr& error) { round->add(id, error); };
      try {
        set(service, who, gpu.identity.uuid, done);
      } catch (const std::exception&) {
        done(std::current_exception());
      }
    }
  };
  return answer;
}

RouteAnswer set_each(const RouteCall& call, const gpu::GpuSetting& setting) {
  return on_each(call, [setting](Service& service, const Peer& peer, const std::string& gpu, WriteDone done) {
    service.apply(peer, gpu, setting, std::move(done));
  });
}

/// `LockSmClocks` or `LockMemoryClocks`, as the parameters say.
template <typename LockClocks>
LockClocks clock_range(const RouteCall& call) {
  const LockClocks range{static_cast<int>(call.integer("min_clock_mhz", 0, kMaxClockMhz)),
                         static_cast<int>(call.integer("max_clock_mhz", 0, kMaxClockMhz))};
  if (range.min_mhz > range.max_mhz) {
    throw InputError(fmt::format("min_clock_mhz, {}, is above max_clock_mhz, {}", range.min_mhz, range.max_mhz));
  }
  return range;
}

RouteAnswer set_gpu_locked_clocks(const RouteCall& call) {
  return set_each(call, clock_range<gpu::LockSmClocks>(call));
}

RouteAnswer set_mem_locked_clocks(const RouteCall& call) {
  return set_each(call, clock_range<gpu::LockMemoryClocks>(call));
}

RouteAnswer reset_gpu_locked_clocks(const RouteCall& call) { return set_each(call, gpu::ResetSmClocks{}); }

RouteAnswer reset_mem_locked_clocks(const RouteCall& call) { return set_each(call, gpu::ResetMemoryClocks{}); }

/// Whether memory clocks that could not be reset cannot have been set either: the user may not, or the GPU cannot.
bool could_not_be_set(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const AccessDenied&) {
    return true;
  } catch (const gpu::GpuError& failure) {
    return failure.code() == gpu::GpuErrorCode::not_supported;
  } catch (...) {
    return false;
  }
}

/// Both clock domains, the memory's once the SM's is reset.
RouteAnswer reset_locked_clocks(const RouteCall& call) {
  return on_each(call, [](Service& service, const Peer& peer, const std::string& gpu, const WriteDone& done) {
    const WriteDone after_memory = [done](const std::exception_ptr& error) {
      done(error && could_not_be_set(error) ? nullptr : error);
    };
    service.apply(peer, gpu, gpu::ResetSmClocks{},
                  [&service, peer, gpu, done, after_memory](const std::exception_ptr& error) {
                    if (error) return done(error);
                    try {
                      service.apply(peer, gpu, gpu::ResetMemoryClocks{}, after_memory);
                    } catch (const std::exception&) {
                      after_memory(std::current_exception());
                    }
                  });
  });
}

RouteAnswer set_power_limit(const RouteCall& call) {
  const long long power_limit_mw = call.integer("power_limit_mw", 1, kMaxPowerMw);
  return set_each(call, gpu::SetPowerLimit{static_cast<double>(power_limit_mw) * 1e-3});
}

RouteAnswer set_persistence_mode(const RouteCall& call) {
  return set_each(call, gpu::SetPersistenceMode{call.boolean("enabled")});
}

/// A map from GPU to what `value` says of it; empty where the GPU does not report it, for which zeusd answers 400.
/// `why` says why one does not, where that is known.
template <typename Value, typename Why>
RouteAnswer read_each(const RouteCall& call, std::string_view what, Value value, Why why) {
  DeviceErrors errors;
  Json body = Json::object();
  for (const GpuStatus& gpu : selected_gpus(call)) {
    const std::optional<Json> read = gpu.healthy ? value(gpu) : std::nullopt;
    if (read) {
      body[std::to_string(gpu.identity.index)] = *read;
    } else if (!gpu.healthy) {
      errors.add(gpu.identity.index, http::ErrorCode::gpu_lost,
                 fmt::format("{} does not answer: {}", gpu.identity.uuid, gpu.problem));
    } else {
      errors.add(gpu.identity.index, http::ErrorCode::not_reported,
                 fmt::format("{} does not report its {}{}", gpu.identity.uuid, what, why(gpu)));
    }
  }
  return errors.empty() ? http::json_response(body) : errors.response();
}

template <typename Value>
RouteAnswer read_each(const RouteCall& call, std::string_view what, Value value) {
  return read_each(call, what, value, [](const GpuStatus&) { return ""; });
}

RouteAnswer get_cumulative_energy(const RouteCall& call) {
  return read_each(
      call, "energy",
      [](const GpuStatus& gpu) -> std::optional<Json> {
        if (!gpu.reading.energy_j) return std::nullopt;
        return Json{{"energy_mj", thousandths(*gpu.reading.energy_j)}};
      },
      [](const GpuStatus& gpu) {
        return gpu.energy_counter.problem.empty() ? "" : fmt::format(": {}", gpu.energy_counter.problem);
      });
}

RouteAnswer get_power_limit(const RouteCall& call) {
  return read_each(call, "power limit", [](const GpuStatus& gpu) -> std::optional<Json> {
    if (!gpu.power_limits) return std::nullopt;
    return Json{{"power_limit_mw", thousandths(gpu.power_limits->current_w)}};
  });
}

RouteAnswer get_power_limit_constraints(const RouteCall& call) {
  return read_each(call, "power limits", [](const GpuStatus& gpu) -> std::optional<Json> {
    if (!gpu.power_limits) return std::nullopt;
    return Json{{"min_power_limit_mw", thousandths(gpu.power_limits->min_w)},
                {"max_power_limit_mw", thousandths(gpu.power_limits->max_w)}};
  });
}

RouteAnswer get_persistence_mode(const RouteCall& call) {
  return read_each(call, "persistence mode", [](const GpuStatus& gpu) -> std::optional<Json> {
    if (!gpu.persistence_mode) return std::nullopt;
    return Json{{"enabled", *gpu.persistence_mode}};
  });
}

std::int64_t milliseconds(std::int64_t time_ns) { return time_ns / 1'000'000; }

bool is_wanted(const std::vector<int>& ids, int id) { return ids.empty() || std::ranges::binary_search(ids, id); }

/// The GPUs that report their power, of those that are wanted.
std::vector<GpuStatus> reporting_power(const std::vector<GpuStatus>& gpus, const std::vector<int>& ids) {
  std::vector<GpuStatus> reporting;
  std::ranges::copy_if(gpus, std::back_inserter(reporting), [&](const GpuStatus& gpu) {
    return is_wanted(ids, gpu.identity.index) && gpu.healthy && gpu.reading.power_w;
  });
  return reporting;
}

/// Power of the GPUs that report it, with the time of the latest reading.
Json gpu_power(const std::vector<GpuStatus>& gpus, const std::vector<int>& ids) {
  Json body;
  std::int64_t time_ns = 0;
  body["timestamp_ms"] = 0;
  body["power_mw"] = Json::object();
  for (const GpuStatus& gpu : reporting_power(gpus, ids)) {
    time_ns = std::max(time_ns, gpu.reading.time_ns);
    body["power_mw"][std::to_string(gpu.identity.index)] = thousandths(*gpu.reading.power_w);
  }
  body["timestamp_ms"] = time_ns > 0 ? milliseconds(time_ns) : unix_time_ms();
  return body;
}

/// The same, one event a GPU.
std::vector<Json> gpu_power_events(const std::vector<GpuStatus>& gpus, const std::vector<int>& ids) {
  std::vector<Json> events;
  for (const GpuStatus& gpu : reporting_power(gpus, ids)) {
    events.push_back({{"timestamp_ms", milliseconds(gpu.reading.time_ns)},
                      {"gpu_id", gpu.identity.index},
                      {"power_mw", thousandths(*gpu.reading.power_w)}});
  }
  return events;
}

RouteAnswer get_powers(const RouteCall& call) {
  RouteAnswer checked = read_each(call, "power", [](const GpuStatus& gpu) -> std::optional<Json> {
    if (!gpu.reading.power_w) return std::nullopt;
    return Json();
  });
  if (checked.status != 200) return checked;
  return http::json_response(gpu_power(selected_gpus(call), {}));
}

RouteAnswer stream_power(const RouteCall& call) {
  PowerStream stream{.format = PowerStream::Format::zeusd_gpu, .ids = {}};
  if (call.has("gpu_ids")) {
    (void)selected_gpus(call);
    stream.ids = parse_ids(call, "gpu_ids");
  }
  RouteAnswer response;
  response.stream = std::move(stream);
  return response;
}

/// The packages that `cpu_ids` names, or all.
std::vector<int> selected_cpus(const RouteCall& call, const std::vector<CpuEnergy>& cpus) {
  if (cpus.empty()) {
    throw http::HttpError(http::ErrorCode::not_supported,
                          fmt::format("the energy of the CPUs is not readable: {}", call.context.cpu_power.problem()));
  }
  std::vector<int> ids;
  if (!call.has("cpu_ids")) {
    for (const CpuEnergy& cpu : cpus) ids.push_back(cpu.package);
    return ids;
  }
  ids = parse_ids(call, "cpu_ids");
  for (const int id : ids) {
    if (std::ranges::find(cpus, id, &CpuEnergy::package) != cpus.end()) continue;
    throw InputError(fmt::format("CPU index {} does not exist; /discover lists them", id));
  }
  return ids;
}

RouteAnswer get_cpu_energy(const RouteCall& call) {
  const bool package = call.boolean("cpu");
  const bool dram = call.boolean("dram");
  const std::vector<CpuEnergy> cpus = call.context.cpu_power.energy();
  Json body = Json::object();
  for (const int id : selected_cpus(call, cpus)) {
    const CpuEnergy& cpu = *std::ranges::find(cpus, id, &CpuEnergy::package);
    Json& reply = body[std::to_string(id)];
    reply["cpu_energy_uj"] = package ? or_null(cpu.package_uj) : Json(nullptr);
    reply["dram_energy_uj"] = dram ? or_null(cpu.dram_uj) : Json(nullptr);
    if (!cpu.problem.empty()) reply["problem"] = cpu.problem;
  }
  return http::json_response(body);
}

void add_power(Json& body, const CpuPackagePower& power) {
  body["cpu_mw"] = power.package_w ? Json(thousandths(*power.package_w)) : Json(nullptr);
  body["dram_mw"] = power.dram_w ? Json(thousandths(*power.dram_w)) : Json(nullptr);
}

Json cpu_power(const std::vector<CpuPackagePower>& powers, const std::vector<int>& ids) {
  Json body;
  body["timestamp_ms"] = unix_time_ms();
  body["power_mw"] = Json::object();
  for (const CpuPackagePower& power : powers) {
    if (is_wanted(ids, power.package)) add_power(body["power_mw"][std::to_string(power.package)], power);
  }
  return body;
}

/// The same, one event a package.
std::vector<Json> cpu_power_events(const std::vector<CpuPackagePower>& powers, const std::vector<int>& ids) {
  std::vector<Json> events;
  const std::int64_t timestamp_ms = unix_time_ms();
  for (const CpuPackagePower& power : powers) {
    if (!is_wanted(ids, power.package)) continue;
    Json event = {{"timestamp_ms", timestamp_ms}, {"cpu_id", power.package}};
    add_power(event, power);
    events.push_back(std::move(event));
  }
  return events;
}

RouteAnswer get_cpu_power(const RouteCall& call) {
  const std::vector<int> ids = selected_cpus(call, call.context.cpu_power.energy());
  const std::optional<std::vector<CpuPackagePower>> powers = call.context.cpu_power.power();
  if (powers) return http::json_response(cpu_power(*powers, ids));
  RouteAnswer later;
  later.ask_again_after = kCpuSamplePeriod;
  return later;
}

RouteAnswer stream_cpu_power(const RouteCall& call) {
  RouteAnswer response;
  response.stream = PowerStream{.format = PowerStream::Format::zeusd_cpu,
                                .ids = selected_cpus(call, call.context.cpu_power.energy())};
  return response;
}

/// Both shapes that clients know: `gpu_ids`, `cpu_ids`, `dram_available` (zeusd 0.3, 0.4), and the newer `gpus`,
/// `cpus`.
RouteAnswer discover(const RouteCall& call) {
  Json body = answer(call.context.service);
  for (const char* list : {"gpus", "gpu_ids", "cpus", "cpu_ids", "dram_available"}) body[list] = Json::array();
  bool controlled = false;
  for (const GpuStatus& gpu : call.context.service.gpus()) {
    body["gpus"].push_back(Json{{"id", gpu.identity.index},
                                {"name", gpu.identity.name},
                                {"pci_address", gpu.identity.pci_address},
                                {"cumulative_energy_available", gpu.energy_counter.works}});
    body["gpu_ids"].push_back(gpu.identity.index);
    controlled = controlled || gpu.controlled;
  }
  const std::vector<CpuEnergy> cpus = call.context.cpu_power.energy();
  for (const CpuEnergy& cpu : cpus) {
    body["cpus"].push_back(Json{{"id", cpu.package}, {"dram_available", cpu.dram_uj.has_value()}});
    body["cpu_ids"].push_back(cpu.package);
    body["dram_available"].push_back(cpu.dram_uj.has_value());
  }
  body["enabled_api_groups"] = Json::array({"gpu-read"});
  if (controlled && call.request.peer) body["enabled_api_groups"].push_back("gpu-control");
  if (!cpus.empty()) body["enabled_api_groups"].push_back("cpu-read");
  body["auth_required"] = false;
  return http::json_response(body);
}

RouteAnswer get_time(const RouteCall& call) {
  Json body = answer(call.context.service);
  body["timestamp_ms"] = unix_time_ms();
  return http::json_response(body);
}

RouteAnswer whoami(const RouteCall&) {
  throw http::HttpError(http::ErrorCode::no_tokens,
                        "this agent uses no tokens: the kernel attests the user (SO_PEERCRED)");
}

}  // namespace

std::span<const Route> zeusd_routes() {
  static const std::vector<Route> routes = {
      {"POST",
       "/gpu/set_gpu_locked_clocks",
       Access::owners,
       {"gpu_ids", "min_clock_mhz", "max_clock_mhz", "block"},
       set_gpu_locked_clocks},
      {"POST",
       "/gpu/set_mem_locked_clocks",
       Access::owners,
       {"gpu_ids", "min_clock_mhz", "max_clock_mhz", "block"},
       set_mem_locked_clocks},
      {"POST", "/gpu/reset_gpu_locked_clocks", Access::owners, {"gpu_ids", "block"}, reset_gpu_locked_clocks},
      {"POST", "/gpu/reset_mem_locked_clocks", Access::owners, {"gpu_ids", "block"}, reset_mem_locked_clocks},
      {"POST", "/gpu/reset_locked_clocks", Access::owners, {"gpu_ids", "block"}, reset_locked_clocks},
      {"POST", "/gpu/set_power_limit", Access::owners, {"gpu_ids", "power_limit_mw", "block"}, set_power_limit},
      {"POST", "/gpu/set_persistence_mode", Access::owners, {"gpu_ids", "enabled", "block"}, set_persistence_mode},
      {"GET", "/gpu/get_power", Access::readers, {"gpu_ids"}, get_powers},
      {"GET", "/gpu/stream_power", Access::readers, {"gpu_ids"}, stream_power},
      {"GET", "/gpu/get_cumulative_energy", Access::readers, {"gpu_ids"}, get_cumulative_energy},
      {"GET", "/gpu/get_power_limit", Access::readers, {"gpu_ids"}, get_power_limit},
      {"GET", "/gpu/get_power_limit_constraints", Access::readers, {"gpu_ids"}, get_power_limit_constraints},
      {"GET", "/gpu/get_persistence_mode", Access::readers, {"gpu_ids"}, get_persistence_mode},
      {"GET", "/cpu/get_cumulative_energy", Access::readers, {"cpu_ids", "cpu", "dram"}, get_cpu_energy},
      {"GET", "/cpu/get_power", Access::readers, {"cpu_ids"}, get_cpu_power},
      {"GET", "/cpu/stream_power", Access::readers, {"cpu_ids"}, stream_cpu_power},
      {"GET", "/discover", Access::readers, {}, discover},
      {"GET", "/time", Access::anybody, {}, get_time},
      {"GET", "/auth/whoami", Access::anybody, {}, whoami},
  };
  return routes;
}

std::vector<std::string> zeusd_stream_events(const PowerStream& stream, const std::vector<GpuStatus>& gpus,
                                             const RouteContext& context) {
  const bool each = context.zeusd_events == ZeusdEvents::device;
  std::vector<Json> events;
  if (stream.format == PowerStream::Format::zeusd_cpu) {
    const std::optional<std::vector<CpuPackagePower>> powers = context.cpu_power.power();
    if (!powers) return {};
    events = each ? cpu_power_events(*powers, stream.ids) : std::vector{cpu_power(*powers, stream.ids)};
  } else {
    events = each ? gpu_power_events(gpus, stream.ids) : std::vector{gpu_power(gpus, stream.ids)};
  }
  std::vector<std::string> texts;
  for (const Json& event : events) {
    texts.push_back(http::to_text(event));
    texts.back().pop_back();  // the line feed
  }
  return texts;
}

}  // namespace lowgear::agent
