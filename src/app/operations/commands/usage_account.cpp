#include "app/operations/commands/usage_account.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/text.h"
#include "base/core/version.h"
#include "base/http/client/client.h"
#include "base/http/message/error.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::operations {
namespace {

constexpr std::chrono::seconds kPatience{60};

/// The address in `<ADDRESS>; rel="next"`; empty where there is no such header.
std::string next_of(const http::Headers& headers) {
  const auto link = headers.find("link");
  if (link == headers.end() || !link->second.ends_with("rel=\"next\"")) return {};
  const std::size_t open = link->second.find('<');
  const std::size_t close = link->second.find('>');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return link->second.substr(open + 1, close - open - 1);
}

}  // namespace

std::vector<usage::UsageRow> ask_usage(const ServerAccess& server, const usage::Month& month) {
  http::ClientOptions options;
  options.tls = http::tls_files_from_environment(process_environment());
  http::Client client(http::Endpoint::parse(server.address), std::move(options));
  const http::Client::HeaderList headers =
      http::token_headers(http::token_file_from_environment(process_environment(), server.token_file));
  std::string target = fmt::format("/v1/exports/usage.csv?from_s={}&to_s={}", month.from_s, month.to_s);
  std::vector<usage::UsageRow> rows;
  bool is_first = true;
  while (!target.empty()) {
    const http::ReplyText reply = client.request("GET", target, {}, headers, kPatience);
    if (reply.status != 200) {
      throw Error(
          fmt::format("{} refuses usage.csv: {}", server.address, http::refusal_text(reply.status, reply.body)));
    }
    const std::string header(is_first ? "" : usage::usage_header());
    std::vector<usage::UsageRow> page =
        usage::read_usage(header + reply.body, server.address + "/v1/exports/usage.csv");
    std::ranges::move(page, std::back_inserter(rows));
    std::string next = next_of(reply.headers);
    if (next == target) throw Error(fmt::format("{} names the same page of usage.csv as the next one", server.address));
    target = std::move(next);
    is_first = false;
  }
  return rows;
}

namespace {

using usage::AccountEntry;
using usage::Amount;
using usage::Balance;
using usage::EnergyAccount;
using usage::EnergyFactors;

constexpr const char* kNotKnown = "-";
constexpr const char* kNoUser = "(not stated)";
/// Longer names would make tables too wide; those that differ in their middle need more.
constexpr std::size_t kNameLetters = 40;
/// Rows of a chart: more cannot be read.
constexpr std::size_t kBars = 20;

std::string number_text(double value) { return fmt::format("{:.{}f}", value, cli::decimals(value, 4)); }

/// `12.3 ± 0.4`: as many digits as the error leaves meaning.
std::string with_error(const Amount& amount) {
  if (!(amount.error > 0)) return number_text(amount.value);
  const int digits = cli::decimals(amount.error, 2);
  return fmt::format("{:.{}f} \u00b1 {:.{}f}", amount.value, digits, amount.error, digits);
}

/// The energy in kWh, its cost, or its emissions; empty where it is not known, or no factor is given.
std::optional<double> amount_of(const Balance& balance, const std::optional<double>& per_kwh) {
  if (!balance.knows_energy() || !per_kwh) return std::nullopt;
  return at_factor(balance.energy_j, *per_kwh).value;
}

std::string amount_text(const Balance& balance, double per_kwh) {
  const auto amount = amount_of(balance, per_kwh);
  return amount ? number_text(*amount) : kNotKnown;
}

/// Without its middle where it is too long.
std::string cut_name(const std::string& name, std::size_t most) {
  std::vector<std::size_t> letters;
  for (std::size_t at = 0; at < name.size(); ++at) {
    if (!is_utf8_continuation(name[at])) letters.push_back(at);
  }
  if (letters.size() <= most) return name;
  return name.substr(0, letters[most / 2]) + "\u2026" + name.substr(letters[letters.size() - (most / 2 - 1)]);
}

/// Cuts a column's names so that different ones stay different.
void cut_names(std::vector<std::vector<std::string>>& rows, std::size_t column) {
  std::set<std::string> names;
  for (const auto& row : rows) names.insert(row[column]);
  std::size_t most = kNameLetters;
  const auto are_distinct = [&] {
    std::set<std::string> cut;
    return std::ranges::all_of(names, [&](const auto& name) { return cut.insert(cut_name(name, most)).second; });
  };
  while (!are_distinct()) most *= 2;
  for (auto& row : rows) row[column] = cut_name(row[column], most);
}

std::string user_text(const std::string& user) { return user.empty() ? kNoUser : user; }

/// The columns of a balance, without its name.
std::vector<std::string> headings(const EnergyFactors& factors) {
  std::vector<std::string> names = {"energy, kWh", "saved, kWh", "saved, %", "compared, %", "slower, %"};
  if (factors.usd_per_kwh) names.insert(names.end(), {"cost, $", "saved, $"});
  if (factors.co2_g_per_kwh) names.insert(names.end(), {"CO2, kg", "saved CO2, kg"});
  return names;
}

std::vector<std::string> cells_of(const Balance& balance, const EnergyFactors& factors) {
  const auto& saving = balance.saving;
  const auto saved = [&](double per_kwh) {
    return saving ? with_error(at_factor(saving->saved_j, per_kwh)) : kNotKnown;
  };
  const char* const mark = balance.doubtful_energy_j > 0 ? " *" : "";
  std::vector<std::string> cells = {amount_text(balance, 1) + mark, saved(1), kNotKnown, kNotKnown, kNotKnown};
  if (saving) {
    cells[2] = with_error({saving->saved_ratio.value * 100, saving->saved_ratio.error * 100});
    cells[3] = fmt::format("{:.0f}", 100 * saving->energy_j / balance.energy_j.value);
    cells[4] = signed_text(saving->slowdown_ratio * 100, 2);
  }
  if (factors.usd_per_kwh) {
    cells.push_back(amount_text(balance, *factors.usd_per_kwh));
    cells.push_back(saved(*factors.usd_per_kwh));
  }
  if (factors.co2_g_per_kwh) {
    cells.push_back(amount_text(balance, *factors.co2_g_per_kwh / 1000));
    cells.push_back(saved(*factors.co2_g_per_kwh / 1000));
  }
  return cells;
}

/// Header and rows of one table.
struct AccountCells {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;

  void add(std::vector<std::string> names, const Balance& balance, const EnergyFactors& factors) {
    std::ranges::move(cells_of(balance, factors), std::back_inserter(names));
    rows.push_back(std::move(names));
  }
};

AccountCells table_of(std::vector<std::string> names, const EnergyFactors& factors) {
  AccountCells cells{.header = std::move(names), .rows = {}};
  std::ranges::move(headings(factors), std::back_inserter(cells.header));
  return cells;
}

AccountCells users_of(const EnergyAccount& account, const EnergyFactors& factors) {
  AccountCells cells = table_of({"user"}, factors);
  for (const AccountEntry& user : account.users) cells.add({user_text(user.name)}, user.balance, factors);
  cells.add({"all users"}, account.total, factors);
  return cells;
}

AccountCells jobs_of(const EnergyAccount& account, const EnergyFactors& factors) {
  AccountCells cells = table_of({"job", "name", "user"}, factors);
  for (const AccountEntry& job : account.jobs) {
    cells.add({job.name, job.label, user_text(job.user)}, job.balance, factors);
  }
  return cells;
}

/// For a page: a column for each name would leave no room for the others.
AccountCells jobs_with_notes(const EnergyAccount& account, const EnergyFactors& factors) {
  AccountCells cells = table_of({"job, name, user"}, factors);
  for (const AccountEntry& job : account.jobs) {
    cells.add({fmt::format("{}\n{}, {}", job.name, job.label, user_text(job.user))}, job.balance, factors);
  }
  return cells;
}

std::string text_of(AccountCells cells, std::size_t names) {
  std::vector<cli::Table::Column> columns;
  for (const std::string& name : cells.header) {
    columns.push_back({name, columns.size() < names ? cli::Table::Align::left : cli::Table::Align::right});
  }
  cli::Table table(std::move(columns));
  for (std::size_t i = 0; i < names; ++i) cut_names(cells.rows, i);
  for (std::vector<std::string>& row : cells.rows) table.add_row(std::move(row));
  return table.text();
}

/// Note about iterations without energy; empty where there are none.
std::string missing_text(const Balance& balance) {
  if (balance.unmeasured_iterations == 0) return {};
  return fmt::format(
      "the energy of {} of {} iterations is not known: not all ranks measured it, or it counts in another job on the "
      "same GPUs; no sum "
      "contains them",
      balance.unmeasured_iterations, balance.iterations);
}

/// Note about energy that says little of its job; empty where there is none.
std::string doubtful_text(const Balance& balance) {
  if (!(balance.doubtful_energy_j > 0)) return {};
  const double share_pct = 100 * balance.doubtful_energy_j / balance.energy_j.value;
  return fmt::format(
      "* {:.{}f} % of the energy ({} kWh) says little of its job and is not compared with a baseline: its figures were "
      "invalid (figures_invalid), or another job shared its GPUs (gpu_shared)",
      share_pct, cli::decimals(share_pct, 2), number_text(balance.doubtful_energy_j / usage::kJoulesPerKwh));
}

/// The accounts that there are, with how their energy was found.
std::vector<std::pair<const char*, const EnergyAccount*>> accounts_of(const usage::MonthAccount& month) {
  std::vector<std::pair<const char*, const EnergyAccount*>> accounts;
  if (month.measured) accounts.emplace_back("measured", &*month.measured);
  if (month.simulated) accounts.emplace_back("simulated", &*month.simulated);
  return accounts;
}

Json saving_json(const Balance& balance, const EnergyFactors& factors) {
  if (!balance.saving) return nullptr;
  const usage::Saving& saving = *balance.saving;
  Json json = {{"energy_j", saving.energy_j},
               {"baseline_energy_j", saving.baseline_energy_j},
               {"saved_j", saving.saved_j.value},
               {"saved_error_j", saving.saved_j.error},
               {"saved_pct", saving.saved_ratio.value * 100},
               {"saved_error_pct", saving.saved_ratio.error * 100},
               {"slowdown_pct", saving.slowdown_ratio * 100}};
  const auto add = [&](const char* member, const char* error_member, const std::optional<double>& factor) {
    const Amount amount = at_factor(saving.saved_j, factor.value_or(0));
    json[member] = factor ? Json(amount.value) : Json(nullptr);
    json[error_member] = factor ? Json(amount.error) : Json(nullptr);
  };
  add("saved_usd", "saved_error_usd", factors.usd_per_kwh);
  add("saved_co2_g", "saved_error_co2_g", factors.co2_g_per_kwh);
  return json;
}

Json balance_json(const Balance& balance, const EnergyFactors& factors) {
  const auto known = [&](double energy_j) { return balance.knows_energy() ? Json(energy_j) : Json(nullptr); };
  return {{"iterations", balance.iterations},
          {"unmeasured_iterations", balance.unmeasured_iterations},
          {"time_s", balance.time_s},
          {"energy_j", known(balance.energy_j.value)},
          {"energy_error_j", known(balance.energy_j.error)},
          {"doubtful_energy_j", known(balance.doubtful_energy_j)},
          {"cost_usd", or_null(amount_of(balance, factors.usd_per_kwh))},
          {"co2_g", or_null(amount_of(balance, factors.co2_g_per_kwh))},
          {"saving", saving_json(balance, factors)}};
}

Json account_json(const std::optional<EnergyAccount>& account, const EnergyFactors& factors) {
  if (!account) return nullptr;
  Json users = Json::array();
  for (const AccountEntry& entry : account->users) {
    Json user = balance_json(entry.balance, factors);
    user["user"] = entry.name.empty() ? Json(nullptr) : Json(entry.name);
    users.push_back(std::move(user));
  }
  Json jobs = Json::array();
  for (const AccountEntry& entry : account->jobs) {
    Json job = balance_json(entry.balance, factors);
    job["job"] = entry.name;
    job["name"] = entry.label;
    job["user"] = entry.user.empty() ? Json(nullptr) : Json(entry.user);
    jobs.push_back(std::move(job));
  }
  return {{"total", balance_json(account->total, factors)}, {"users", std::move(users)}, {"jobs", std::move(jobs)}};
}

report::Card saved_card(const char* basis, const Balance& total) {
  if (!total.saving) return {.name = "Saved", .value = kNotKnown, .detail = "nothing is compared with a baseline"};
  const usage::Saving& saving = *total.saving;
  return {.name = "Saved",
          .value = fmt::format("{} %", with_error({saving.saved_ratio.value * 100, saving.saved_ratio.error * 100})),
          .detail = fmt::format("{} kWh against {} baselines", with_error(at_factor(saving.saved_j, 1)), basis)};
}

std::vector<report::Card> cards_of(const char* basis, const Balance& total, const EnergyFactors& factors) {
  std::vector<report::Card> cards = {
      {.name = "Energy",
       .value = total.knows_energy() ? amount_text(total, 1) + " kWh" : kNotKnown,
       .detail = fmt::format("{}, of {} iterations", basis, total.iterations - total.unmeasured_iterations)},
      saved_card(basis, total)};
  const auto add = [&](const char* name, const std::optional<double>& per_kwh, const char* factor, auto text) {
    if (!per_kwh) return;
    cards.push_back({.name = name,
                     .value = total.knows_energy() ? text(at_factor(total.energy_j, *per_kwh).value) : kNotKnown,
                     .detail = total.saving ? "saved: " + text(at_factor(total.saving->saved_j, *per_kwh).value)
                                            : fmt::format("{} {}", *per_kwh, factor)});
  };
  add("Cost", factors.usd_per_kwh, "$/kWh", [](double usd) { return "$ " + number_text(usd); });
  add("CO2", factors.co2_g_per_kwh, "g/kWh", [](double grams) { return cli::mass_text(grams); });
  return cards;
}

/// Energy by user, and the additional energy at full clocks.
report::Bars bars_of(const char* basis, const EnergyAccount& account) {
  report::Bars bars{.title = "Energy by user",
                    .basis = basis,
                    .caption = fmt::format(
                        "The number beside a bar is used plus saved: the energy without savings. Saved: against {} "
                        "baselines, shown where it is above zero.",
                        basis),
                    .quantity = report::Quantity::account_energy,
                    .parts = {"used", "saved"},
                    .rows = {},
                    .limit = std::nullopt,
                    .limit_name = {}};
  for (const AccountEntry& user : account.users) {
    if (bars.rows.size() == kBars) break;
    if (!user.balance.knows_energy()) continue;
    const double saved_j = user.balance.saving ? std::max(0.0, user.balance.saving->saved_j.value) : 0;
    bars.rows.push_back({.name = user_text(user.name), .amounts = {user.balance.energy_j.value, saved_j}});
  }
  return bars;
}

std::vector<report::Entry> reading_of(const EnergyFactors& factors) {
  std::vector<report::Entry> entries = {
      {"Energy",
       "Of the GPUs of all jobs, in iterations that all ranks have measured: without CPUs, network and cooling, and "
       "without the time between iterations."},
      {"Saved",
       "Energy of the same number of iterations at full clocks, by the baseline of the same job, minus the "
       "energy of the iterations. Not compared, and without saving: iterations before the baseline, at full clocks in "
       "place of a plan, with an uncertain or too slow baseline, and those whose figures were invalid or whose GPUs "
       "another job shared. Trials of clocks count."},
      {"\u00b1",
       "One standard error: that of the baselines, which is the same in all iterations that are compared with one, and "
       "that of the meters."},
      {"Compared", "Share of the energy whose iterations are compared with a baseline."},
      {"Slower", "Additional time of these iterations, as a share of the time of the same number at the baseline."},
      {"User", "As the job stated it when it registered; no process has checked it."},
      {"Month", "In UTC, by the hour in which iterations ended."}};
  if (factors.usd_per_kwh) entries.push_back({"Cost", fmt::format("At {} $ per kWh, as given.", *factors.usd_per_kwh)});
  if (factors.co2_g_per_kwh) {
    entries.push_back({"CO2", fmt::format("At {} g per kWh, as given.", *factors.co2_g_per_kwh)});
  }
  return entries;
}

report::Table page_table(std::string title, const char* basis, const AccountCells& cells) {
  return {
      .title = std::move(title), .basis = basis, .columns = cells.header, .rows = cells.rows, .chosen = std::nullopt};
}

}  // namespace

std::string account_text(const PricedAccount& priced) {
  const auto accounts = accounts_of(priced.account);
  std::string text;
  std::string bases;
  for (const auto& [basis, account] : accounts) {
    bases += fmt::format("{}{}", bases.empty() ? "" : " and ", basis);
    text += fmt::format("{}{}, energy of GPUs in iterations, {}\n\n", text.empty() ? "" : "\n",
                        priced.account.month.name, basis);
    text += text_of(users_of(*account, priced.factors), 1) + '\n' + text_of(jobs_of(*account, priced.factors), 3);
    for (const std::string& note : {missing_text(account->total), doubtful_text(account->total)}) {
      if (!note.empty()) text += '\n' + note + '\n';
    }
  }
  if (accounts.empty()) return fmt::format("{}: no job has completed an iteration\n", priced.account.month.name);
  return text + fmt::format("\nsaved: against {} baselines at full clocks; \u00b1 is one standard error\n", bases);
}

Json account_json(const PricedAccount& priced) {
  const usage::MonthAccount& account = priced.account;
  return {{"format", "lowgear.month/1"},
          {"month", account.month.name},
          {"from_s", account.month.from_s},
          {"to_s", account.month.to_s},
          {"usd_per_kwh", or_null(priced.factors.usd_per_kwh)},
          {"co2_g_per_kwh", or_null(priced.factors.co2_g_per_kwh)},
          {"measured", account_json(account.measured, priced.factors)},
          {"simulated", account_json(account.simulated, priced.factors)}};
}

report::Page account_page(const PricedAccount& priced, std::string command) {
  const auto accounts = accounts_of(priced.account);
  report::Page page{.lowgear_version = version(),
                    .command = std::move(command),
                    .title = "Energy of " + priced.account.month.name,
                    .facts = {{"Month", priced.account.month.name + ", UTC"}},
                    .cards = {},
                    .warnings = {},
                    .plot = std::nullopt,
                    .bars = {},
                    .tables = {},
                    .reading = reading_of(priced.factors)};
  if (accounts.empty()) page.warnings.emplace_back("no job has completed an iteration in this month");
  for (const auto& [basis, account] : accounts) {
    page.facts.push_back({fmt::format("Jobs, {}", basis), fmt::to_string(account->jobs.size())});
    std::ranges::move(cards_of(basis, account->total, priced.factors), std::back_inserter(page.cards));
    for (const std::string& note : {missing_text(account->total), doubtful_text(account->total)}) {
      if (!note.empty()) page.warnings.push_back(note);
    }
    if (report::Bars bars = bars_of(basis, *account); !bars.rows.empty()) page.bars.push_back(std::move(bars));
    page.tables.push_back(page_table("Users", basis, users_of(*account, priced.factors)));
    page.tables.push_back(page_table("Jobs", basis, jobs_with_notes(*account, priced.factors)));
  }
  return page;
}

}  // namespace lowgear::operations
