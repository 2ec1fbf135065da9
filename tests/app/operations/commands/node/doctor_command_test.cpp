#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "app/operations/doctor/agent_reach.h"
#include "app/operations/doctor/machine_facts.h"
#include "base/core/files/user_database.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::operations {
namespace {

using cli::ProgramResult;
using cli::run_lowgear;
using cli::write_text;

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

/// A Unix socket that is bound, and listens until it is destroyed.
class Listener {
 public:
  explicit Listener(const fs::path& path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const ipc::UnixAddress address = ipc::UnixAddress::of_path(path);
    EXPECT_EQ(::bind(descriptor_, address.get(), address.size()), 0);
    EXPECT_EQ(::listen(descriptor_, 1), 0);
  }
  ~Listener() { ::close(descriptor_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  int descriptor_;
};

TEST(Doctor, WithoutADriverSaysSoAndFails) {
  const auto no_driver = [] { ::setenv("LOWGEAR_NVML", "/nowhere/libnvidia-ml.so.1", 1); };
  const ProgramResult result = run_lowgear({"doctor"}, no_driver);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, AllOf(HasSubstr("BROKEN"), HasSubstr("/nowhere/libnvidia-ml.so.1"), HasSubstr("unset")));
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << "colours are for terminals";

  const ProgramResult json = run_lowgear({"doctor", "--json"}, no_driver);
  EXPECT_EQ(json.exit_code, 1);
  const Json facts = Json::parse(json.out);
  EXPECT_FALSE(facts.at("can_measure").get<bool>());
  EXPECT_FALSE(facts.at("nvml").at("found").get<bool>());
  EXPECT_EQ(facts.at("nvml").at("code"), "driver_missing");
}

TEST(Doctor, LooksAtTheSocketThatTheEnvironmentNames) {
  const TemporaryFolder folder;
  const std::string path = (folder / "lease.sock").string();
  const Listener agent(path);
  const ProgramResult result =
      run_lowgear({"doctor", "--json"}, [&] { ::setenv("LOWGEAR_AGENT_SOCKET", path.c_str(), 1); });
  const Json agent_facts = Json::parse(result.out).at("agent");
  EXPECT_EQ(agent_facts.at("socket"), path);
  EXPECT_EQ(agent_facts.at("state"), "answers");
}

TEST(Doctor, SeesStubLibrariesAsAnyNvmlProgramDoes) {
  const ProgramResult result = run_lowgear({"doctor", "--json"}, [] { ::setenv("LOWGEAR_NVML", FAKE_NVML, 1); });
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  const Json facts = Json::parse(result.out);
  EXPECT_EQ(facts.at("nvml").at("library"), FAKE_NVML);
  EXPECT_TRUE(facts.at("nvml").at("simulated").get<bool>());
  EXPECT_EQ(facts.at("nvml").at("gpus").size(), 2U);
  EXPECT_TRUE(facts.at("nvml").at("gpus").at(1).at("mig").get<bool>());
}

/// `lowgear doctor` with a Python that is this script.
ProgramResult doctor_with(const fs::path& folder, const std::string& script, std::vector<std::string> more = {}) {
  const std::string python = write_text(folder / "python", "#!/bin/sh\n" + script + "\n");
  fs::permissions(python, fs::perms::owner_all);
  more.insert(more.begin(), {"doctor", "--python", python});
  return run_lowgear(std::move(more), [] { ::setenv("LOWGEAR_NVML", FAKE_NVML, 1); });
}

TEST(Doctor, DoesNotFailForAPythonThatDoes) {
  const TemporaryFolder folder;
  const ProgramResult broken = doctor_with(folder / "", "echo SyntaxError: invalid syntax >&2; exit 1");
  EXPECT_EQ(broken.exit_code, 0) << broken.err;
  EXPECT_THAT(broken.out, AllOf(HasSubstr("ended with 1: SyntaxError: invalid syntax"), HasSubstr("--python PATH"),
                                HasSubstr("Lowgear can measure here.")));
  const ProgramResult rubbish = doctor_with(folder / "", "echo hello", {"--json"});
  EXPECT_EQ(rubbish.exit_code, 0) << rubbish.err;
  const Json python = Json::parse(rubbish.out).at("python");
  EXPECT_THAT(python.at("problem").get<std::string>(), HasSubstr("gave no report"));
  EXPECT_TRUE(python.at("report").is_null());
  const ProgramResult missing =
      run_lowgear({"doctor", "--python", "/no/such/python"}, [] { ::setenv("LOWGEAR_NVML", FAKE_NVML, 1); });
  EXPECT_EQ(missing.exit_code, 0) << missing.err;
  EXPECT_THAT(missing.out, HasSubstr("/no/such/python cannot be started: No such file or directory"));
}

TEST(ReachAgent, TellsTheStatesOfASocketApart) {
  const TemporaryFolder folder;
  EXPECT_EQ(doctor::reach_agent(folder / "none"), doctor::AgentReach::absent);
  EXPECT_EQ(doctor::reach_agent(write_text(folder / "file", "")), doctor::AgentReach::not_socket);
  EXPECT_EQ(doctor::reach_agent(folder / "file" / "below"), doctor::AgentReach::absent);
  {
    const Listener listener(folder / "socket");
    EXPECT_EQ(doctor::reach_agent(folder / "socket"), doctor::AgentReach::answers);
  }
  EXPECT_EQ(doctor::reach_agent(folder / "socket"), doctor::AgentReach::refused);
  EXPECT_EQ(doctor::reach_agent(fs::path("/") / std::string(300, 'x')), doctor::AgentReach::failed);
}

TEST(ReachAgent, NamesTheGroupThatMayUseTheSocket) {
  const TemporaryFolder folder;
  const fs::path socket = folder / "socket";
  const Listener listener(socket);
  const auto step = [&](mode_t mode) {
    EXPECT_EQ(::chmod(socket.c_str(), mode), 0);
    return doctor::problem_of(doctor::AgentReach::forbidden, socket.string(), doctor::AgentGpus::real).next_step;
  };
  EXPECT_THAT(step(0600), HasSubstr("sockets.group"));
  if (::chown(socket.c_str(), static_cast<uid_t>(-1), 1) != 0) GTEST_SKIP() << "only root gives files away";
  EXPECT_THAT(step(0660), HasSubstr(fmt::format("sudo usermod -aG {} ", find_group_name(1).value_or("1"))));
}

TEST(MachineFacts, AreReadBelowARoot) {
  const TemporaryFolder root;
  fs::create_directories(root / "sys/bus/pci/devices/0000:00:06.0");
  fs::create_directories(root / "sys/bus/pci/devices/0000:00:07.0");
  write_text(root / "sys/bus/pci/devices/0000:00:06.0/vendor", "0x10de\n");
  write_text(root / "sys/bus/pci/devices/0000:00:06.0/class", "0x030200\n");
  write_text(root / "sys/bus/pci/devices/0000:00:07.0/vendor", "0x10de\n");
  write_text(root / "sys/bus/pci/devices/0000:00:07.0/class", "0x068000\n");  // an NVSwitch
  fs::create_directories(root / "sys/module/nvidia");
  write_text(root / "sys/module/nvidia/version", "580.159.04\n");
  fs::create_directories(root / "proc/self");
  write_text(root / "proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n");
  const doctor::MachineFacts facts = doctor::collect_machine_facts(root / "");
  EXPECT_EQ(facts.nvidia_pci_gpus, 1);
  EXPECT_EQ(facts.kernel_module_version, "580.159.04");
  EXPECT_TRUE(facts.cap_sys_admin);
  EXPECT_FALSE(facts.device_nodes);
  EXPECT_THAT(facts.rapl_problem, HasSubstr("no CPU energy counters"));
  EXPECT_TRUE(facts.rapl_zones.empty());
}

TEST(MachineFacts, KnowContainersByTheirMarks) {
  const TemporaryFolder root;
  EXPECT_EQ(doctor::container_kind(root / ""), "");
  fs::create_directories(root / "proc/1");
  write_text(root / "proc/1/cgroup", "0::/kubepods/besteffort/pod1\n");
  EXPECT_EQ(doctor::container_kind(root / ""), "kubernetes");
  fs::create_directories(root / "run/systemd");
  write_text(root / "run/systemd/container", "systemd-nspawn\n");
  EXPECT_EQ(doctor::container_kind(root / ""), "systemd-nspawn");
  write_text(root / "run/.containerenv", "");
  EXPECT_EQ(doctor::container_kind(root / ""), "podman");
  write_text(root / ".dockerenv", "");
  EXPECT_EQ(doctor::container_kind(root / ""), "docker");
}

}  // namespace
}  // namespace lowgear::operations
