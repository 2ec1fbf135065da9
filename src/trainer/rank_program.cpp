#include "trainer/rank_program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "core/error.h"
#include "launcher/rank_processes.h"
#include "trainer/transport.h"

namespace lowgear {
namespace {

volatile std::sig_atomic_t end_was_asked_for = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

int run_rank(const std::function<void()>& work) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    work();
    return EXIT_SUCCESS;
  } catch (const InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const PeerLost& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kPeerLostExitCode;
  } catch (const std::exception& error) {
    const std::string_view text = error.what();  // libtorch's go on with a stack trace
    fmt::print(stderr, "error: {}\n", text.substr(0, text.find('\n')));
    return EXIT_FAILURE;
  }
}

void end_in_order_when_told() {
  struct sigaction action = {};
  action.sa_handler = [](int) { end_was_asked_for = 1; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal_number : {SIGTERM, SIGINT}) ::sigaction(signal_number, &action, nullptr);
}

bool asked_to_end() { return end_was_asked_for != 0; }

}  // namespace lowgear
