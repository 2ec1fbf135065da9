/// The HTTP server under the load of a large job, on loopback, with one thread for the server and another process for
/// all clients: what a connection takes of memory, requests per second, latency at 1,000 requests/s with 10,000 open
/// connections, and how long it takes to answer 1,024 requests that wait.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/http/server/server.h"

namespace {

using namespace lowgear;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kConnections = 10'000;
constexpr std::size_t kWaiting = 1024;
constexpr std::size_t kBodyBytes = 4096;
constexpr int kRounds = 5;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// `/body`: at once. `/wait`: with the next `/release`, which says how long that took and how large the process is.
class Handler : public http::Handler {
 public:
  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override {
    if (request.path == "/wait") return waiting_.push_back(std::move(reply));
    if (request.path != "/release") return reply->send(body_);
    const auto begin = Clock::now();
    for (const auto& each : std::exchange(waiting_, {})) each->send(body_);
    reply->send(
        http::Response::with_body(200, "text/plain", fmt::format("{:.2f} {}", ms_since(begin), resident_bytes())));
  }

 private:
  std::vector<std::shared_ptr<http::Reply>> waiting_;
  http::Response body_ = http::Response::with_body(200, "application/json", std::string(kBodyBytes, 'x'));
};

/// Many connections to the server, read together.
class Clients {
 public:
  Clients(std::uint16_t port, std::size_t count) : poll_(::epoll_create1(EPOLL_CLOEXEC)), connections_(count) {
    for (std::size_t i = 0; i < count; ++i) connections_[i].socket = connect(port, i);
  }

  void send(std::size_t connection, std::string_view target) {
    Connection& each = connections_[connection];
    each.sent = Clock::now();
    const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    if (::send(each.socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) throw Error("cannot send");
  }

  /// Calls `answered` with the connection and the body of every answer that comes within the time.
  template <typename Answered>
  void receive(int timeout_ms, Answered answered) {
    std::array<epoll_event, 512> events{};
    const int ready = ::epoll_wait(poll_.get(), events.data(), events.size(), timeout_ms);
    for (int i = 0; i < ready; ++i) {
      const std::size_t index = events[static_cast<std::size_t>(i)].data.u64;
      Connection& each = connections_[index];
      std::array<char, 16 * 1024> buffer{};
      const ssize_t received = ::recv(each.socket.get(), buffer.data(), buffer.size(), 0);
      if (received <= 0) throw Error("the server has closed a connection");
      each.input.append(buffer.data(), static_cast<std::size_t>(received));
      const std::size_t head = each.input.find("\r\n\r\n");
      const std::size_t length = each.input.find("Content-Length: ");
      if (head == std::string::npos || length == std::string::npos) continue;
      const std::size_t size = head + 4 + std::stoul(each.input.substr(length + 16));
      if (each.input.size() < size) continue;
      const std::string body = each.input.substr(head + 4);
      each.input.clear();
      answered(index, body);
    }
  }
  [[nodiscard]] double ms_since_sent(std::size_t connection) const { return ms_since(connections_[connection].sent); }

 private:
  struct Connection {
    FileDescriptor socket;
    std::string input;
    Clock::time_point sent;
  };

  FileDescriptor connect(std::uint16_t port, std::size_t index) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int enabled = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &enabled, sizeof(enabled));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw Error("cannot connect; may the process open that many files?");
    }
    epoll_event event{.events = EPOLLIN, .data = {.u64 = index}};
    ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, socket.get(), &event);
    return socket;
  }

  FileDescriptor poll_;
  std::vector<Connection> connections_;
};

double quantile(std::vector<double>& values, double fraction) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1))];
}

/// One answer from each connection; all are sent first.
void ask_all(Clients& clients, std::size_t count, int rounds) {
  const auto begin = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < count; ++i) clients.send(i, "/body");
    std::size_t answers = 0;
    while (answers < count) clients.receive(1000, [&](std::size_t, const std::string&) { ++answers; });
  }
  const double seconds = ms_since(begin) / 1e3;
  const double requests = static_cast<double>(count) * rounds;
  fmt::print("{} requests over {} connections: {:.2f} s, {:.0f} requests/s\n", requests, count, seconds,
             requests / seconds);
}

void ask_steadily(Clients& clients, int requests_per_s, int seconds) {
  constexpr std::size_t kAsking = 256;
  std::vector<double> latencies_ms;
  const auto begin = Clock::now();
  const std::chrono::nanoseconds period(1'000'000'000 / requests_per_s);
  const int requests = requests_per_s * seconds;
  const auto note = [&](std::size_t index, const std::string&) {
    latencies_ms.push_back(clients.ms_since_sent(index));
  };
  for (int i = 0; i < requests; ++i) {
    while (Clock::now() < begin + i * period) clients.receive(0, note);
    clients.send(static_cast<std::size_t>(i) % kAsking, "/body");
  }
  while (latencies_ms.size() < static_cast<std::size_t>(requests)) clients.receive(1000, note);
  fmt::print("{} requests/s for {} s beside {} connections: p50 {:.2f} ms, p99 {:.2f} ms, max {:.2f} ms\n",
             requests_per_s, seconds, kConnections, quantile(latencies_ms, 0.5), quantile(latencies_ms, 0.99),
             latencies_ms.back());
}

void answer_waiting(Clients& clients) {
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kWaiting; ++i) clients.send(i, "/wait");
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const auto begin = Clock::now();
    clients.send(kWaiting, "/release");
    std::size_t answers = 0;
    std::string server;
    while (answers < kWaiting + 1) {
      clients.receive(1000, [&](std::size_t index, const std::string& body) {
        ++answers;
        if (index == kWaiting) server = body;
      });
    }
    const double all_ms = ms_since(begin);
    fmt::print("{} waiting requests answered: {} ms in the server, {:.2f} ms until the last was read\n", kWaiting,
               server.substr(0, server.find(' ')), all_ms);
  }
}

void run_clients(std::uint16_t port) {
  const auto begin = Clock::now();
  Clients clients(port, kConnections);
  fmt::print("{} connections: {:.2f} s\n", kConnections, ms_since(begin) / 1e3);
  ask_all(clients, kConnections, 10);
  clients.send(0, "/release");
  clients.receive(1000, [&](std::size_t, const std::string& body) {
    fmt::print("resident in the server: {:.1f} MB\n", std::stod(body.substr(body.find(' '))) / 1e6);
  });
  ask_steadily(clients, 1000, 5);
  answer_waiting(clients);
}

}  // namespace

int main() try {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);

  boost::asio::io_context io(1);
  Handler handler;
  http::Server server(io, handler);
  const std::uint16_t port = server.listen_tcp("127.0.0.1", 0);
  fmt::print("resident before: {:.1f} MB\n", static_cast<double>(resident_bytes()) / 1e6);
  std::fflush(stdout);
  const pid_t clients = ::fork();
  if (clients == 0) {
    int status = 0;
    try {
      run_clients(port);
    } catch (const std::exception& error) {
      fmt::print(stderr, "http_study: {}\n", error.what());
      status = 1;
    }
    std::fflush(stdout);
    ::_exit(status);
  }
  int status = 1;
  std::thread waiting([&] {
    ::waitpid(clients, &status, 0);
    io.stop();
  });
  io.run();
  waiting.join();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "http_study: {}\n", error.what());
  return 1;
}
