#include "report/report/estimate_report.h"

#include <string_view>

#include "base/core/formats/json.h"
#include "report/report/page_template.h"
#include "report/report/report_json.h"

namespace lowgear::report {
namespace {

std::string_view name(Quantity quantity) {
  switch (quantity) {
    case Quantity::time:
      return "time";
    case Quantity::energy:
      return "energy";
    case Quantity::bytes:
      return "bytes";
  }
  return "";
}

std::string_view name(Mark::Kind kind) {
  switch (kind) {
    case Mark::Kind::baseline:
      return "baseline";
    case Mark::Kind::plan:
      return "plan";
    case Mark::Kind::candidate:
      return "policy";
  }
  return "";
}

Json bars_json(const std::vector<Bars>& all) {
  Json json = Json::array();
  for (const Bars& bars : all) {
    Json rows = Json::array();
    for (const Bars::Row& row : bars.rows) rows.push_back({{"name", row.name}, {"amounts", row.amounts}});
    json.push_back({{"title", bars.title},
                    {"basis", bars.basis},
                    {"caption", bars.caption},
                    {"quantity", name(bars.quantity)},
                    {"parts", bars.parts},
                    {"rows", std::move(rows)},
                    {"limit", bars.limit ? Json(*bars.limit) : Json(nullptr)},
                    {"limit_name", bars.limit_name}});
  }
  return json;
}

Json plot_json(const std::optional<Plot>& plot) {
  if (!plot) return nullptr;
  Json curve = Json::array();
  for (const simulator::PipelineFigures& point : thin_curve(plot->curve)) {
    curve.push_back({{"time_s", point.time_s}, {"energy_j", point.energy_j}});
  }
  Json marks = Json::array();
  for (const Mark& mark : plot->marks) {
    marks.push_back({{"type", name(mark.kind)},
                     {"name", mark.name},
                     {"basis", mark.basis},
                     {"label", mark.label},
                     {"chosen", mark.chosen},
                     {"time_s", mark.point.time_s},
                     {"energy_j", mark.point.energy_j}});
  }
  return {{"title", plot->title},
          {"caption", plot->caption},
          {"curve_name", plot->curve_name},
          {"curve", std::move(curve)},
          {"marks", std::move(marks)},
          {"mark_names",
           {{"baseline", plot->mark_names.baseline},
            {"plan", plot->mark_names.plan},
            {"chosen", plot->mark_names.chosen},
            {"candidate", plot->mark_names.candidate}}}};
}

Json tables_json(const std::vector<Table>& tables) {
  Json json = Json::array();
  for (const Table& table : tables) {
    json.push_back({{"title", table.title},
                    {"basis", table.basis},
                    {"columns", table.columns},
                    {"rows", table.rows},
                    {"chosen", table.chosen ? Json(*table.chosen) : Json(nullptr)}});
  }
  return json;
}

Json entries_json(const std::vector<Entry>& entries) {
  Json json = Json::array();
  for (const Entry& entry : entries) json.push_back(Json::array({entry.name, entry.text}));
  return json;
}

Json cards_json(const std::vector<Card>& cards) {
  Json json = Json::array();
  for (const Card& card : cards) {
    json.push_back({{"name", card.name}, {"value", card.value}, {"detail", card.detail}});
  }
  return json;
}

}  // namespace

std::string render_estimate_report(const EstimateReport& report) {
  const Json document = {{"format", "lowgear.estimate_report/1"},
                         {"lowgear_version", report.lowgear_version},
                         {"command", report.command},
                         {"title", report.title},
                         {"facts", entries_json(report.facts)},
                         {"cards", cards_json(report.cards)},
                         {"warnings", report.warnings},
                         {"plot", plot_json(report.plot)},
                         {"bars", bars_json(report.bars)},
                         {"tables", tables_json(report.tables)},
                         {"reading", entries_json(report.reading)}};
  return fill_page("estimate.html", escaped_for_script(document.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

}  // namespace lowgear::report
