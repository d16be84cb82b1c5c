// What walks the traces in step: what it was given, what it knows, how it refuses.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/detail/size_choice.ipp"
#include "fxx/trace/detail/size_fit.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Walks the traces in step and makes one graph of them.
class SizeSolver {
 public:
  SizeSolver(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims,
             std::span<const SizeSet> refused = {})
      : traces_(traces),
        dims_(dims),
        refused_(refused),
        symbols_(size_symbols(dims)),
        names_(size_names(dims)),
        fit_(symbols_, sets(), refused) {}

  /// With `wanted`, goes on where several expressions fit and collects sizes that would tell them apart.
  Graph solve(std::vector<SizeSet>* wanted) {
    wanted_ = wanted;
    check_traces();
    result_ = traces_[0].graph;
    align();
    check_dimensions();
    collect_reads();
    for (place_ = 0; place_ < out_.size(); ++place_) {
      merge_node();
      merge_meta();
      for (const int read : reads_at_[place_]) fit_.add_read(read, true);
      for (const int size : sizes_of(place_)) fit_.add_read(size, false);
    }
    if (wanted_ && wanted_->empty() && !want_held_back())
      for (const SizeSet& set : fit_.tests(asked())) want_more(set);
    return std::move(result_);
  }

 private:
  using Kind = SizeExpressions::Kind;
  static constexpr int none = SizeExpressions::none;
  static constexpr std::uint32_t nowhere = UINT32_MAX;

  struct ReadPlace {
    std::size_t place;  // of the node
    int item;
    std::int64_t dim;
    auto operator<=>(const ReadPlace&) const = default;
  };

  // --- the sizes to trace at besides ---------------------------------------------------------------------------------

  /// The names whose sizes the code may compute with: those that it asked for, and all where that is not known.
  std::vector<bool> asked() const {
    std::vector<bool> asked(symbols_.size(), true), alone(symbols_.size(), false), told(symbols_.size(), false);
    const SizeSet& base = traces_[0].sizes;
    for (const SizedTrace& trace : traces_) {
      if (!trace.all_reads) return asked;
      const auto same_value = [](const SizedTrace::Read& a, const SizedTrace::Read& b) { return a.value == b.value; };
      const bool same = std::equal(trace.reads.begin(), trace.reads.end(), traces_[0].reads.begin(),
                                   traces_[0].reads.end(), same_value);
      std::size_t differing = 0, last = 0;
      for (std::size_t i = 0; i < base.size(); ++i)
        if (trace.sizes[i] != base[i]) ++differing, last = i;
      if (differing != 1) continue;
      alone[last] = true;
      told[last] = told[last] || !same;
    }
    for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = told[i] || !alone[i];
    return asked;
  }
  /// False when the set was traced, refused by the code, or asked for already.
  bool want(const SizeSet& set) {
    for (const SizedTrace& trace : traces_)
      if (trace.sizes == set) return false;
    if (std::find(refused_.begin(), refused_.end(), set) != refused_.end() ||
        std::find(wanted_->begin(), wanted_->end(), set) != wanted_->end())
      return false;
    wanted_->push_back(set);
    return true;
  }
  /// The first sets of the survey, which every solution has to hold at; what the code refuses does not count. False when
  /// they were traced already.
  bool want_held_back() {
    const std::size_t most = symbols_.size() == 1 ? 6 : symbols_.size() == 2 ? 7 : 2 + symbols_.size();
    std::size_t count = 0;
    bool any = false;
    for (const SizeSet& set : fit_.survey()) {
      if (std::find(refused_.begin(), refused_.end(), set) != refused_.end()) continue;
      any = want(set) || any;
      if (++count == most) break;
    }
    return any;
  }
  /// The same, unless there are so many traces that what fits all of them fails at the next, time after time.
  bool want_more(const SizeSet& set) {
    const std::size_t most = 48 + 8 * symbols_.size();
    if (!want(set)) return false;
    if (traces_.size() < most) return true;
    throw TraceError(ErrorId::size_not_solved,
                     "trace: numbers change with the sizes, and each expression that fits " +
                         std::to_string(traces_.size()) +
                         " traces may fail at the next; numbers have to follow from sizes by +, -, *, /, %, min, max "
                         "or sqrt. Compute it so, or with operators that the trace sees, or leave the dimension out");
  }
  /// Whether there are sizes left that may show what a number follows: more of them, the less earlier ones did.
  bool want_survey() {
    const std::size_t most = std::max<std::size_t>(2, traces_.size() / 3);
    std::size_t count = 0;
    for (const SizeSet& set : fit_.survey())
      if (want(set) && ++count == most) break;
    return count > 0;
  }

  // --- what was given ------------------------------------------------------------------------------------------------

  std::vector<SizeSet> sets() const {
    std::vector<SizeSet> sets;
    for (const SizedTrace& trace : traces_) {
      if (trace.sizes.size() != symbols_.size())
        invalid("a trace has " + std::to_string(trace.sizes.size()) + " sizes; there are " +
                std::to_string(symbols_.size()) + " distinct names of dynamic dimensions");
      sets.push_back(trace.sizes);
    }
    return sets;
  }
  [[noreturn]] void invalid(const std::string& what) const {
    throw TraceError(ErrorId::dynamic_dim_invalid, "trace: " + what);
  }
  void check_traces() const {
    if (traces_.empty() || !fit_.enough_sets())
      invalid(std::to_string(traces_.size()) + " traces are too few for " + std::to_string(symbols_.size()) +
              " dynamic sizes; trace at what sizes_to_trace names");
    if (!fit_.independent())
      invalid("at the sizes of the traces, one name follows from the others; trace at what sizes_to_trace names");
  }
  void check_dimensions() const {
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      std::vector<const Node*> inputs;
      for (const Node* node : nodes_[t])
        if (node->opcode() == Opcode::placeholder) inputs.push_back(node);
      for (const DynamicDim& dim : dims_) {
        if (dim.input >= inputs.size())
          invalid(dim_text(dim) + " does not exist; the graph has " + std::to_string(inputs.size()) + " inputs");
        const TensorMeta* meta = inputs[dim.input]->tensor_meta();
        if (!meta) continue;
        if (dim.dim >= meta->dim() || dim.dim < -meta->dim())
          invalid(dim_text(dim) + " does not exist; the input has " + std::to_string(meta->dim()) + " dimensions");
        const std::int64_t size = meta->shape[static_cast<std::size_t>(dim.dim < 0 ? dim.dim + meta->dim() : dim.dim)];
        const auto name = std::find(names_.begin(), names_.end(), dim.name) - names_.begin();
        if (size != traces_[t].sizes[static_cast<std::size_t>(name)])
          invalid(dim_text(dim) + " is " + std::to_string(size) + " in the trace at " + at(t));
      }
    }
  }

  /// Reads that all traces have of the same place; the code may have asked for others besides.
  void collect_reads() {
    reads_at_.resize(out_.size());
    std::vector<std::map<ReadPlace, std::int64_t>> values(traces_.size());
    std::vector<ReadPlace> order;
    for (std::size_t t = 0; t < traces_.size(); ++t)
      for (const SizedTrace::Read& read : traces_[t].reads) {
        if (!read.node || read.node->is_erased() || read.node->index() >= places_[t].size()) continue;
        const ReadPlace place{places(t, *read.node).back(), read.item, read.dim};
        if (values[t].emplace(place, read.value).second && t == 0) order.push_back(place);
      }
    for (const ReadPlace& place : order) {
      SizeValues v;
      for (const auto& known : values)
        if (const auto found = known.find(place); found != known.end()) v.push_back(found->second);
      if (v.size() == traces_.size()) reads_at_[place.place].push_back(leaf(place, std::move(v)));
    }
  }
  int leaf(const ReadPlace& place, SizeValues values) {
    const auto [at, fresh] = read_index_.try_emplace(place, static_cast<std::int64_t>(reads_.size()));
    if (fresh) {
      reads_.push_back(place);
      std::string text(nodes_[0][place.place]->name());
      if (place.item >= 0) text += "[" + std::to_string(place.item) + "]";
      read_names_.push_back(text + ".size(" + std::to_string(place.dim) + ")");
    }
    return fit_.expressions().leaf(Kind::read, at->second, std::move(values));
  }

  // --- messages ------------------------------------------------------------------------------------------------------

  /// "batch=5, seq=7".
  std::string at(std::size_t t) const { return sizes_text(names_, traces_[t].sizes); }
  std::string text(int e) { return fit_.expressions().text(e, names_, read_names_); }
  static ErrorContext context(const Node& node) {
    return {format_node(node), node.source(), node.module_stack().text()};
  }

  /// Trace `t` is the first that differs from the first one, at the place at hand.
  [[noreturn]] void differ(std::size_t t, const std::string& what) const {
    const auto side = [&](std::size_t trace) {
      const Node* node = nodes_[trace][place_];
      if (!node) return std::string("nothing");
      return "`" + format_node(*node) + "`" + (node->source().empty() ? "" : " from " + node->source());
    };
    std::string remedy =
        "A branch on a size, or a loop that runs as often as a size says, makes such graphs: decide the branch before "
        "tracing, replace the loop by an operator over the dimension, or leave the dimension out";
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (const std::size_t side : {std::size_t{0}, t})
        if (traces_[side].sizes[i] < 2)
          remedy = "Code often does something else at a size of " + std::to_string(traces_[side].sizes[i]) +
                   ": raise the minimum of '" + names_[i] + "' to 2 if that is so. " + remedy;
    throw TraceError(ErrorId::traces_differ,
                     "trace: the code does different things at different sizes, first in " + what + ": at " + at(0) +
                         " there is " + side(0) + ", at " + at(t) + " there is " + side(t) +
                         "; one graph has one course for all sizes. " + remedy,
                     context(nodes_[0][place_] ? *nodes_[0][place_] : *nodes_[t][place_]));
  }
  template <class T>
  std::string seen(const std::vector<T>& values) const {
    std::string text;
    constexpr std::size_t most = 12;
    for (std::size_t t = 0; t < std::min(most, values.size()); ++t)
      text += (t ? ", " : "") + to_string(Argument(values[t])) + " at " + at(t);
    return values.size() <= most ? text : text + ", and " + std::to_string(values.size() - most) + " more";
  }
  [[noreturn]] void unsolved(const std::string& what) const {
    throw TraceError(ErrorId::size_not_solved, "trace: " + what, context(*nodes_[0][place_]));
  }
  template <class T>
  [[noreturn]] void no_expression(const std::vector<T>& values) const {
    unsolved(path_ + " changes with the sizes, and no expression over them gives it: " + seen(values) +
             "; numbers have to follow from sizes by +, -, *, /, %, min, max or sqrt. Compute it so, or with operators "
             "that the trace sees, or leave the dimension out");
  }

  // --- nodes in step -------------------------------------------------------------------------------------------------

  const Node& node(std::size_t t) const { return *nodes_[t][place_]; }

  /// Gives corresponding nodes one place.
  ///
  /// LibTorch's front end leaves out a slice that takes everything: `x.index({Slice(0, n)})` is `alias` where n is all
  /// of x, and nothing where another dimension is cut as well. Such a trace gets the slice back: its node at that place
  /// is the value that would be sliced.
  void align();
  static bool slices(const Node& node) {
    return node.calls(table_operator(OperatorIndex::slice_Tensor)) && node.opcode() == Opcode::call_function &&
           node.kwargs().empty() && node.args().size() >= 2 && node.arg(0).is_node() &&
           node.arg(1).kind() == Argument::Kind::integer;
  }
  /// A slice of every element between two numbers, which takes everything at some sizes.
  static bool may_take_all(const Node& node) {
    return slices(node) && node.args().size() == 4 && node.arg(2).kind() == Argument::Kind::integer &&
           node.arg(3).kind() == Argument::Kind::integer;
  }
  void take(std::size_t t, const Node& node) {
    nodes_[t].back() = &node;
    std::uint32_t& place = places_[t][node.index()];
    if (place != nowhere) {
      std::vector<std::uint32_t>& known = more_places_[{t, node.index()}];
      if (known.empty()) known.push_back(place);
      known.push_back(static_cast<std::uint32_t>(place_));
    }
    place = static_cast<std::uint32_t>(place_);
  }
  /// `slice` is a node of one trace; those that do not have it get one that takes everything.
  void add_slices(const Node& slice, const std::vector<std::vector<Node*>>& all, std::vector<std::size_t>& next,
                  const std::vector<Node*>& copies);

  /// Arguments of the node at hand, which may be a slice that the trace does not have.
  std::span<const Argument> args(std::size_t t) const {
    if (!completed_.empty()) return completed_[t].args;
    const auto added = added_.find({t, place_});
    return added == added_.end() ? node(t).args() : std::span<const Argument>(added->second);
  }
  std::span<const KeywordArgument> kwargs(std::size_t t) const {
    if (!completed_.empty()) return completed_[t].kwargs;
    return added_.contains({t, place_}) ? std::span<const KeywordArgument>() : node(t).kwargs();
  }

  /// A recorded call leaves out what is the default of the schema. Where that holds at some sizes only, the traces that
  /// lack an argument get the default, and so does the result.
  void complete();
  void merge_node();

  /// The places that a node has, the last one last: more than one where slices that take everything were added.
  std::span<const std::uint32_t> places(std::size_t t, const Node& node) const {
    if (!more_places_.empty())
      if (const auto more = more_places_.find({t, node.index()}); more != more_places_.end()) return more->second;
    return {&places_[t][node.index()], 1};
  }

  template <class F>
  bool all_same(F&& argument) const {
    for (std::size_t t = 1; t < traces_.size(); ++t)
      if (!same(argument(0), argument(t), t)) return false;
    return true;
  }
  /// Equal up to the correspondence of nodes.
  bool same(const Argument& a, const Argument& b, std::size_t t) const;

  /// One argument for all traces, in terms of the result's nodes.
  Argument merge(const std::vector<const Argument*>& values);

  // --- numbers -------------------------------------------------------------------------------------------------------

  Argument integer(const std::vector<const Argument*>& values);
  Argument real(const std::vector<const Argument*>& values);

  /// Sizes that change of a node's value, where its shapes are known.
  std::vector<int> sizes_of(std::size_t place);
  /// The same of the tensors that the node at hand takes.
  std::span<const int> operands();

  // --- nodes that compute sizes --------------------------------------------------------------------------------------

  /// A node before the one at hand; the same call with the same arguments is made once.
  Argument call(OperatorIndex index, std::vector<Argument> args);
  Argument argument(int e);
  Node* size_node(Node* tensor, std::int64_t dim, std::string_view name);
  /// Behind the inputs, in the order of the names.
  Node* symbol(std::size_t i);
  /// Behind the node whose size it is.
  Node* read(const ReadPlace& place);

  // --- shapes --------------------------------------------------------------------------------------------------------

  void merge_meta();
  std::int64_t size_number(const SizeValues& values);

  std::span<const SizedTrace> traces_;
  std::span<const DynamicDim> dims_;
  std::span<const SizeSet> refused_;
  std::vector<SizeSymbol> symbols_;
  std::vector<std::string> names_;
  SizeFit fit_;
  std::vector<SizeSet>* wanted_ = nullptr;

  Graph result_;
  std::vector<Node*> out_;                          // the result's nodes, by place
  std::vector<std::vector<const Node*>> nodes_;     // of each trace, by place
  std::vector<std::vector<std::uint32_t>> places_;  // of each trace, by index of the node
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<std::uint32_t>> more_places_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Argument>> added_;  // slices, by trace and place
  struct Completed {
    std::vector<Argument> args;
    std::vector<KeywordArgument> kwargs;
  };
  std::vector<Completed> completed_;  // of the nodes at hand, by trace; empty where they give the same parameters
  std::size_t place_ = 0;             // of the nodes at hand
  std::string path_;                  // of the argument at hand
  std::vector<int> operands_;
  bool operands_known_ = false;

  std::vector<ReadPlace> reads_;
  std::vector<std::string> read_names_;
  std::map<ReadPlace, std::int64_t> read_index_;
  std::vector<std::vector<int>> reads_at_;  // leaves, by place of the node

  std::map<int, Argument> made_;  // nodes of expressions
  std::map<std::size_t, Node*> symbol_nodes_;
  std::map<OperatorIndex, std::vector<std::pair<std::vector<Argument>, Node*>>> calls_;
  std::map<SizeValues, std::int64_t> size_numbers_;
};

}  // namespace fxx::inline FXX_ABI::detail
