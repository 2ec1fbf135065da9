#include "training/trainer/run/rank_program.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "base/core/log.h"
#include "training/launcher/rank_processes.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {
namespace {

/// 0: none.
volatile std::sig_atomic_t received_signal = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

bool is_ignored(int signal_number) {
  struct sigaction action = {};
  return ::sigaction(signal_number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

int run_rank(const std::function<int()>& work) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const char* launcher =
        std::getenv(launcher::kLauncherReleaseVariable);  // NOLINT(concurrency-mt-unsafe): no other thread yet
    set_log_level(process_environment());
    launcher::require_release_of(launcher != nullptr ? std::optional<std::string>(launcher) : std::nullopt);
    return work();
  } catch (const InputError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 2;
  } catch (const PeerLost& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return launcher::kPeerLostExitCode;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", first_line(error));
    return EXIT_FAILURE;
  }
}

std::string first_line(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

void end_in_order_when_told() {
  struct sigaction action = {};
  action.sa_handler = [](int signal_number) { received_signal = signal_number; };
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);  // also where a parent ignores it: a launcher asks by it
  for (const int signal_number : {SIGINT, SIGHUP}) {
    if (!is_ignored(signal_number)) ::sigaction(signal_number, &action, nullptr);
  }
}

bool asked_to_end() { return received_signal != 0; }

int ended_early_exit_code() { return asked_to_end() ? 128 + received_signal : launcher::kEndedEarlyExitCode; }

}  // namespace lowgear::trainer
