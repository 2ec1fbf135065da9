#include "server/load_connections.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/core/error.h"
#include "base/core/eventually.h"

namespace lowgear::server {
namespace {

constexpr std::size_t kBufferBytes = 256 * 1024;

void write_token(const std::filesystem::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::string line = fmt::format("admin {}\n", Process::token());
  if (!file || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw Error(fmt::format("{}: cannot be written", path.string()));
  }
}

}  // namespace

pid_t fork_with_parent() {
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) throw Error("no process can be started");
  if (process > 0) return process;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(99);
  return 0;
}

std::string_view Process::token() { return "of-a-server-under-test"; }

Process::Process(std::filesystem::path binary, std::filesystem::path folder)
    : binary_(std::move(binary)), folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  write_token(folder_ / "tokens");
}

Process::~Process() {
  if (process_ > 0) kill();
}

void Process::launch() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error("no pipe can be made");
  output_ = FileDescriptor(ends[0]);
  const FileDescriptor write_end(ends[1]);
  const std::string state = state_folder().string();
  const std::string path = socket().string();
  const std::string tokens = (folder_ / "tokens").string();
  const std::string config = (folder_ / "server.yaml").string();
  std::ofstream(config).flush();
  std::filesystem::permissions(config, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  process_ = fork_with_parent();
  if (process_ > 0) return;
  ::dup2(write_end.get(), STDOUT_FILENO);
  ::execl(binary_.c_str(), "lowgear", "serve", "--config", config.c_str(), "--state", state.c_str(), "--unix",
          path.c_str(), "--listen", "127.0.0.1:0", "--token-file", tokens.c_str(), nullptr);
  ::_exit(127);
}

void Process::await_start() {
  std::string text;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (text.find('\n') == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd readable{.fd = output_.get(), .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      throw Error("the server does not start");
    }
    std::array<char, 512> buffer{};
    const ssize_t count = ::read(output_.get(), buffer.data(), buffer.size());
    if (count <= 0) throw Error("the server ended as it started");
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  // `serving on unix:PATH, http://127.0.0.1:PORT`
  const std::string_view address = "127.0.0.1:";
  const std::size_t found = text.find(address);
  if (found == std::string::npos) throw Error(fmt::format("the server says {}", text));
  std::from_chars(text.data() + found + address.size(), text.data() + text.size(), port_);
}

int Process::wait() {
  int status = 0;
  if (::waitpid(std::exchange(process_, -1), &status, 0) < 0) throw Error("the server cannot be waited for");
  return status;
}

void Process::kill() {
  ::kill(process_, SIGKILL);
  const int status = wait();
  if (!WIFSIGNALED(status)) throw Error(fmt::format("the server had ended by itself ({})", WEXITSTATUS(status)));
}

void Process::stop() {
  ::kill(process_, SIGTERM);
  const int status = wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw Error("the server did not end in good order");
}

double Process::peak_memory_mb() const {
  std::ifstream status(fmt::format("/proc/{}/status", process_));
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024 / 1e6;
  }
  throw Error("the server's memory cannot be read");
}

double Process::cpu_time_s() const {
  std::ifstream stat(fmt::format("/proc/{}/stat", process_));
  std::string word;
  double user = 0;
  double system = 0;
  for (int field = 1; field < 14; ++field) stat >> word;
  stat >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

LoadConnections::LoadConnections(std::filesystem::path socket, std::uint16_t port)
    : socket_(std::move(socket)), port_(port), poll_(::epoll_create1(EPOLL_CLOEXEC)), buffer_(kBufferBytes) {}

std::size_t LoadConnections::add(std::size_t count) {
  const std::size_t first = connections_.size();
  connections_.resize(first + count);
  return first;
}

FileDescriptor LoadConnections::connect() const {
  const int family = port_ == 0 ? AF_UNIX : AF_INET;
  FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw Error("no more sockets: the process may not open that many files");
  int failed = 0;
  if (port_ == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket_.c_str(), sizeof(address.sun_path) - 1);
    failed = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int enabled = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
    // A reset in place of a long goodbye: thousands of ports are needed again soon.
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    failed = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  if (failed != 0) socket.reset();
  return socket;
}

void LoadConnections::watch(std::size_t connection, bool for_room, bool is_new) {
  epoll_event event{.events = for_room ? EPOLLIN | EPOLLOUT : EPOLLIN, .data = {.u64 = connection}};
  ::epoll_ctl(poll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, connections_[connection].socket.get(), &event);
}

void LoadConnections::send(std::size_t connection, std::string_view method, std::string_view target,
                           std::string_view body, std::string_view rank_key) {
  Connection& each = connections_[connection];
  if (each.busy) throw Error("a connection has a request under way");
  each.busy = true;
  if (!each.socket) {
    each.socket = connect();
    if (!each.socket) return unconnected_.push_back(connection);
    watch(connection, false, true);
  }
  each.output = fmt::format("{} {} HTTP/1.1\r\nHost: server\r\n", method, target);
  if (port_ != 0) each.output += fmt::format("Authorization: Bearer {}\r\n", Process::token());
  if (!rank_key.empty()) each.output += fmt::format("Lowgear-Rank-Key: {}\r\n", rank_key);
  if (!body.empty()) each.output += fmt::format("Content-Length: {}\r\n", body.size());
  each.output += "\r\n";
  each.output += body;
  flush(connection);
  if (!each.output.empty()) watch(connection, true, false);
}

void LoadConnections::flush(std::size_t connection) {
  Connection& each = connections_[connection];
  const ssize_t sent = ::send(each.socket.get(), each.output.data(), each.output.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) each.output.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 && errno != EAGAIN) each.output.clear();  // the end of the input says it
}

void LoadConnections::lose(std::size_t connection, const Answered& answered) {
  Connection& each = connections_[connection];
  each.socket.reset();
  each.input.clear();
  each.output.clear();
  each.streams = false;
  // One that the server closed while nothing was asked is no loss.
  if (std::exchange(each.busy, false)) answered(connection, {});
}

void LoadConnections::read(std::size_t connection, const Answered& answered) {
  Connection& each = connections_[connection];
  const ssize_t received = ::recv(each.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (received < 0 && errno == EAGAIN) return;
  if (received <= 0) return lose(connection, answered);
  each.input.append(buffer_.data(), static_cast<std::size_t>(received));
  const auto count_events = [&] {
    for (std::size_t at = 0; (at = each.input.find("\n\n", at)) != std::string::npos; at += 2) ++events_;
    each.input.erase(0, each.input.size() - (each.input.ends_with("\n\n") ? 0 : 1));
  };
  if (each.streams) return count_events();
  const std::size_t head = each.input.find("\r\n\r\n");
  if (head == std::string::npos) return;
  const std::string_view top = std::string_view(each.input).substr(0, head);
  int status = 0;
  std::from_chars(top.data() + 9, top.data() + 12, status);
  const std::string_view length_name = "Content-Length: ";
  const std::size_t length = top.find(length_name);
  std::size_t size = 0;
  if (length != std::string_view::npos) {
    std::from_chars(top.data() + length + length_name.size(), top.data() + top.size(), size);
  }
  if (each.input.size() < head + 4 + size) return;
  each.busy = false;
  if (top.find("text/event-stream") != std::string_view::npos) {
    each.streams = true;
    each.input.erase(0, head + 4);
    count_events();
    return answered(connection, {.status = status, .body = {}});
  }
  const std::string input = std::exchange(each.input, {});
  answered(connection, {.status = status, .body = std::string_view(input).substr(head + 4)});
}

void LoadConnections::receive(Clock::duration patience, const Answered& answered) {
  for (const std::size_t connection : std::exchange(unconnected_, {})) lose(connection, answered);
  std::array<epoll_event, 512> events{};
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(patience, Clock::duration::zero()));
  const timespec timeout{.tv_sec = ns.count() / 1'000'000'000, .tv_nsec = ns.count() % 1'000'000'000};
  const int ready = ::epoll_pwait2(poll_.get(), events.data(), events.size(), &timeout, nullptr);
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::size_t connection = event.data.u64;
    if ((event.events & EPOLLOUT) != 0) {
      flush(connection);
      if (connections_[connection].output.empty()) watch(connection, false, false);
    }
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) read(connection, answered);
  }
}

LoadConnections::Whole LoadConnections::ask(std::size_t connection, std::string_view method, std::string_view target,
                                            std::string_view body, std::string_view rank_key) {
  send(connection, method, target, body, rank_key);
  Whole whole;
  bool there = false;
  const Clock::time_point deadline = Clock::now() + kPatience;
  while (!there) {
    if (Clock::now() > deadline) throw Error(fmt::format("no answer to {} {}", method, target));
    receive(std::chrono::milliseconds(100), [&](std::size_t from, const LoadAnswer& answer) {
      if (from != connection) throw Error("an answer that no request waits for");
      whole = {.status = answer.status, .body = std::string(answer.body)};
      there = true;
    });
  }
  return whole;
}

std::string_view member_text(std::string_view json, std::string_view name) {
  const std::string key = fmt::format("\"{}\":", name);
  const std::size_t found = json.find(key);
  if (found == std::string_view::npos) return {};
  std::string_view rest = json.substr(found + key.size());
  if (!rest.starts_with('"')) return rest.substr(0, rest.find_first_of(",}]"));
  rest.remove_prefix(1);
  return rest.substr(0, rest.find('"'));
}

std::int64_t member_integer(std::string_view json, std::string_view name) {
  const std::string_view text = member_text(json, name);
  std::int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace lowgear::server
