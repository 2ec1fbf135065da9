#include "app/operations/doctor/agent_reach.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/core/files/user_database.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::operations::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLeaseSocket = "/run/lowgear/lease.sock";  ///< of an agent whose configuration names none

/// How an agent is started where none has run yet.
std::string first_start(AgentGpus gpus) {
  if (gpus == AgentGpus::simulated) {
    return "lowgear agent init --config trial/agent.yaml, once, writes a configuration for the simulated GPUs; lowgear "
           "agent --config trial/agent.yaml starts it, so that clocks can follow plans; then export "
           "LOWGEAR_AGENT_SOCKET=$PWD/trial/lease.sock";
  }
  return "sudo lowgear agent init, once, writes its configuration; sudo lowgear agent (of the package: sudo systemctl "
         "enable --now lowgear-agent) starts it, so that clocks can follow plans (measuring does not need it). For one "
         "at another path set LOWGEAR_AGENT_SOCKET to its lease socket";
}

std::string another_start(AgentGpus gpus) {
  return fmt::format(
      "start it again ({}): it also restores clocks that it had set; or set LOWGEAR_AGENT_SOCKET to the "
      "lease socket of another one",
      gpus == AgentGpus::simulated ? "lowgear agent --config FILE"
                                   : "sudo systemctl restart lowgear-agent, or sudo lowgear agent");
}

/// How this user comes to use a socket that the system keeps from them.
std::string admission(const std::string& socket) {
  struct stat status {};
  if (::stat(socket.c_str(), &status) != 0 || (status.st_mode & S_IWGRP) == 0 || status.st_gid == 0) {
    return "ask root for access: sockets.group in the agent's configuration lets the members of a group use it";
  }
  const std::string group = find_group_name(status.st_gid).value_or(std::to_string(status.st_gid));
  return fmt::format("join its group, {0}: sudo usermod -aG {0} {1}, then log in again", printable(group),
                     printable(find_user_name(::geteuid()).value_or("USER")));
}

}  // namespace

AgentReach reach_agent(const fs::path& socket) {
  struct stat status {};
  if (::stat(socket.c_str(), &status) != 0) {
    if (errno == EACCES) return AgentReach::forbidden;
    return errno == ENOENT || errno == ENOTDIR ? AgentReach::absent : AgentReach::failed;
  }
  if (!S_ISSOCK(status.st_mode)) return AgentReach::not_socket;
  if (socket.native().size() > ipc::kMaxUnixPathBytes) return AgentReach::failed;
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(socket);
  const FileDescriptor client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client) return AgentReach::failed;
  const bool connected = ::connect(client.get(), address.get(), address.size()) == 0;
  const int error = errno;
  // A full queue (EAGAIN) is a listener that is busy.
  if (connected || error == EAGAIN) return AgentReach::answers;
  if (error == ECONNREFUSED) return AgentReach::refused;
  return error == EACCES || error == EPERM ? AgentReach::forbidden : AgentReach::failed;
}

AgentGpus agent_gpus(const Environment& environment) {
  return environment("LOWGEAR_SIMGPU").value_or("").empty() ? AgentGpus::real : AgentGpus::simulated;
}

std::string agent_socket(const Environment& environment) {
  const std::string named = environment("LOWGEAR_AGENT_SOCKET").value_or("");
  return named.empty() ? kLeaseSocket : named;
}

AgentProblem problem_of(AgentReach reach, const std::string& socket, AgentGpus gpus) {
  const std::string name = printable(socket);
  const std::string another = "set LOWGEAR_AGENT_SOCKET to the agent's lease socket";
  switch (reach) {
    case AgentReach::absent:
      if (fs::path(socket).parent_path() != fs::path(kLeaseSocket).parent_path()) {
        return {fmt::format("there is no {}", name),
                fmt::format("start the agent that listens there ({}lowgear agent --config FILE), or set "
                            "LOWGEAR_AGENT_SOCKET to the lease socket of another one",
                            gpus == AgentGpus::simulated ? "" : "sudo ")};
      }
      return {fmt::format("there is no {}", name), first_start(gpus)};
    case AgentReach::refused:
      return {fmt::format("nothing listens at {} any more", name), another_start(gpus)};
    case AgentReach::forbidden:
      return {fmt::format("this user may not use {}", name), admission(socket)};
    case AgentReach::not_socket:
      return {fmt::format("{} is not a socket", name), another};
    case AgentReach::answers:
    case AgentReach::failed:
      break;
  }
  return {fmt::format("{} cannot be reached", name), another};
}

std::optional<AgentProblem> agent_problem(const Environment& environment) {
  if (environment("LOWGEAR_AGENT_SOCKET") == "") {
    return AgentProblem{"LOWGEAR_AGENT_SOCKET is empty, so that no agent is used", "unset it"};
  }
  const std::string socket = agent_socket(environment);
  const AgentReach reach = reach_agent(socket);
  if (reach == AgentReach::answers) return std::nullopt;
  return problem_of(reach, socket, agent_gpus(environment));
}

}  // namespace lowgear::operations::doctor
