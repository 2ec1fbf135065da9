#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/units.h"

namespace lowgear::planner::verifier {

/// Values by op or by edge as they stand at a vertex.
struct Series {
  std::vector<std::int64_t> value;
  std::vector<std::size_t> changed;     ///< what this vertex has changed
  std::vector<std::size_t> changed_at;  ///< by index: the vertex (from 1) that changed it last, 0 for none
};

/// Reads a certificate (`lowgear.certificate/1`, docs/formats.md) vertex by vertex, in memory that does not depend on
/// how long it is.
class CertificateReader {
 public:
  /// Reads the head. Both texts must outlive the reader. Throws InputError when it is no certificate of this version,
  /// or of a pipeline with other numbers of ops and edges.
  CertificateReader(std::string_view text, std::string source, std::size_t ops, std::size_t edges);

  /// Goes to the next vertex; false after the last one. Throws InputError with the line of anything that is not as
  /// the format says, also when the text ends early.
  [[nodiscard]] bool next();

  /// "certificate.txt:12 (vertex 3)": the present vertex, for messages.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] TimePs stated_time_ps() const { return stated_time_ps_; }
  [[nodiscard]] PowerNw stated_flow_nw() const { return stated_flow_nw_; }
  [[nodiscard]] const Series& op_time_ps() const { return op_time_ps_; }
  [[nodiscard]] const Series& op_flow_nw() const { return op_flow_nw_; }
  [[nodiscard]] const Series& edge_flow_nw() const { return edge_flow_nw_; }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view fix = {}) const;
  void next_line();
  [[nodiscard]] bool take(std::string_view prefix);
  [[nodiscard]] std::int64_t take_number();
  [[nodiscard]] std::size_t take_index(std::size_t below);
  void require(bool is_well_formed) const;
  void read_count(std::string_view word, std::size_t expected);
  void read_changes(std::string_view word, Series& series);
  void read_run(Series& series);

  std::string_view rest_;  ///< after the present line
  std::string_view line_;  ///< what of the present line is not read yet
  std::string source_;
  int line_number_ = 0;
  int vertex_line_ = 0;
  std::size_t vertices_ = 0;
  TimePs stated_time_ps_ = 0;
  PowerNw stated_flow_nw_ = 0;
  Series op_time_ps_;
  Series op_flow_nw_;
  Series edge_flow_nw_;
};

}  // namespace lowgear::planner::verifier
