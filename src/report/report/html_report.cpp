#include "report/report/html_report.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <tuple>

#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "report/report/page_template.h"

namespace lowgear::report {

namespace {

Json point_arrays(std::span<const simulator::PipelineFigures> points) {
  Json time_s = Json::array();
  Json energy_j = Json::array();
  for (const simulator::PipelineFigures& point : points) {
    time_s.push_back(point.time_s);
    energy_j.push_back(point.energy_j);
  }
  return {{"time_s", std::move(time_s)}, {"energy_j", std::move(energy_j)}};
}

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json plan_rows(std::span<const api::PlanFigures> plans) {
  Json rows = Json::array();
  for (const api::PlanFigures& plan : plans) {
    rows.push_back({{"number", plan.number},
                    {"deadline_s", plan.deadline_s},
                    {"time_s", plan.time_s},
                    {"energy_j", plan.energy_j},
                    {"lower_bound_j", optional_number(plan.lower_bound_j)},
                    {"switches", plan.switches}});
    if (plan.order) rows.back()["order"] = *plan.order;
    if (plan.joint_bound_j) rows.back()["joint_bound_j"] = *plan.joint_bound_j;
  }
  return rows;
}

/// `late_*` of a policy in per cent of the baseline, where both were replayed with late clocks.
void add_late(Json& row, const api::ComparisonRow& policy, const Baseline& baseline) {
  if (!baseline.late || !policy.late_time_s || !policy.late_energy_j) return;
  row["late_time_pct"] = change_pct(baseline.late->time_s, *policy.late_time_s);
  row["late_energy_pct"] = change_pct(baseline.late->energy_j, *policy.late_energy_j);
}

/// Stage-microbatches as microbatches of all stages of a rank, which take the same memory in every order.
double whole_microbatches(int of_stages, double stages_per_rank) {
  return std::round(100 * of_stages / stages_per_rank) / 100;
}

Json policy_rows(const Data& data) {
  Json rows = Json::array();
  const double stages_per_rank = static_cast<double>(data.stages) / static_cast<double>(data.blocking_power_w.size());
  for (const api::ComparisonRow& policy : data.policies) {
    rows.push_back({{"name", policy.label()},
                    {"time_s", policy.time_s},
                    {"energy_j", policy.energy_j},
                    {"lower_bound_j", optional_number(policy.lower_bound_j)},
                    {"switches", policy.switches},
                    {"plan_time_s", optional_number(policy.plan_time_s)},
                    {"note", policy.note},
                    {"own_order", policy.own_order},
                    {"peak_activations", nullptr}});
    if (policy.peak_activations) {
      rows.back()["peak_activations"] = whole_microbatches(*policy.peak_activations, stages_per_rank);
    }
    add_late(rows.back(), policy, data.baseline);
  }
  return rows;
}

/// The finest power of ten of a second that keeps every time of an iteration below 1e8 ticks: eight digits each.
double tick_for(double time_s) {
  if (!(time_s > 0) || !std::isfinite(time_s)) return 1;
  return std::pow(10.0, std::ceil(std::log10(time_s)) - 8);
}

std::int64_t ticks(double time_s, double tick_s) {
  const double count = time_s / tick_s;
  // An op far outside its iteration cannot be drawn; keep the conversion defined for it.
  return std::isfinite(count) ? std::llround(std::clamp(count, -1e15, 1e15)) : 0;
}

/// Six significant digits: enough to read, and short to write.
double rounded(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, 6).ptr;
  double result = value;
  std::from_chars(text.begin(), end, result);
  return result;
}

/// Most ops of one stage, kind and clock take the same: what they take is written once and referred to by its index.
class CostTable {
 public:
  int index_of(const Op& op, double tick_s) {
    const Key key{op.stage, op.kind, op.clock_mhz, ticks(op.duration_s, tick_s), rounded(op.energy_j), op.setting};
    const auto [entry, is_new] = indices_.try_emplace(key, static_cast<int>(indices_.size()));
    if (is_new) {
      const auto& [stage, kind, clock_mhz, duration, energy_j, setting] = key;
      rows_.push_back(Json::array({stage, std::string(1, letter(kind)), clock_mhz, duration, energy_j}));
      if (!setting.empty()) rows_.back().push_back(setting);
      has_settings_ = has_settings_ || !setting.empty();
    }
    return entry->second;
  }
  /// Names of the columns of a row; only ops with a setting have the last one.
  [[nodiscard]] Json fields() const {
    Json fields = Json::array({"stage", "kind", "clock_mhz", "duration_ticks", "energy_j"});
    if (has_settings_) fields.push_back("setting");
    return fields;
  }
  [[nodiscard]] const Json& rows() const { return rows_; }

 private:
  using Key = std::tuple<int, OpKind, int, std::int64_t, double, std::string>;
  std::map<Key, int> indices_;
  Json rows_ = Json::array();
  bool has_settings_ = false;
};

Json timeline_object(const Timeline& timeline) {
  const double tick_s = tick_for(timeline.time_s);
  CostTable costs;
  Json ranks = Json::array();
  for (const auto& ops : timeline.ranks) {
    Json cost = Json::array();
    Json microbatch = Json::array();
    Json start = Json::array();
    for (const Op& op : ops) {
      cost.push_back(costs.index_of(op, tick_s));
      microbatch.push_back(op.microbatch);
      start.push_back(ticks(op.start_s, tick_s));
    }
    ranks.push_back({{"cost", std::move(cost)}, {"microbatch", std::move(microbatch)}, {"start", std::move(start)}});
  }
  return {{"label", timeline.label},  {"time_s", timeline.time_s},     {"energy_j", timeline.energy_j},
          {"tick_s", tick_s},         {"cost_fields", costs.fields()}, {"costs", costs.rows()},
          {"ranks", std::move(ranks)}};
}

/// Height of the chord from `from` to `to` above the curve at `at`.
double chord_error_j(const simulator::PipelineFigures& from, const simulator::PipelineFigures& to,
                     const simulator::PipelineFigures& at) {
  const double share = (at.time_s - from.time_s) / (to.time_s - from.time_s);
  return std::abs(from.energy_j + share * (to.energy_j - from.energy_j) - at.energy_j);
}

bool is_chord_close(std::span<const simulator::PipelineFigures> run, double tolerance_j) {
  return std::all_of(run.begin(), run.end(), [&](const simulator::PipelineFigures& point) {
    // Written so that a NaN (two points of the same time) counts as far away.
    return chord_error_j(run.front(), run.back(), point) <= tolerance_j;
  });
}

/// Index of the last vertex that a chord from `first` may reach, by doubling and bisection.
std::size_t farthest_chord_end(std::span<const simulator::PipelineFigures> curve, std::size_t first,
                               double tolerance_j) {
  const auto close = [&](std::size_t last) {
    return is_chord_close(curve.subspan(first, last - first + 1), tolerance_j);
  };
  std::size_t good = first + 1;
  std::size_t step = 1;
  while (good + step < curve.size() && close(good + step)) {
    good += step;
    step *= 2;
  }
  for (; step > 0; step /= 2) {
    if (good + step < curve.size() && close(good + step)) good += step;
  }
  return good;
}

}  // namespace

std::vector<simulator::PipelineFigures> thin_curve(std::span<const simulator::PipelineFigures> curve) {
  if (curve.size() <= 2) return {curve.begin(), curve.end()};
  const auto [lowest, highest] = std::minmax_element(
      curve.begin(), curve.end(),
      [](const simulator::PipelineFigures& a, const simulator::PipelineFigures& b) { return a.energy_j < b.energy_j; });
  const double tolerance_j = kCurveTolerance * (highest->energy_j - lowest->energy_j);
  std::vector<simulator::PipelineFigures> kept{curve.front()};
  for (std::size_t at = 0; at + 1 < curve.size();) {
    at = farthest_chord_end(curve, at, tolerance_j);
    kept.push_back(curve[at]);
  }
  return kept;
}

namespace {

/// The stretches of a joint frontier within one order, each thinned.
Json order_curves(const Data& data) {
  Json curves = Json::array();
  for (std::size_t begin = 0; begin < data.order_of_point.size();) {
    std::size_t end = begin;
    while (end < data.order_of_point.size() && data.order_of_point[end] == data.order_of_point[begin]) ++end;
    Json curve = point_arrays(thin_curve(std::span(data.frontier).subspan(begin, end - begin)));
    curve["order"] = data.order_of_point[begin];
    curves.push_back(std::move(curve));
    begin = end;
  }
  return curves;
}

Json order_rows(const Data& data) {
  Json rows = Json::array();
  for (const OrderRow& order : data.orders) {
    rows.push_back({{"name", order.name},
                    {"stages_per_rank", order.stages_per_rank},
                    {"peak_activations", whole_microbatches(order.peak_activations, order.stages_per_rank)},
                    {"from_s", order.from_s},
                    {"until_s", order.until_s},
                    {"plans", order.plans}});
  }
  return rows;
}

Json change_object(const std::optional<ChangedWork>& change) {
  if (!change) return nullptr;
  Json rows = Json::array();
  for (const ChangedWork::Row& row : change->rows) {
    rows.push_back({{"work", row.work},
                    {"clocks", row.clocks},
                    {"time_s", row.figures.time_s},
                    {"energy_j", row.figures.energy_j},
                    {"time_pct", row.change_pct.time_s},
                    {"energy_pct", row.change_pct.energy_j},
                    {"gap_pct", or_null(row.gap_pct)}});
  }
  return {{"description", change->description},           {"partition", change->partition},
          {"partition_before", change->partition_before}, {"time_pct", change->change_pct.time_s},
          {"energy_pct", change->change_pct.energy_j},    {"rows", std::move(rows)}};
}

/// In per cent of the baseline, as the cards show them.
Json late_object(const std::optional<api::LateReplay>& late) {
  if (!late) return nullptr;
  return {{"energy_pct", change_pct(late->baseline.energy_j, late->plan.energy_j)},
          {"time_pct", change_pct(late->baseline.time_s, late->plan.time_s)}};
}

}  // namespace

std::string report_json(const Data& data) {
  Json document = {
      {"format", "lowgear.report/1"},
      {"lowgear_version", data.lowgear_version},
      {"command", data.command},
      {"profile_name", data.profile_name},
      {"schedule", data.schedule},
      {"stages", data.stages},
      {"microbatches", data.microbatches},
      {"blocking_power_w", data.blocking_power_w},
      {"late_by_s", data.late_by_s},
      {"clock_lead_s", data.clock_lead_s},
      {"late", late_object(data.late)},
      {"comparison", data.is_comparison},
      {"change", change_object(data.change)},
      {"baseline",
       {{"description", data.baseline.description},
        {"time_s", data.baseline.time_s},
        {"energy_j", data.baseline.energy_j}}},
      {"frontier_vertices", data.frontier.size()},
      {"frontier", point_arrays(thin_curve(data.frontier))},
      {"memory_limit", data.memory_limit},
      {"orders", order_rows(data)},
      {"order_curves", order_curves(data)},
      {"lower_bound", point_arrays(thin_curve(data.lower_bound))},
      {"certificate",
       {{"verified", data.certificate.verified},
        {"statement", data.certificate.statement},
        {"command", data.certificate.command}}},
      {"plans", plan_rows(data.plans)},
      {"chosen_plan", data.chosen_plan ? Json(*data.chosen_plan) : Json(nullptr)},
      {"policies", policy_rows(data)},
      {"chosen", timeline_object(data.chosen)},
      {"baseline_timeline", timeline_object(data.baseline_timeline)},
      {"valleys", valleys_json(data.valleys)},
      {"warnings", data.warnings},
  };
  return escaped_for_script(document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string render_html_report(const Data& data) { return fill_page("report.html", report_json(data)); }

}  // namespace lowgear::report
