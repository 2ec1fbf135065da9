#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/frontier/frontier.h"

namespace lowgear::planner {

/// Largest certificate that is written.
inline constexpr std::size_t kMaxCertificateBytes = std::size_t{1} << 29;

/// Records the certificate of a frontier while it is being solved: at every vertex the solution (the time of every op)
/// and the flow that bounds all others. As text (`lowgear.certificate/1`, docs/formats.md), differences only:
/// neighbouring vertices are much alike, and what changes, changes in runs along a rank.
class CertificateRecorder final : public FrontierObserver {
 public:
  explicit CertificateRecorder(std::size_t max_bytes = kMaxCertificateBytes) : max_bytes_(max_bytes) {}

  /// All solvers shown must be of one pipeline. Throws Error when the text grows beyond `max_bytes`.
  void vertex(const FrontierSolver& solver) override;
  /// The whole file, for the vertices shown so far.
  [[nodiscard]] std::string text() const;

 private:
  void append_line(std::string_view what, std::span<const std::int64_t> now, std::vector<std::int64_t>& before);

  std::size_t max_bytes_;
  std::size_t vertices_ = 0;
  std::vector<TimePs> op_time_ps_;
  std::vector<PowerNw> op_flow_nw_;
  std::vector<PowerNw> edge_flow_nw_;
  std::vector<std::int64_t> change_;  ///< kept for its memory
  std::string text_;
};

}  // namespace lowgear::planner
