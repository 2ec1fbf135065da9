#include "client/agent/agent_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/core/error.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::client {

namespace {

[[noreturn]] void throw_system_error(std::string_view what) {
  throw Error(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

void throw_if_ended(const ipc::Frame& frame) {
  if (frame.type == ipc::FrameType::ended) throw LeaseEnded(ipc::decode_ended(frame.payload).reason);
}

}  // namespace

MappedUnitRing::MappedUnitRing(const FileDescriptor& memory) {
  struct stat status {};
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  if (::fstat(memory.get(), &status) != 0 || status.st_size != static_cast<off_t>(sizeof(ipc::UnitRing)) ||
      (::fcntl(memory.get(), F_GET_SEALS) & kSeals) != kSeals) {
    throw Error("the agent does not share a unit ring of this version; use a client and an agent of the same release");
  }
  void* mapped = ::mmap(nullptr, sizeof(ipc::UnitRing), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) throw_system_error("the agent's unit ring cannot be mapped");
  ring_ = static_cast<ipc::UnitRing*>(mapped);
  if (ring_->magic != ipc::kUnitRingMagic || ring_->version != ipc::kUnitRingVersion ||
      ring_->capacity != ipc::kUnitRingCapacity) {
    ::munmap(mapped, sizeof(ipc::UnitRing));
    throw Error("the agent shares a unit ring of another version; use a client and an agent of the same release");
  }
}

MappedUnitRing::~MappedUnitRing() { ::munmap(ring_, sizeof(ipc::UnitRing)); }

AgentConnection::AgentConnection(const std::filesystem::path& socket, const ipc::HelloMessage& hello,
                                 std::chrono::milliseconds timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  connect(socket);
  send_all(encode(hello), deadline);
  const ipc::Frame frame = receive(deadline);
  if (frame.type == ipc::FrameType::refused) {
    const ipc::RefusedMessage refused = ipc::decode_refused(frame.payload);
    if (refused.lasts) throw LeaseRefused(refused.reason);
    throw GpuHeld(refused.reason);
  }
  if (frame.type != ipc::FrameType::lease || !received_) throw Error("the agent's response is not a lease");
  lease_ = ipc::decode_lease(frame.payload);
  ring_ = std::make_shared<MappedUnitRing>(received_);
  received_.reset();
}

void AgentConnection::connect(const std::filesystem::path& socket) {
  const ipc::UnixAddress address = ipc::UnixAddress::of_path(socket);
  socket_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_) throw_system_error("no socket");
  if (::connect(socket_.get(), address.get(), address.size()) != 0) {
    throw Error(fmt::format("{}: {}", printable(socket.native()),
                            errno == EACCES ? "this user may not use the agent; its configuration names who may"
                                            : "no agent responds (" + std::generic_category().message(errno) + ")"));
  }
}

void AgentConnection::wait_for(short events, Deadline deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw Error("the agent does not respond");
    pollfd entry{.fd = socket_.get(), .events = events, .revents = 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<long long>(left.count(), 60'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) throw_system_error("poll");
  }
}

void AgentConnection::send_all(const std::vector<std::byte>& bytes, Deadline deadline) {
  std::span<const std::byte> rest(bytes);
  while (!rest.empty()) {
    const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest = rest.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      wait_for(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw_system_error("the agent is gone");
    }
  }
}

ipc::Frame AgentConnection::receive(Deadline deadline) {
  for (;;) {
    if (auto frame = reader_.next()) {
      throw_if_ended(*frame);
      return *std::move(frame);
    }
    wait_for(POLLIN, deadline);
    receive_some();
  }
}

void AgentConnection::receive_some() {
  std::array<std::byte, 4096> bytes{};
  const ssize_t received = ipc::receive_with_descriptor(socket_.get(), bytes, received_);
  if (received < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (received < 0) throw_system_error("the agent is gone");
  if (received == 0) throw Error("the agent has closed the connection");
  reader_.append(std::span(bytes).first(static_cast<std::size_t>(received)));
}

ipc::PlanAnswer AgentConnection::send_plan(const ipc::PlanMessage& plan, std::chrono::milliseconds timeout) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  try {
    send_all(encode(plan), deadline);
  } catch (const Error&) {
    check();  // the agent may have said why it has closed the connection
    throw;
  }
  const ipc::Frame frame = receive(deadline);
  if (frame.type == ipc::FrameType::accepted) return ipc::AcceptedMessage{};
  if (frame.type == ipc::FrameType::refused) return ipc::decode_refused(frame.payload);
  if (frame.type == ipc::FrameType::too_late) return ipc::decode_too_late(frame.payload);
  throw Error("the agent's response to a plan is not known");
}

void AgentConnection::check() {
  pollfd entry{.fd = socket_.get(), .events = POLLIN | POLLRDHUP, .revents = 0};
  for (;;) {
    // A received frame counts even if the connection has closed since: it may report the end of the lease.
    if (const std::optional<ipc::Frame> frame = reader_.next()) {
      throw_if_ended(*frame);
      throw Error("the agent sent an unexpected message");
    }
    if (::poll(&entry, 1, 0) <= 0) return;
    receive_some();
  }
}

void AgentConnection::release() noexcept {
  try {
    send_all(encode_empty(ipc::FrameType::release), std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  } catch (const std::exception&) {
    // The agent is gone, or the closed socket will tell it.
  }
  socket_.reset();
}

namespace {

constexpr int kConflict = 409;
constexpr int kServerErrors = 500;
constexpr std::size_t kMaxAnswerValues = 20'000;

/// The agent's message for a person.
std::string reason_of(const Json& body, int status) {
  if (body.is_object() && body.contains("error") && body["error"].is_object() && body["error"].contains("message") &&
      body["error"]["message"].is_string()) {
    return body["error"]["message"].get<std::string>();
  }
  return fmt::format("the agent responded with HTTP status {}", status);
}

}  // namespace

std::filesystem::path agent_http_socket(const std::filesystem::path& lease_socket, const Environment& environment) {
  if (const auto named = environment("LOWGEAR_AGENT_HTTP_SOCKET")) return *named;
  return lease_socket.empty() ? lease_socket : lease_socket.parent_path() / "agent.sock";
}

AgentSettings::AgentSettings(const std::filesystem::path& socket, std::chrono::milliseconds timeout)
    : timeout_(timeout), agent_(http::Endpoint{.host = {}, .port = 0, .unix_path = socket.string()}) {}

Json AgentSettings::ask(std::string_view method, const std::string& target, const std::string& body) {
  const std::lock_guard lock(mutex_);
  const http::ReplyText reply = agent_.request(method, target, body, {}, timeout_);
  Json answer = parse_json(reply.body, "the agent's response", kMaxAnswerValues);
  if (reply.status == kConflict) throw GpuHeld(reason_of(answer, reply.status));
  if (reply.status >= kServerErrors) throw Error(reason_of(answer, reply.status));
  if (reply.status >= 400) throw LeaseRefused(reason_of(answer, reply.status));
  return answer;
}

std::uint64_t AgentSettings::set(const std::string& gpu, std::string_view what, const Json& value) {
  const Json answer = ask("POST", fmt::format("/v1/gpus/{}/{}", gpu, what), value.dump());
  const JsonView view(answer, "the agent's response");
  if (view.at("dry_run").boolean()) {
    throw LeaseRefused("the agent was started with --no-writes: it sets nothing");
  }
  return static_cast<std::uint64_t>(view.at("gpu").at("lease").integer());
}

std::uint64_t AgentSettings::lock_clock(const std::string& gpu, int clock_mhz) {
  return set(gpu, "clocks", {{"min_mhz", clock_mhz}, {"max_mhz", clock_mhz}});
}

std::uint64_t AgentSettings::set_power_limit(const std::string& gpu, double limit_w) {
  return set(gpu, "power_limit", {{"power_limit_w", limit_w}});
}

void AgentSettings::require_held(const std::string& gpu, std::uint64_t lease) {
  const Json answer = ask("GET", "/v1/gpus/" + gpu, {});
  const JsonView view = JsonView(answer, "the agent's response").at("gpu");
  if (view.at("lease").json() != Json(lease)) {
    throw LeaseRefused(
        fmt::format("the lease of {} has ended: an administrator has ended it, or the agent has started "
                    "again",
                    gpu));
  }
  const std::string state = view.at("clocks").at("state").text();
  if (state == "foreign") throw LeaseRefused(fmt::format("another program sets {}", gpu));
}

void AgentSettings::release(std::uint64_t lease) { (void)ask("DELETE", fmt::format("/v1/leases/{}", lease), {}); }

}  // namespace lowgear::client
