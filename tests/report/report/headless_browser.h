#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lowgear::report {

struct BrowserWindow {
  int width_px = 1400;
  int height_px = 1000;
  bool dark = false;
};

/// Path of an installed Chromium; empty when there is none.
[[nodiscard]] std::optional<std::string> find_chromium();

/// Loads `html` in headless Chromium and returns the document as it is when its scripts have come to rest. The browser
/// has a profile of its own, is stopped after a minute, and leaves nothing behind. Throws std::runtime_error when it
/// cannot be run or exits with an error.
[[nodiscard]] std::string dump_dom(const std::string& chromium, std::string_view html, const BrowserWindow& window);

}  // namespace lowgear::report
