#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"
#include "planner/frontier.h"

namespace lowgear {

/// Writes down what proves a frontier while it is being solved: at every vertex the solution (the time of every op) and
/// the flow that bounds all others. As text (`lowgear.certificate/1`, docs/formats.md), differences only: neighbouring
/// vertices are much alike, and what changes, changes in runs along a rank.
class CertificateRecorder final : public FrontierObserver {
 public:
  void vertex(const FrontierSolver& solver) override;
  /// The whole file.
  [[nodiscard]] std::string text() const;

 private:
  void append_runs(char what, std::span<const std::int64_t> now, std::vector<std::int64_t>& before);

  std::size_t vertices_ = 0;
  std::vector<std::int64_t> op_time_ps_;
  std::vector<std::int64_t> op_flow_nw_;
  std::vector<std::int64_t> edge_flow_nw_;
  std::string body_;
};

}  // namespace lowgear
