#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/terminal/table.h"
#include "app/operations/commands/verbs.h"
#include "app/operations/doctor/machine_facts.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/power/gpu_file.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::operations {
namespace {

enum class SimgpuAction : std::size_t { create, show, inject, slow, share, run, reset };
constexpr auto kActions =
    std::to_array<std::string_view>({"create", "show", "inject", "slow", "share", "run", "reset"});
constexpr auto kSharings = std::to_array<std::string_view>({"time-slicing", "mps"});

/// What `run` runs.
struct LoadArguments {
  std::optional<double> time_s;
  double memory_share = 0;
  double power = 1;
  double busy = 1;
  double sm_share = 1;
};

struct SimgpuArguments {
  SimgpuAction action = SimgpuAction::show;
  std::string state;
  std::string gpus = "H100";
  std::string gpu_file;
  int seed = 1;
  bool virtual_time = false;
  bool any_user = false;
  std::optional<int> gpu;
  simgpu::SimulatedFault fault;
  std::optional<double> slowdown;
  std::optional<simgpu::KernelSharing> sharing;
  LoadArguments load;
  bool json = false;
};

constexpr std::string_view name(SimgpuAction action) { return kActions[static_cast<std::size_t>(action)]; }

/// Which options belong to which action, besides --state and --json.
constexpr auto kOptionsOfActions = std::to_array<cli::OptionOfAction>({
    {name(SimgpuAction::create), "--gpus"},      {name(SimgpuAction::create), "--gpu-file"},
    {name(SimgpuAction::create), "--seed"},      {name(SimgpuAction::create), "--virtual-time"},
    {name(SimgpuAction::create), "--any-user"},  {name(SimgpuAction::inject), "--gpu"},
    {name(SimgpuAction::inject), "--call"},      {name(SimgpuAction::inject), "--return-code"},
    {name(SimgpuAction::inject), "--delay"},     {name(SimgpuAction::inject), "--count"},
    {name(SimgpuAction::inject), "--stuck"},     {name(SimgpuAction::inject), "--lost"},
    {name(SimgpuAction::slow), "--gpu"},         {name(SimgpuAction::slow), "--factor"},
    {name(SimgpuAction::share), "--gpu"},        {name(SimgpuAction::share), "--by"},
    {name(SimgpuAction::run), "--gpu"},          {name(SimgpuAction::run), "--time"},
    {name(SimgpuAction::run), "--memory-share"}, {name(SimgpuAction::run), "--load"},
    {name(SimgpuAction::run), "--busy"},         {name(SimgpuAction::run), "--sm-share"},
    {name(SimgpuAction::reset), "--gpu"},
});

std::string state_file(const SimgpuArguments& arguments) {
  if (!arguments.state.empty()) return arguments.state;
  const char* const from_environment = std::getenv("LOWGEAR_SIMGPU");
  if (from_environment == nullptr || *from_environment == '\0') {
    throw InputError("the simulated machine is missing: give --state FILE, or set LOWGEAR_SIMGPU");
  }
  return from_environment;
}

/// The GPUs that were asked for: one, or all.
std::vector<simgpu::SimulatedGpu*> chosen_gpus(simgpu::SimulatedMachine& machine, std::optional<int> index) {
  if (index) return {&machine.gpu(*index)};
  std::vector<simgpu::SimulatedGpu*> gpus;
  gpus.reserve(static_cast<std::size_t>(machine.gpus()));
  for (int i = 0; i < machine.gpus(); ++i) gpus.push_back(&machine.gpu(i));
  return gpus;
}

Json fault_json(const simgpu::SimulatedFault& fault) {
  return {{"call", fault.call},
          {"return_code", fault.return_code},
          {"delay_s", fault.delay_s},
          {"count", fault.count == UINT32_MAX ? Json() : Json(fault.count)},
          {"clock_stuck", fault.clock_stuck},
          {"lost", fault.lost}};
}

Json gpu_json(simgpu::SimulatedGpu& gpu, int index) {
  const simgpu::SimulatedReadings now = gpu.readings();
  const auto locked = gpu.locked_sm_clocks();
  Json faults = Json::array();
  for (const simgpu::SimulatedFault& fault : gpu.faults().all()) faults.push_back(fault_json(fault));
  return {{"index", index},
          {"uuid", gpu.uuid()},
          {"pci_address", gpu.pci_address()},
          {"name", gpu.model().name.view()},
          {"true_energy_j", gpu.true_energy_j()},
          {"energy_counter_j", now.energy_counter_j},
          {"average_power_w", now.average_power_w},
          {"instant_power_w", now.instant_power_w},
          {"power_limit_w", now.power_limit_w},
          {"sm_clock_mhz", now.sm_clock_mhz},
          {"locked_sm_clocks_mhz", locked ? Json{locked->min_mhz, locked->max_mhz} : Json()},
          {"memory_clock_mhz", now.memory_clock_mhz},
          {"temperature_c", now.temperature_c},
          {"throttle_reasons", now.throttle_reasons},
          {"gpu_utilisation_percent", now.gpu_utilisation_percent},
          {"memory_utilisation_percent", now.memory_utilisation_percent},
          {"persistence_mode", now.persistence_mode},
          {"requested_power_profiles", now.requested_power_profiles},
          {"enforced_power_profiles", now.enforced_power_profiles},
          {"power_smoothing", now.power_smoothing},
          {"power_smoothing_preset", now.power_smoothing_preset},
          {"context_pids", gpu.context_pids()},
          {"writes", gpu.writes()},
          {"slowdown", gpu.slowdown()},
          {"sharing", kSharings[static_cast<std::size_t>(gpu.kernel_sharing())]},
          {"faults", std::move(faults)}};
}

Json machine_json(simgpu::SimulatedMachine& machine, const std::string& state) {
  Json gpus = Json::array();
  for (int i = 0; i < machine.gpus(); ++i) gpus.push_back(gpu_json(machine.gpu(i), i));
  return {{"simulated", true},
          {"state", state},
          {"clock", machine.clock() == simgpu::SimulatedClock::real ? "real" : "virtual"},
          {"time_s", machine.now_s()},
          {"root_required", machine.root_required()},
          {"gpus", std::move(gpus)}};
}

std::string machine_text(simgpu::SimulatedMachine& machine, const std::string& state) {
  cli::Table table({{"GPU"},
                    {"simulated", cli::Table::Align::left},
                    {"UUID", cli::Table::Align::left},
                    {"true J"},
                    {"W"},
                    {"MHz"},
                    {"locked", cli::Table::Align::left},
                    {"C"},
                    {"limit W"},
                    {"writes"},
                    {"slowdown"},
                    {"faults"}});
  for (int i = 0; i < machine.gpus(); ++i) {
    simgpu::SimulatedGpu& gpu = machine.gpu(i);
    const simgpu::SimulatedReadings now = gpu.readings();
    const auto locked = gpu.locked_sm_clocks();
    table.add_row(
        {fmt::to_string(i), std::string(gpu.model().name.view()), gpu.uuid(),
         fmt::format("{:.3f}", gpu.true_energy_j()), fmt::format("{:.1f}", now.average_power_w),
         fmt::to_string(now.sm_clock_mhz), locked ? fmt::format("{}-{}", locked->min_mhz, locked->max_mhz) : "no",
         fmt::to_string(now.temperature_c), fmt::format("{:g}", now.power_limit_w), fmt::to_string(gpu.writes()),
         fmt::format("{:g}", gpu.slowdown()), fmt::to_string(gpu.faults().all().size())});
  }
  return fmt::format("Simulated machine {}, {} time, {:.3f} s old\n{}", printable(state),
                     machine.clock() == simgpu::SimulatedClock::real ? "real" : "virtual", machine.now_s(),
                     table.text());
}

void show(simgpu::SimulatedMachine& machine, const std::string& state, bool json, cli::Console& console) {
  if (json) {
    console.print_json(machine_json(machine, state));
  } else {
    console.print(machine_text(machine, state));
  }
}

/// Keeps a context on a GPU, as a program that uses CUDA does.
class Context {
 public:
  explicit Context(simgpu::SimulatedGpu& gpu) : gpu_(gpu) { gpu_.attach_context(); }
  ~Context() {
    try {
      gpu_.detach_context();
    } catch (const Error&) {  // it ends with this process at the latest
    }
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  simgpu::SimulatedGpu& gpu_;
};

/// Kernels of 10 ms (at the highest clock), one after the other, with pauses between them.
void run_load(const SimgpuArguments& arguments, simgpu::SimulatedMachine& machine, cli::Console& console) {
  const LoadArguments& load = arguments.load;
  constexpr double kKernelS = 0.01;
  if (!load.time_s) throw InputError("--time is missing: give the length of the load in seconds");
  const int index = arguments.gpu.value_or(0);
  simgpu::SimulatedGpu& gpu = machine.gpu(index);
  const Context context(gpu);
  const double start_s = machine.now_s();
  const double start_j = gpu.true_energy_j();
  const double end_s = start_s + *load.time_s;
  std::int64_t kernels = 0;
  for (;;) {
    const double left_s = end_s - machine.now_s();
    if (left_s <= 0) break;
    const double kernel_s = std::min(kKernelS, left_s);
    gpu.run({.compute_s = kernel_s * (1 - load.memory_share),
             .memory_s = kernel_s * load.memory_share,
             .compute_load = load.power,
             .memory_load = load.power,
             .sm_share = load.sm_share});
    ++kernels;
    const double pause_s = kernel_s * (1 - load.busy) / load.busy;
    machine.wait(std::clamp(end_s - machine.now_s(), 0.0, pause_s));
  }
  const double time_s = machine.now_s() - start_s;
  const simgpu::SimulatedReadings now = gpu.readings();
  const double energy_j = gpu.true_energy_j() - start_j;
  if (arguments.json) {
    console.print_json({{"simulated", true},
                        {"gpu", index},
                        {"uuid", gpu.uuid()},
                        {"time_s", time_s},
                        {"kernels", kernels},
                        {"true_energy_j", energy_j},
                        {"mean_power_w", time_s > 0 ? energy_j / time_s : 0.0},
                        {"sm_clock_mhz", now.sm_clock_mhz},
                        {"throttle_reasons", now.throttle_reasons}});
    return;
  }
  console.print(fmt::format("Simulated GPU {} ran {} kernels in {:.3f} s: {:.3f} J, {:.1f} W, {} MHz at the end\n",
                            index, kernels, time_s, energy_j, time_s > 0 ? energy_j / time_s : 0.0, now.sm_clock_mhz));
}

void inject(const SimgpuArguments& arguments, simgpu::SimulatedMachine& machine) {
  const simgpu::SimulatedFault& fault = arguments.fault;
  if (fault.return_code == 0 && fault.delay_s == 0 && !fault.clock_stuck && !fault.lost) {
    throw InputError("this fault has no effect; give --return-code, --delay, --stuck or --lost");
  }
  for (simgpu::SimulatedGpu* const gpu : chosen_gpus(machine, arguments.gpu)) gpu->faults().inject(fault);
}

void slow(const SimgpuArguments& arguments, simgpu::SimulatedMachine& machine) {
  if (!arguments.slowdown)
    throw InputError("--factor is missing: give the factor by which kernels take longer; 1 ends it");
  for (simgpu::SimulatedGpu* const gpu : chosen_gpus(machine, arguments.gpu)) gpu->slow_down(*arguments.slowdown);
}

void share(const SimgpuArguments& arguments, simgpu::SimulatedMachine& machine) {
  if (!arguments.sharing) throw InputError("--by is missing: mps, or time-slicing");
  for (simgpu::SimulatedGpu* const gpu : chosen_gpus(machine, arguments.gpu)) gpu->share_kernels(*arguments.sharing);
}

void reset(simgpu::SimulatedGpu& gpu) {
  gpu.faults().clear();
  gpu.slow_down(1);
  gpu.share_kernels(simgpu::KernelSharing::time_slicing);
  gpu.control().reset_sm_clocks();
  gpu.control().reset_memory_clocks();
  gpu.control().set_power_limit_w(gpu.model().power.limit_w);
  if (gpu.model().power_features.profiles != 0) gpu.control().request_power_profiles(0);
  if (gpu.model().power_features.smoothing_presets != 0) {
    gpu.control().activate_power_smoothing_preset(0);
    gpu.control().set_power_smoothing(false);
  }
}

/// How programs find the machine.
std::string next_step(const std::string& state) {
  const std::filesystem::path library = doctor::simulated_nvml_of_program();
  if (library.empty()) {
    return "Programs see these GPUs by the simulation's libnvidia-ml.so.1: install the package lowgear-simgpu, and set "
           "LOWGEAR_NVML to it.\n";
  }
  return fmt::format(
      "Programs see these GPUs where both are set:\n  export LOWGEAR_NVML={}\n  export LOWGEAR_SIMGPU={}\n"
      "Next: lowgear doctor\n",
      cli::shell_word(library.string()), cli::shell_word(std::filesystem::absolute(state).string()));
}

/// Throws InputError where the file exists: what it is, and what can be done.
void require_new(const std::string& state) {
  std::error_code unknown;
  if (!std::filesystem::exists(state, unknown)) return;
  const std::string name = cli::shell_word(state);
  std::string what = "a file that is no simulated machine of this release";
  std::string use;
  try {
    const int gpus = simgpu::SimulatedMachine::open(state)->gpus();
    what = fmt::format("a simulated machine of {} GPU{}", gpus, gpus == 1 ? "" : "s");
    use = fmt::format("use it (lowgear simgpu show --state {}), ", name);
  } catch (const Error&) {
    // It can still be replaced.
  }
  throw InputError(
      fmt::format("{}: exists already: {}; {}name another file with --state FILE, or remove it first: rm {}",
                  printable(state), what, use, name));
}

std::unique_ptr<simgpu::SimulatedMachine> create(const SimgpuArguments& arguments, const std::string& state) {
  require_new(state);
  std::vector<simgpu::SimulatedGpuModel> models = simgpu::gpu_models_from_text(arguments.gpus);
  if (!arguments.gpu_file.empty()) {
    simgpu::set_power(models, power::parse_gpu_file(read_file(arguments.gpu_file), arguments.gpu_file));
  }
  return simgpu::SimulatedMachine::create(
      state, {.gpus = std::move(models),
              .clock = arguments.virtual_time ? simgpu::SimulatedClock::virtual_ : simgpu::SimulatedClock::real,
              .seed = static_cast<std::uint64_t>(arguments.seed),
              .root_required = !arguments.any_user});
}

cli::ExitCode run_simgpu(const SimgpuArguments& arguments, const CLI::App& app, cli::Console& console) {
  cli::refuse_options_of_other_actions(app, name(arguments.action), kOptionsOfActions);
  const std::string state = state_file(arguments);
  const auto machine =
      arguments.action == SimgpuAction::create ? create(arguments, state) : simgpu::SimulatedMachine::open(state);
  if (arguments.action == SimgpuAction::run) {
    run_load(arguments, *machine, console);
    return cli::ExitCode::ok;
  }
  if (arguments.action == SimgpuAction::inject) inject(arguments, *machine);
  if (arguments.action == SimgpuAction::slow) slow(arguments, *machine);
  if (arguments.action == SimgpuAction::share) share(arguments, *machine);
  if (arguments.action == SimgpuAction::reset) {
    for (simgpu::SimulatedGpu* const gpu : chosen_gpus(*machine, arguments.gpu)) reset(*gpu);
  }
  show(*machine, state, arguments.json, console);
  if (arguments.action == SimgpuAction::create && !arguments.json) console.print(next_step(state));
  return cli::ExitCode::ok;
}

void declare_fault_options(CLI::App& app, simgpu::SimulatedFault& fault) {
  constexpr int kMaxReturnCode = 999;  // NVML_ERROR_UNKNOWN
  app.add_option("--call", fault.call, "inject: NVML function without prefix (DeviceSetGpuLockedClocks); * for all")
      ->type_name("NAME")
      ->default_str("*");
  cli::add_whole_number(
      app, "--return-code", {.low = 1, .high = kMaxReturnCode},
      [&fault](int code) { fault.return_code = static_cast<std::uint32_t>(code); }, "inject: nvmlReturn_t to return");
  cli::add_quantity(app, "--delay", Unit::second, {.low = 0, .high = 3600}, cli::into(fault.delay_s),
                    "inject: delay before the call returns, in s");
  cli::add_whole_number(
      app, "--count", {.low = 1, .high = INT32_MAX},
      [&fault](int count) { fault.count = static_cast<std::uint32_t>(count); },
      "inject: number of calls that get the fault (default: all)");
  app.add_flag("--stuck", fault.clock_stuck, "inject: setters succeed, but the SM clock does not change");
  app.add_flag("--lost", fault.lost, "inject: the GPU has fallen off the bus");
}

void declare_load_options(CLI::App& app, LoadArguments& load) {
  cli::add_quantity(app, "--time", Unit::second, {.low = 0, .high = simgpu::kMaxKernelS}, cli::into(load.time_s),
                    "run: how long the load runs, in s");
  cli::add_quantity(app, "--memory-share", Unit::share, {.low = 0, .high = 1}, cli::into(load.memory_share),
                    "run: share of the time that does not depend on the SM clock, 0 to 1")
      ->default_str("0");
  cli::add_quantity(app, "--load", Unit::share, {.low = 0, .high = 1}, cli::into(load.power),
                    "run: share of the GPU model's working power, 0 to 1")
      ->default_str("1");
  cli::add_quantity(app, "--busy", Unit::share, {.low = 0.001, .high = 1}, cli::into(load.busy),
                    "run: share of the time in which a kernel runs when it has the GPU alone; 0.001 to 1")
      ->default_str("1");
  cli::add_quantity(app, "--sm-share", Unit::share, {.low = 0.001, .high = 1}, cli::into(load.sm_share),
                    "run: share of the SMs that its kernels occupy, 0.001 to 1")
      ->default_str("1");
}

}  // namespace

cli::VerbAction declare_simgpu(CLI::App& app) {
  auto arguments = std::make_shared<SimgpuArguments>();
  cli::add_choice(
      app, "action", kActions, [arguments](std::size_t place) { arguments->action = static_cast<SimgpuAction>(place); },
      "create makes a machine, show prints its true state, inject adds a fault, slow slows kernels down, share lets "
      "processes take turns or run together, run runs a load, reset undoes all but the energy")
      ->required();
  app.add_option(
         "--state", arguments->state,
         "File of the simulated machine (default: LOWGEAR_SIMGPU). Programs use its GPUs where LOWGEAR_SIMGPU is this "
         "file and LOWGEAR_NVML the simulation's libnvidia-ml.so.1; create prints both")
      ->type_name("FILE");
  app.add_option("--gpus", arguments->gpus,
                 "create: the GPUs, of A40, A100, H100, H200, V100, RTX3090, A6000: 2xH100,A40; H100+power also has "
                 "power features of newer GPUs")
      ->type_name("LIST")
      ->default_str("H100");
  app.add_option("--gpu-file", arguments->gpu_file, "create: power of a measured GPU, for the GPUs of its model")
      ->type_name("FILE");
  cli::add_whole_number(app, "--seed", {.low = 0, .high = INT32_MAX}, cli::into(arguments->seed),
                        "create: random seed of switch latencies, sensors and UUIDs")
      ->default_str("1");
  app.add_flag("--virtual-time", arguments->virtual_time, "create: virtual time, which only kernels advance");
  app.add_flag("--any-user", arguments->any_user,
               "create: let every user, not only root, use the machine and set its clocks");
  cli::add_whole_number(app, "--gpu", {.low = 0, .high = simgpu::kMaxSimulatedGpus - 1}, cli::into(arguments->gpu),
                        "Index of the GPU (default: 0 for run, all for inject, slow, share and reset)");
  declare_fault_options(app, arguments->fault);
  cli::add_number(app, "--factor", {.low = 1, .high = simgpu::kMaxSlowdown}, cli::into(arguments->slowdown),
                  "slow: factor on the time of all kernels that start from now on; 1 ends it");
  cli::add_choice(
      app, "--by", kSharings,
      [arguments](std::size_t place) { arguments->sharing = static_cast<simgpu::KernelSharing>(place); },
      "share: kernels take turns, or run concurrently as by MPS");
  declare_load_options(app, arguments->load);
  cli::add_json_flag(app, arguments->json);
  cli::group_options(app, "Making a machine", {"--seed", "--virtual-time", "--any-user"});
  cli::group_options(app, "Faults, slowdowns, sharing",
                     {"--call", "--return-code", "--delay", "--count", "--stuck", "--lost", "--factor", "--by"});
  return [arguments, &app](cli::Console& console) { return run_simgpu(*arguments, app, console); };
}

}  // namespace lowgear::operations
