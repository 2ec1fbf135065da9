#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/core/units.h"
#include "planning/planner/frontier/instance.h"
#include "planning/planner/frontier/work_report.h"

namespace lowgear::planner {

/// An instance as a graph of events, for flow. Nodes are the start and the end of every op, and the start (source) and
/// the end (sink) of the iteration. Arcs are the ops first, then the precedences in the instance's order, then those
/// that tie the first and the last ops to source and sink.
class EventGraph {
 public:
  /// An arc as one of its ends sees it.
  struct HalfArc {
    std::int32_t other_node = 0;
    std::int32_t arc = 0;
  };
  /// Where a node's arcs stand in `half_arcs`.
  struct Place {
    std::int32_t in_begin = 0;
    std::int32_t out_begin = 0;  ///< also the end of the arcs in
    std::int32_t out_end = 0;
  };

  explicit EventGraph(const ProblemInstance& instance);

  [[nodiscard]] static std::int32_t start_node(int op) { return 2 * op; }
  [[nodiscard]] static std::int32_t end_node(int op) { return 2 * op + 1; }
  [[nodiscard]] std::int32_t source() const { return static_cast<std::int32_t>(2 * ops_); }
  [[nodiscard]] std::int32_t sink() const { return static_cast<std::int32_t>(2 * ops_) + 1; }
  [[nodiscard]] std::size_t nodes() const { return 2 * ops_ + 2; }
  [[nodiscard]] std::size_t ops() const { return ops_; }
  [[nodiscard]] std::size_t arcs() const { return tail_.size(); }
  [[nodiscard]] bool is_op(std::int32_t arc) const { return static_cast<std::size_t>(arc) < ops_; }
  [[nodiscard]] std::int32_t tail(std::size_t arc) const { return tail_[arc]; }
  [[nodiscard]] std::int32_t head(std::size_t arc) const { return head_[arc]; }
  [[nodiscard]] Place place(std::int32_t node) const {
    const auto index = static_cast<std::size_t>(node);
    return {places_[index].in_begin, places_[index].out_begin, places_[index + 1].in_begin};
  }
  [[nodiscard]] const HalfArc& half_arc(std::int32_t index) const {
    return half_arcs_[static_cast<std::size_t>(index)];
  }

 private:
  struct Adjacency {
    std::int32_t in_begin = 0;
    std::int32_t out_begin = 0;  ///< the next node's in_begin ends the arcs out
  };

  void build_arcs(const ProblemInstance& instance);
  void build_adjacency();

  std::size_t ops_;
  std::vector<std::int32_t> tail_;  ///< node, by arc
  std::vector<std::int32_t> head_;  ///< node, by arc
  std::vector<Adjacency> places_;
  std::vector<HalfArc> half_arcs_;
};

/// Walks the exact time-energy frontier of an instance from its slow end to its fast end, one vertex at a time.
///
/// The frontier is the value of a linear program whose dual is a flow: `flow_value_nw` (watts saved per second of
/// deadline) runs from the start of the iteration to its end. An op is an arc whose length is its time: `time_ps[k]`
/// (slowest) for the first `slope_nw[k-1]` units of flow, `time_ps[k-1]` for the next, and so on; a precedence is an
/// arc of length 0. Event times are the node potentials. The classical primal-dual method (Fulkerson 1961, Kelley 1961)
/// keeps every arc's slack non-negative and every flow-carrying arc tight. It alternates two steps:
///   1. at the present iteration time, push flow along tight paths until none is left;
///   2. move events earlier by what they have in slack to the end of the iteration (Dijkstra), until a path becomes
///      tight again. The iteration gets shorter, and energy rises by flow x time.
/// All in integers: exact, without tolerances, and the same on every machine.
class FrontierSolver {
 public:
  /// No limit on flow. Sums of two stay within 64 bits.
  static constexpr PowerNw kUnlimitedFlow = std::numeric_limits<PowerNw>::max() / 4;

  /// Everything that changes along the walk: keep one to return to its place later.
  struct State {
    std::vector<PowerNw> flow_nw;       ///< by arc
    std::vector<std::int32_t> piece;    ///< by op: index into its cost's breakpoints
    std::vector<TimePs> event_time_ps;  ///< by event
    PowerNw flow_value_nw = 0;
    EnergyZj effective_energy_zj = 0;
  };

  /// Starts with every op at its slowest. `instance` must outlive the solver. Throws InputError when the sum of all
  /// slowest times is beyond kMaxTimeS. `work` may be null; else it is told of every search, and what it throws leaves
  /// the solver as it was before that search.
  explicit FrontierSolver(const ProblemInstance& instance, WorkReport* work = nullptr);

  /// Iteration time at the present place.
  [[nodiscard]] TimePs time_ps() const { return event(graph_.sink()).time_ps; }
  /// Least sum of the ops' effective energies at that time.
  [[nodiscard]] EnergyZj effective_energy_zj() const { return effective_energy_zj_; }
  /// Value of the present flow: what the last stretch of the walk cost per time saved, and after `saturate` what the
  /// next one will. 0 at the start; never falls.
  [[nodiscard]] PowerNw flow_value_nw() const { return flow_value_nw_; }

  enum class Saturation {
    shorter_possible,  ///< no tight path is left: the next vertex is faster
    limit_reached,     ///< the flow has the asked value, and more could be pushed
    fastest,           ///< no flow stops the critical path: every op on it is at its fastest
  };
  /// Step 1: pushes flow, at the present iteration time, until no tight path is left or its value is `limit_nw` (which
  /// must not be below the present value). Throws InputError when the value would come to kUnlimitedFlow (2.3 GW).
  Saturation saturate(PowerNw limit_nw = kUnlimitedFlow);
  /// How far `shorten` will go. To be called, like it, after `saturate` has returned `shorter_possible`.
  [[nodiscard]] TimePs step_ps() const { return search_.path_slack_ps; }
  /// Step 2: walks to the next faster vertex, or to `floor_ps` (below `time_ps()`) when that comes first. To be called
  /// after `saturate` has returned `shorter_possible`.
  void shorten(TimePs floor_ps = 0);

  /// Time of every op: the slowest that the events allow within what its flow permits. An optimal solution.
  void op_times(std::span<TimePs> time_ps) const;
  /// Event times: the time by which op i has to be started and finished so that the iteration keeps its time.
  [[nodiscard]] TimePs start_event_ps(int op) const { return event(EventGraph::start_node(op)).time_ps; }
  [[nodiscard]] TimePs finish_event_ps(int op) const { return event(EventGraph::end_node(op)).time_ps; }
  /// Flow through every op and along every edge of the instance (in its order): the dual solution, for any deadline
  /// between the present place and the one before it.
  [[nodiscard]] std::span<const PowerNw> op_flow_nw() const { return std::span(flow_nw_).first(graph_.ops()); }
  [[nodiscard]] std::span<const PowerNw> edge_flow_nw() const {
    return std::span(flow_nw_).subspan(graph_.ops(), instance_->edges.size());
  }

  [[nodiscard]] State save() const;
  /// `state` must come from a solver of the same instance.
  void restore(const State& state);

 private:
  /// What flow through an op meets. More flow meets `shrink_ps` for the next `shrink_room_nw`; flow taken back gives
  /// `stretch_ps` for `stretch_room_nw`. The two times differ only when the flow stands exactly between two pieces.
  struct OpArc {
    TimePs shrink_ps = 0;
    TimePs stretch_ps = 0;
    PowerNw shrink_room_nw = 0;
    PowerNw stretch_room_nw = 0;
  };
  /// An event, and its place in the present search. Together, because the search spends its time on fetching both.
  struct Event {
    TimePs time_ps = 0;
    TimePs distance_ps = 0;     ///< slack from here to the end of the iteration
    std::uint32_t mark = 0;     ///< the search's number when reached, one more when settled; older: not met
    std::int32_t next_arc = 0;  ///< towards the end of the iteration; ~arc when taken against its direction
  };
  /// The shortest path from any event to the end of the iteration.
  struct Search {
    std::uint32_t number = 0;  ///< even; of the present search
    std::vector<std::int32_t> settled;
    std::vector<std::int32_t> stack;  ///< settled nodes at the present distance whose arcs are still to be followed
    std::vector<std::pair<TimePs, std::int32_t>> heap;
    bool path_known = false;   ///< the last search's labels still hold
    TimePs path_slack_ps = 0;  ///< of the path that it found
  };

  [[nodiscard]] Event& event(std::int32_t node) { return events_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const Event& event(std::int32_t node) const { return events_[static_cast<std::size_t>(node)]; }

  void set_initial_events();
  void refresh_op(std::size_t op);
  void begin_search();
  [[nodiscard]] TimePs search_path();
  void relax_arcs_of(std::int32_t node, TimePs distance_ps);
  void relax_edges_out(std::int32_t node, TimePs distance_ps);
  void relax_edges_in(std::int32_t node, TimePs distance_ps);
  void reach(std::int32_t node, TimePs distance_ps, TimePs slack_ps, std::int32_t next_arc);
  void settle(std::int32_t node, TimePs distance_ps, std::int32_t next_arc);
  [[nodiscard]] bool settle_nearest(TimePs& distance_ps);
  [[nodiscard]] PowerNw path_room_nw() const;
  void push_along_path(PowerNw amount_nw);
  [[nodiscard]] bool is_event_of_op(std::int32_t node) const { return node < graph_.source(); }
  [[nodiscard]] bool settled(std::int32_t node) const { return event(node).mark == search_.number + 1; }

  const ProblemInstance* instance_;
  WorkReport* work_;
  EventGraph graph_;
  std::vector<PowerNw> flow_nw_;     ///< by arc
  std::vector<std::int32_t> piece_;  ///< by op
  std::vector<OpArc> op_arc_;
  std::vector<Event> events_;
  PowerNw flow_value_nw_ = 0;
  EnergyZj effective_energy_zj_ = 0;
  Search search_;
};

}  // namespace lowgear::planner
