#include "planning/planner/frontier/frontier_solver.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "base/core/error.h"

namespace lowgear::planner {

EventGraph::EventGraph(const ProblemInstance& instance) : ops_(static_cast<std::size_t>(instance.op_count())) {
  build_arcs(instance);
  build_adjacency();
}

void EventGraph::build_arcs(const ProblemInstance& instance) {
  std::vector<bool> has_successor(ops_, false);
  std::vector<bool> has_predecessor(ops_, false);
  const auto add = [this](std::int32_t tail, std::int32_t head) {
    tail_.push_back(tail);
    head_.push_back(head);
  };
  for (int op = 0; op < instance.op_count(); ++op) add(start_node(op), end_node(op));
  for (const schedule::DagEdge& edge : instance.edges) {
    add(end_node(edge.from), start_node(edge.to));
    has_successor[static_cast<std::size_t>(edge.from)] = true;
    has_predecessor[static_cast<std::size_t>(edge.to)] = true;
  }
  for (int op = 0; op < instance.op_count(); ++op) {
    if (!has_predecessor[static_cast<std::size_t>(op)]) add(source(), start_node(op));
    if (!has_successor[static_cast<std::size_t>(op)]) add(end_node(op), sink());
  }
}

void EventGraph::build_adjacency() {
  std::vector<std::vector<std::int32_t>> in(nodes());
  std::vector<std::vector<std::int32_t>> out(nodes());
  for (std::size_t arc = 0; arc < tail_.size(); ++arc) {
    in[static_cast<std::size_t>(head_[arc])].push_back(static_cast<std::int32_t>(arc));
    out[static_cast<std::size_t>(tail_[arc])].push_back(static_cast<std::int32_t>(arc));
  }
  // A search takes the arc it met last first. Staying on a rank (neighbouring op numbers) makes long paths that
  // saturate all microbatches at once.
  const auto far_first = [this](std::int32_t a, std::int32_t b) {
    const auto length = [this](std::int32_t arc) {
      return std::abs(tail_[static_cast<std::size_t>(arc)] - head_[static_cast<std::size_t>(arc)]);
    };
    return length(a) > length(b);
  };
  places_.reserve(nodes() + 1);
  half_arcs_.reserve(2 * tail_.size());
  for (std::size_t node = 0; node < nodes(); ++node) {
    std::stable_sort(in[node].begin(), in[node].end(), far_first);
    std::stable_sort(out[node].begin(), out[node].end(), far_first);
    Adjacency place;
    place.in_begin = static_cast<std::int32_t>(half_arcs_.size());
    for (const std::int32_t arc : in[node]) half_arcs_.push_back({tail_[static_cast<std::size_t>(arc)], arc});
    place.out_begin = static_cast<std::int32_t>(half_arcs_.size());
    for (const std::int32_t arc : out[node]) half_arcs_.push_back({head_[static_cast<std::size_t>(arc)], arc});
    places_.push_back(place);
  }
  places_.push_back({static_cast<std::int32_t>(half_arcs_.size()), static_cast<std::int32_t>(half_arcs_.size())});
}

FrontierSolver::FrontierSolver(const ProblemInstance& instance, WorkReport* work)
    : instance_(&instance), work_(work), graph_(instance) {
  double slowest_sum_s = 0;
  for (int op = 0; op < instance.op_count(); ++op) slowest_sum_s += s_from_ps(instance.cost(op).slowest_ps());
  if (slowest_sum_s > kMaxTimeS)
    throw InputError("the pipeline's ops take more than 10^6 s together; check the unit of time");
  flow_nw_.assign(graph_.arcs(), 0);
  piece_.resize(graph_.ops());
  op_arc_.resize(graph_.ops());
  for (std::size_t op = 0; op < graph_.ops(); ++op) {
    const ConvexCost& cost = instance.cost(static_cast<int>(op));
    piece_[op] = static_cast<std::int32_t>(cost.slope_nw.size());
    effective_energy_zj_ += cost.energy_zj(cost.slowest_ps());
    refresh_op(op);
  }
  set_initial_events();
}

void FrontierSolver::set_initial_events() {
  events_.assign(graph_.nodes(), {});
  std::vector<std::vector<int>> successors(graph_.ops());
  for (const schedule::DagEdge& edge : instance_->edges)
    successors[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  for (const int op : instance_->topological_order) {
    const TimePs finish_ps = event(EventGraph::start_node(op)).time_ps + instance_->cost(op).slowest_ps();
    event(EventGraph::end_node(op)).time_ps = finish_ps;
    event(graph_.sink()).time_ps = std::max(event(graph_.sink()).time_ps, finish_ps);
    for (const int next : successors[static_cast<std::size_t>(op)]) {
      TimePs& start_ps = event(EventGraph::start_node(next)).time_ps;
      start_ps = std::max(start_ps, finish_ps);
    }
  }
}

/// Brings an op's marginal lengths up to date after its flow has changed within its piece or to the edge of it.
void FrontierSolver::refresh_op(std::size_t op) {
  const ConvexCost& cost = instance_->cost(static_cast<int>(op));
  const PowerNw flow = flow_nw_[op];
  const auto slowest = static_cast<std::int32_t>(cost.slope_nw.size());
  // Piece k holds the flows in [slope[k], slope[k - 1]): from 0 for the slowest, without end for the fastest.
  const auto low = [&](std::int32_t k) { return k == slowest ? 0 : cost.slope_nw[static_cast<std::size_t>(k)]; };
  const auto high = [&](std::int32_t k) {
    return k == 0 ? kUnlimitedFlow : cost.slope_nw[static_cast<std::size_t>(k) - 1];
  };
  std::int32_t& piece = piece_[op];
  while (flow >= high(piece)) --piece;
  while (flow < low(piece)) ++piece;

  OpArc& arc = op_arc_[op];
  arc.shrink_ps = cost.time_ps[static_cast<std::size_t>(piece)];
  arc.shrink_room_nw = piece == 0 ? kUnlimitedFlow : high(piece) - flow;
  const bool between_pieces = flow == low(piece) && piece < slowest;
  const std::int32_t stretch_piece = between_pieces ? piece + 1 : piece;
  arc.stretch_ps = cost.time_ps[static_cast<std::size_t>(stretch_piece)];
  arc.stretch_room_nw = flow - low(stretch_piece);
}

FrontierSolver::Saturation FrontierSolver::saturate(PowerNw limit_nw) {
  while (true) {
    if (!search_.path_known) {
      search_.path_slack_ps = search_path();
      if (work_ != nullptr) work_->visited(search_.settled.size());
      search_.path_known = true;
    }
    if (search_.path_slack_ps > 0) return Saturation::shorter_possible;
    if (flow_value_nw_ >= limit_nw) return Saturation::limit_reached;
    const PowerNw room_nw = path_room_nw();
    if (room_nw == kUnlimitedFlow && limit_nw == kUnlimitedFlow) return Saturation::fastest;
    const PowerNw amount_nw = std::min(room_nw, limit_nw - flow_value_nw_);
    if (amount_nw >= kUnlimitedFlow - flow_value_nw_) {
      throw InputError("the pipeline saves energy, or waits, at more than 2 GW; check the units of time and energy");
    }
    push_along_path(amount_nw);
    search_.path_known = amount_nw < room_nw;
  }
}

/// Dijkstra on slack from the end of the iteration back to its start. Returns the least slack of any path: 0 when one
/// is tight. Nodes nearer than that are in `search_.settled`.
TimePs FrontierSolver::search_path() {
  begin_search();
  settle(graph_.sink(), 0, 0);
  TimePs distance_ps = 0;
  while (!settled(graph_.source())) {
    if (search_.stack.empty() && !settle_nearest(distance_ps)) {
      // Every node has an arc towards the end, and arcs never run out of room in their own direction.
      throw Error("internal: the end of the iteration cannot be reached from its start");
    }
    const std::int32_t node = search_.stack.back();
    search_.stack.pop_back();
    search_.settled.push_back(node);
    relax_arcs_of(node, distance_ps);
  }
  return event(graph_.source()).distance_ps;
}

void FrontierSolver::begin_search() {
  search_.settled.clear();
  search_.stack.clear();
  search_.heap.clear();
  search_.number += 2;
  if (search_.number == 0) {  // wrapped around: old marks would look new
    for (Event& at : events_) at.mark = 0;
    search_.number = 2;
  }
}

void FrontierSolver::settle(std::int32_t node, TimePs distance_ps, std::int32_t next_arc) {
  Event& at = event(node);
  at.distance_ps = distance_ps;
  at.mark = search_.number + 1;
  at.next_arc = next_arc;
  search_.stack.push_back(node);
}

/// Settles the nearest node that was reached but not settled, if there is one, and gives its distance.
bool FrontierSolver::settle_nearest(TimePs& distance_ps) {
  while (!search_.heap.empty()) {
    std::pop_heap(search_.heap.begin(), search_.heap.end(), std::greater<>());
    const auto [nearest_ps, node] = search_.heap.back();
    search_.heap.pop_back();
    if (settled(node)) continue;
    distance_ps = nearest_ps;
    settle(node, nearest_ps, event(node).next_arc);
    return true;
  }
  return false;
}

/// Follows a node's arcs. A start has one arc out, its op, and an end has one in: the rest are precedences, of length
/// 0.
void FrontierSolver::relax_arcs_of(std::int32_t node, TimePs distance_ps) {
  const std::int32_t op = node / 2;
  if (!is_event_of_op(node)) {
    relax_edges_out(node, distance_ps);
    relax_edges_in(node, distance_ps);
  } else if (node == EventGraph::start_node(op)) {
    const std::int32_t end = EventGraph::end_node(op);
    if (!settled(end) && flow_nw_[static_cast<std::size_t>(op)] != 0) {
      const TimePs window_ps = event(end).time_ps - event(node).time_ps;
      reach(end, distance_ps, op_arc_[static_cast<std::size_t>(op)].stretch_ps - window_ps, ~op);
    }
    relax_edges_in(node, distance_ps);
  } else {
    relax_edges_out(node, distance_ps);
    const std::int32_t start = EventGraph::start_node(op);
    if (!settled(start)) {
      const TimePs window_ps = event(node).time_ps - event(start).time_ps;
      reach(start, distance_ps, window_ps - op_arc_[static_cast<std::size_t>(op)].shrink_ps, op);
    }
  }
}

inline void FrontierSolver::relax_edges_out(std::int32_t node, TimePs distance_ps) {
  const EventGraph::Place place = graph_.place(node);
  const TimePs time_ps = event(node).time_ps;
  for (std::int32_t i = place.out_begin; i < place.out_end; ++i) {
    const auto [next, arc] = graph_.half_arc(i);
    if (settled(next) || flow_nw_[static_cast<std::size_t>(arc)] == 0) continue;
    reach(next, distance_ps, time_ps - event(next).time_ps, ~arc);
  }
}

inline void FrontierSolver::relax_edges_in(std::int32_t node, TimePs distance_ps) {
  const EventGraph::Place place = graph_.place(node);
  const TimePs time_ps = event(node).time_ps;
  for (std::int32_t i = place.in_begin; i < place.out_begin; ++i) {
    const auto [previous, arc] = graph_.half_arc(i);
    if (!settled(previous)) reach(previous, distance_ps, time_ps - event(previous).time_ps, arc);
  }
}

/// Notes that `node`, not settled, is `slack_ps` away from a node settled at `distance_ps`.
inline void FrontierSolver::reach(std::int32_t node, TimePs distance_ps, TimePs slack_ps, std::int32_t next_arc) {
  if (slack_ps == 0) {
    settle(node, distance_ps, next_arc);
    return;
  }
  Event& at = event(node);
  if (at.mark == search_.number && at.distance_ps <= distance_ps + slack_ps) return;
  at.distance_ps = distance_ps + slack_ps;
  at.mark = search_.number;
  at.next_arc = next_arc;
  search_.heap.emplace_back(at.distance_ps, node);
  std::push_heap(search_.heap.begin(), search_.heap.end(), std::greater<>());
}

PowerNw FrontierSolver::path_room_nw() const {
  PowerNw room_nw = kUnlimitedFlow;
  for (std::int32_t node = graph_.source(); node != graph_.sink();) {
    const bool against = event(node).next_arc < 0;
    const std::int32_t arc = against ? ~event(node).next_arc : event(node).next_arc;
    const auto index = static_cast<std::size_t>(arc);
    if (graph_.is_op(arc)) {
      room_nw = std::min(room_nw, against ? op_arc_[index].stretch_room_nw : op_arc_[index].shrink_room_nw);
    } else if (against) {
      room_nw = std::min(room_nw, flow_nw_[index]);
    }
    node = against ? graph_.tail(index) : graph_.head(index);
  }
  return room_nw;
}

void FrontierSolver::push_along_path(PowerNw amount_nw) {
  for (std::int32_t node = graph_.source(); node != graph_.sink();) {
    const bool against = event(node).next_arc < 0;
    const std::int32_t arc = against ? ~event(node).next_arc : event(node).next_arc;
    const auto index = static_cast<std::size_t>(arc);
    flow_nw_[index] += against ? -amount_nw : amount_nw;
    if (graph_.is_op(arc)) refresh_op(index);
    node = against ? graph_.tail(index) : graph_.head(index);
  }
  flow_value_nw_ += amount_nw;
}

/// Moves every event that is nearer to the end than the search's path earlier by the difference. No slack becomes
/// negative, arcs with flow stay tight, and the path becomes tight when the walk is not cut short.
void FrontierSolver::shorten(TimePs floor_ps) {
  const TimePs by_ps = std::min(search_.path_slack_ps, time_ps() - floor_ps);
  for (const std::int32_t node : search_.settled) {
    const TimePs distance_ps = event(node).distance_ps;
    if (distance_ps >= by_ps) break;  // settled in order of distance
    event(node).time_ps -= by_ps - distance_ps;
  }
  effective_energy_zj_ += static_cast<EnergyZj>(flow_value_nw_) * by_ps;
  search_.path_known = by_ps == search_.path_slack_ps;
  search_.path_slack_ps = 0;
}

void FrontierSolver::op_times(std::span<TimePs> time_ps) const {
  for (std::size_t op = 0; op < graph_.ops(); ++op) {
    const TimePs window_ps = finish_event_ps(static_cast<int>(op)) - start_event_ps(static_cast<int>(op));
    time_ps[op] = std::clamp(window_ps, op_arc_[op].shrink_ps, op_arc_[op].stretch_ps);
  }
}

FrontierSolver::State FrontierSolver::save() const {
  State state{flow_nw_, piece_, {}, flow_value_nw_, effective_energy_zj_};
  state.event_time_ps.reserve(events_.size());
  for (const Event& at : events_) state.event_time_ps.push_back(at.time_ps);
  return state;
}

void FrontierSolver::restore(const State& state) {
  flow_nw_ = state.flow_nw;
  piece_ = state.piece;
  for (std::size_t node = 0; node < events_.size(); ++node) events_[node].time_ps = state.event_time_ps[node];
  flow_value_nw_ = state.flow_value_nw;
  effective_energy_zj_ = state.effective_energy_zj;
  search_.path_known = false;
  for (std::size_t op = 0; op < graph_.ops(); ++op) refresh_op(op);
}

}  // namespace lowgear::planner
