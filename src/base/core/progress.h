#pragma once

#include <string_view>

namespace lowgear {

/// Receives the progress of long work. Pure code gets it as an argument; the command line draws it on a terminal.
class Progress {
 public:
  virtual ~Progress() = default;
  /// `fraction` in [0, 1], or negative when not known. Called often: implementations limit their own output.
  virtual void update(std::string_view activity, double fraction) = 0;
};

}  // namespace lowgear
