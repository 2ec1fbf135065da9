#include "planning/planner/verifier/certificate_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/core/error.h"

namespace lowgear::planner::verifier {
namespace {

constexpr std::string_view kFormat = "lowgear.certificate/1";
constexpr std::string_view kFix = "the file is damaged or cut off; plan again";

/// Largest value of a series, so that sums of two stay within 64 bits: 2^61 nW, and more than kMaxTimeS.
constexpr std::int64_t kLargest = std::int64_t{1} << 61;

}  // namespace

CertificateReader::CertificateReader(std::string_view text, std::string source, std::size_t ops, std::size_t edges)
    : rest_(text), source_(std::move(source)) {
  next_line();
  if (line_ != kFormat) {
    fail(fmt::format("expected the format {}, not {}", kFormat, quote(line_)),
         "plan again, or verify with the version of lowgear that wrote it");
  }
  read_count("ops ", ops);
  read_count("edges ", edges);
  for (Series* series : {&op_time_ps_, &op_flow_nw_, &edge_flow_nw_}) {
    const std::size_t size = series == &edge_flow_nw_ ? edges : ops;
    series->value.resize(size);
    series->changed_at.resize(size);
  }
  next_line();
}

bool CertificateReader::next() {
  if (take("end ")) {
    const std::int64_t stated = take_number();
    require(line_.empty());
    if (stated != static_cast<std::int64_t>(vertices_)) {
      fail(fmt::format("states {} vertices, but {} stand above", stated, vertices_), kFix);
    }
    if (!rest_.empty()) fail("text follows the end of the certificate", kFix);
    return false;
  }
  require(take("vertex "));
  ++vertices_;
  vertex_line_ = line_number_;
  stated_time_ps_ = take_number();
  require(take(" "));
  stated_flow_nw_ = take_number();
  require(line_.empty());
  next_line();
  read_changes("t ", op_time_ps_);
  read_changes("f ", op_flow_nw_);
  read_changes("e ", edge_flow_nw_);
  return true;
}

std::string CertificateReader::where() const {
  return fmt::format("{}:{} (vertex {})", source_, vertex_line_, vertices_);
}

void CertificateReader::fail(std::string_view what, std::string_view fix) const {
  throw_input_error({source_, line_number_, 0}, what, fix);
}

void CertificateReader::require(bool is_well_formed) const {
  if (!is_well_formed) fail(fmt::format("cannot be read at {}", quote(line_)), kFix);
}

void CertificateReader::next_line() {
  ++line_number_;
  const std::size_t end = rest_.find('\n');
  if (end == std::string_view::npos) fail("the text ends before the certificate does", kFix);
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
}

/// Reads the prefix of what is left of the line, if it has it.
bool CertificateReader::take(std::string_view prefix) {
  if (!line_.starts_with(prefix)) return false;
  line_.remove_prefix(prefix.size());
  return true;
}

std::int64_t CertificateReader::take_number() {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(line_.data(), line_.data() + line_.size(), value);
  require(error == std::errc{} && value >= -kLargest && value <= kLargest);
  line_.remove_prefix(static_cast<std::size_t>(end - line_.data()));
  return value;
}

std::size_t CertificateReader::take_index(std::size_t below) {
  const std::int64_t value = take_number();
  if (value < 0 || static_cast<std::size_t>(value) >= below) {
    fail(fmt::format("{} is not in 0 to {}", value, static_cast<std::int64_t>(below) - 1), kFix);
  }
  return static_cast<std::size_t>(value);
}

void CertificateReader::read_count(std::string_view word, std::size_t expected) {
  next_line();
  require(take(word));
  const std::int64_t count = take_number();
  require(line_.empty());
  if (count != static_cast<std::int64_t>(expected)) {
    fail(fmt::format("states {}{}, but the schedule has {}", word, count, expected),
         "it belongs to another schedule; plan again");
  }
}

/// Reads the line of a series when the vertex has one.
void CertificateReader::read_changes(std::string_view word, Series& series) {
  series.changed.clear();
  if (!take(word)) return;
  do read_run(series);
  while (take(" "));
  require(line_.empty());
  next_line();
}

/// `FIRST:CHANGE` or `FIRST+STRIDExCOUNT:CHANGE`.
void CertificateReader::read_run(Series& series) {
  const std::size_t size = series.value.size();
  const std::size_t first = take_index(size);
  std::size_t stride = 1;
  std::size_t count = 1;
  if (take("+")) {
    stride = take_index(size);
    require(stride > 0 && take("x"));
    count = take_index(size + 1);
    require(count > 0);
    if ((size - 1 - first) / stride < count - 1) fail(fmt::format("a run from {} leads beyond the last", first), kFix);
  }
  require(take(":"));
  const std::int64_t change = take_number();
  for (std::size_t at = first; count > 0; at += stride, --count) {
    if (series.changed_at[at] == vertices_) fail(fmt::format("{} changes twice", at), kFix);
    series.changed_at[at] = vertices_;
    series.changed.push_back(at);
    series.value[at] += change;
    if (series.value[at] < -kLargest || series.value[at] > kLargest) fail("a value is out of range", kFix);
  }
}

}  // namespace lowgear::planner::verifier
