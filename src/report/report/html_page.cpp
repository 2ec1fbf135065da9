#include "report/report/html_page.h"

#include <string_view>

#include "base/core/formats/json.h"
#include "report/report/html_report.h"
#include "report/report/page_template.h"

namespace lowgear::report {
namespace {

std::string_view name(Quantity quantity) {
  switch (quantity) {
    case Quantity::time:
      return "time";
    case Quantity::energy:
      return "energy";
    case Quantity::account_energy:
      return "account_energy";
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

std::string_view name(Intervals::Sense sense) {
  switch (sense) {
    case Intervals::Sense::none:
      return "none";
    case Intervals::Sense::better:
      return "better";
    case Intervals::Sense::worse:
      return "worse";
  }
  return "";
}

Json intervals_json(const std::vector<Intervals>& all) {
  Json json = Json::array();
  for (const Intervals& intervals : all) {
    Json groups = Json::array();
    for (const Intervals::Group& group : intervals.groups) {
      Json rows = Json::array();
      for (const Intervals::Row& row : group.rows) {
        rows.push_back({{"name", row.name},
                        {"mean", or_null(row.mean)},
                        {"low", or_null(row.low)},
                        {"high", or_null(row.high)},
                        {"sense", name(row.sense)},
                        {"text", row.text}});
      }
      groups.push_back({{"name", group.name}, {"rows", std::move(rows)}});
    }
    json.push_back({{"title", intervals.title},
                    {"basis", intervals.basis},
                    {"caption", intervals.caption},
                    {"groups", std::move(groups)}});
  }
  return json;
}

Json curves_json(const std::vector<Curves>& all) {
  Json json = Json::array();
  for (const Curves& plot : all) {
    Json curves = Json::array();
    for (const Curves::Curve& curve : plot.curves) {
      Json points = Json::array();
      for (const Curves::Point& point : curve.points) points.push_back(Json::array({point.x, point.y}));
      curves.push_back({{"name", curve.name}, {"points", std::move(points)}});
    }
    json.push_back({{"title", plot.title},
                    {"basis", plot.basis},
                    {"caption", plot.caption},
                    {"x", {{"name", plot.x.name}, {"quantity", plot.x.energy ? "energy" : "count"}}},
                    {"y_name", plot.y_name},
                    {"curves", std::move(curves)}});
  }
  return json;
}

std::string_view name(SeriesPlots::Unit unit) {
  switch (unit) {
    case SeriesPlots::Unit::seconds:
      return "time";
    case SeriesPlots::Unit::joules:
      return "energy";
    case SeriesPlots::Unit::percent:
      return "percent";
    case SeriesPlots::Unit::none:
      return "none";
  }
  return "";
}

Json series_json(const std::vector<SeriesPlots>& all) {
  Json json = Json::array();
  for (const SeriesPlots& group : all) {
    Json plots = Json::array();
    for (const SeriesPlots::PlotOfSeries& plot : group.plots) {
      Json series = Json::array();
      for (const SeriesPlots::Series& one : plot.series) {
        Json points = Json::array();
        for (const SeriesPlots::Point& point : one.points) points.push_back(Json::array({point.x, point.y}));
        series.push_back({{"name", one.name}, {"line", one.is_line}, {"points", std::move(points)}});
      }
      plots.push_back({{"name", plot.name}, {"series", std::move(series)}});
    }
    json.push_back({{"title", group.title},
                    {"basis", group.basis},
                    {"caption", group.caption},
                    {"x", {{"name", group.x.name}, {"unit", name(group.x.unit)}}},
                    {"y", {{"name", group.y.name}, {"unit", name(group.y.unit)}}},
                    {"plots", std::move(plots)}});
  }
  return json;
}

/// An op is an array, since there are many: start, time, clock, kind, microbatch.
Json pipelines_json(const std::optional<PipelinePictures>& pipelines) {
  if (!pipelines) return nullptr;
  Json pictures = Json::array();
  for (const Timeline& timeline : pipelines->pictures) {
    Json ranks = Json::array();
    for (const std::vector<Op>& ops : timeline.ranks) {
      Json rank = Json::array();
      for (const Op& op : ops) {
        rank.push_back(
            Json::array({op.start_s, op.duration_s, op.clock_mhz, std::string(1, letter(op.kind)), op.microbatch}));
      }
      ranks.push_back(std::move(rank));
    }
    pictures.push_back({{"name", timeline.label},
                        {"time_s", timeline.time_s},
                        {"energy_j", timeline.energy_j},
                        {"ranks", std::move(ranks)}});
  }
  return {{"title", pipelines->title},
          {"basis", pipelines->basis},
          {"caption", pipelines->caption},
          {"pictures", std::move(pictures)}};
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

std::string render_html_page(const Page& report) {
  const Json document = {{"format", "lowgear.estimate_report/1"},
                         {"lowgear_version", report.lowgear_version},
                         {"command", report.command},
                         {"title", report.title},
                         {"headline", report.headline},
                         {"facts", entries_json(report.facts)},
                         {"cards", cards_json(report.cards)},
                         {"warnings", report.warnings},
                         {"plot", plot_json(report.plot)},
                         {"intervals", intervals_json(report.intervals)},
                         {"curves", curves_json(report.curves)},
                         {"valleys", valleys_json(report.valleys)},
                         {"valley_basis", report.valley_basis},
                         {"series", series_json(report.series)},
                         {"pipelines", pipelines_json(report.pipelines)},
                         {"bars", bars_json(report.bars)},
                         {"tables", tables_json(report.tables)},
                         {"reading", entries_json(report.reading)}};
  return fill_page("page.html", escaped_for_script(document.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

}  // namespace lowgear::report
