#include "planning/planner/frontier/certificate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/core/error.h"

namespace lowgear::planner {
namespace {

/// Farthest that the next op or edge with the same change is looked for: what is alike on a rank repeats with the
/// pattern of its schedule, some ops and twice as many edges long.
constexpr std::size_t kMaxStride = 16;

/// Places first, first + stride, ... that all change by the same.
struct Run {
  std::size_t first = 0;
  std::size_t stride = 1;
  std::size_t count = 1;
};

/// The run that starts at `first`, along the nearest place with the same change.
Run run_from(std::span<const std::int64_t> change, std::size_t first) {
  Run run{first, 1, 1};
  const std::int64_t delta = change[first];
  const std::size_t farthest = std::min(kMaxStride, change.size() - 1 - first);
  while (run.stride <= farthest && change[first + run.stride] != delta) ++run.stride;
  if (run.stride > farthest) return run;
  for (std::size_t at = first + run.stride; at < change.size() && change[at] == delta; at += run.stride) ++run.count;
  return run;
}

void append_run(std::string& text, const Run& run, std::int64_t delta) {
  const auto out = std::back_inserter(text);
  if (run.count == 1) {
    fmt::format_to(out, " {}:{}", run.first, delta);
  } else {
    fmt::format_to(out, " {}+{}x{}:{}", run.first, run.stride, run.count, delta);
  }
}

}  // namespace

void CertificateRecorder::vertex(const FrontierSolver& solver) {
  const auto op_flow_nw = solver.op_flow_nw();
  const auto edge_flow_nw = solver.edge_flow_nw();
  if (vertices_ == 0) {
    op_time_ps_.assign(op_flow_nw.size(), 0);
    op_flow_nw_.assign(op_flow_nw.size(), 0);
    edge_flow_nw_.assign(edge_flow_nw.size(), 0);
    text_ = fmt::format("lowgear.certificate/1\nops {}\nedges {}\n", op_flow_nw.size(), edge_flow_nw.size());
  }
  ++vertices_;
  fmt::format_to(std::back_inserter(text_), "vertex {} {}\n", solver.time_ps(), solver.flow_value_nw());
  std::vector<TimePs> op_time_ps(op_flow_nw.size());
  solver.op_times(op_time_ps);
  append_line("t", op_time_ps, op_time_ps_);
  append_line("f", op_flow_nw, op_flow_nw_);
  append_line("e", edge_flow_nw, edge_flow_nw_);
  if (text_.size() > max_bytes_) {
    throw Error(
        fmt::format("the certificate of the frontier is larger than {} MiB; plan with the sandwich method (--frontier "
                    "sandwich), which needs fewer vertices",
                    max_bytes_ >> 20));
  }
}

/// Writes how `now` differs from `before`, unless it does not, and makes `before` the same.
void CertificateRecorder::append_line(std::string_view what, std::span<const std::int64_t> now,
                                      std::vector<std::int64_t>& before) {
  change_.resize(now.size());
  std::transform(now.begin(), now.end(), before.begin(), change_.begin(), std::minus<>());
  before.assign(now.begin(), now.end());
  const std::size_t line_begin = text_.size();
  for (std::size_t first = 0; first < change_.size(); ++first) {
    const std::int64_t delta = change_[first];
    if (delta == 0) continue;
    if (text_.size() == line_begin) text_ += what;
    const Run run = run_from(change_, first);
    append_run(text_, run, delta);
    for (std::size_t i = 0; i < run.count; ++i) change_[first + i * run.stride] = 0;
  }
  if (text_.size() > line_begin) text_ += '\n';
}

std::string CertificateRecorder::text() const { return text_ + fmt::format("end {}\n", vertices_); }

}  // namespace lowgear::planner
