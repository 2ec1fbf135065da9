/// agent_http_fixture SOCKET [snapshot]: the agent's HTTP side over two simulated GPUs that exist only here, for tests
/// in other languages; `snapshot`: with the power streams of zeusd 0.4. Says `ready` when it listens, ends with its
/// standard input.
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <exception>
#include <string_view>

#include "agent/fake_agent_service.h"
#include "agent/http/http_api.h"

int main(int argc, char** argv) try {
  const bool snapshots = argc == 3 && std::string_view(argv[2]) == "snapshot";
  if (argc != 2 && !snapshots) {
    std::fputs("usage: agent_http_fixture SOCKET [snapshot]\n", stderr);
    return 2;
  }
  boost::asio::io_context io;
  lowgear::agent::FakeAgentService service;
  lowgear::agent::FakeCpuMeter cpu_meter;
  lowgear::agent::HttpApiOptions options;
  if (snapshots) options.zeusd_events = lowgear::agent::ZeusdEvents::snapshot;
  lowgear::agent::HttpApi server(io, service, &cpu_meter, options);
  server.listen_unix(argv[1], 0600);

  boost::asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  input.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                   [&](const boost::system::error_code&) { server.stop(); });
  std::puts("ready");
  std::fflush(stdout);
  io.run();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "agent_http_fixture: %s\n", error.what());
  return 1;
}
