#include "report/report/report_data.h"

#include <map>
#include <string>
#include <utility>

namespace lowgear::report {

std::vector<Valley> valleys_of(const profile::StageProfile& profile) {
  std::vector<Valley> valleys;
  for (const profile::StageOp& op : profile.ops()) {
    std::map<int, double> least_j;
    for (const profile::Measurement& row : op.measurements) {
      const auto [entry, is_new] = least_j.try_emplace(row.clock_mhz, row.energy_j);
      if (!is_new && row.energy_j < entry->second) entry->second = row.energy_j;
    }
    if (least_j.size() < 2) continue;
    Valley valley{.stage = op.stage, .kind = op.kind, .clocks_mhz = {}, .energy_j = {}};
    for (const auto& [clock_mhz, energy_j] : least_j) {
      valley.clocks_mhz.push_back(clock_mhz);
      valley.energy_j.push_back(energy_j);
    }
    valleys.push_back(std::move(valley));
  }
  return valleys;
}

Json valleys_json(const std::vector<Valley>& valleys) {
  Json json = Json::array();
  for (const Valley& valley : valleys) {
    json.push_back({{"stage", valley.stage},
                    {"kind", std::string(1, letter(valley.kind))},
                    {"name", name(valley.kind)},
                    {"clock_mhz", valley.clocks_mhz},
                    {"energy_j", valley.energy_j},
                    {"envpipe_clock_mhz", or_null(valley.envpipe_clock_mhz)}});
  }
  return json;
}

}  // namespace lowgear::report
