#include "app/cli/terminal/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "app/cli/terminal/interrupt.h"

namespace lowgear::cli {
namespace {

constexpr std::chrono::seconds kQuietAtFirst{2};
constexpr std::chrono::milliseconds kBetweenDrawings{100};
constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr int kBarCells = 24;

int terminal_width() {
  winsize size = {};
  constexpr int kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

/// A drawing that fails is no reason to stop the work.
void draw(std::string_view text) {
  [[maybe_unused]] const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

std::string progress_line(std::string_view activity, double fraction, int width) {
  std::string line(activity);
  if (fraction >= 0) {
    const double share = std::min(fraction, 1.0);
    const auto filled = static_cast<std::size_t>(share * kBarCells);
    line += fmt::format("  [{}{}] {:3.0f} %", std::string(filled, '#'), std::string(kBarCells - filled, '.'),
                        std::floor(share * 100));
  } else {
    line += " ...";
  }
  if (line.size() > static_cast<std::size_t>(width)) line.resize(static_cast<std::size_t>(width));
  return line;
}

ProgressBar::ProgressBar() : terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + kQuietAtFirst) {}

ProgressBar::~ProgressBar() {
  if (drawn_) draw(kEraseLine);
}

void ProgressBar::update(std::string_view activity, double fraction) {
  throw_if_interrupted();
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now < next_) return;
  next_ = now + kBetweenDrawings;
  drawn_ = true;
  draw(fmt::format("{}{}", kEraseLine, progress_line(activity, fraction, terminal_width() - 1)));
}

}  // namespace lowgear::cli
