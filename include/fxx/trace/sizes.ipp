// Bodies of trace/sizes.hpp: one class, which walks the traces in step. Which sizes to trace at is chosen in
// detail/size_choice.ipp.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/detail/size_choice.ipp"
#include "fxx/trace/detail/size_fit.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// A new number for a size that changes from call to call; no two calls give the same.
FXX_INLINE std::int64_t next_dynamic_size() {
  static std::int64_t last = -1;
  return __atomic_sub_fetch(&last, 1, __ATOMIC_RELAXED);
}

/// Walks the traces in step and makes one graph of them.
class SizeSolver {
 public:
  SizeSolver(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims)
      : traces_(traces), dims_(dims), symbols_(size_symbols(dims)), names_(size_names(dims)), fit_(symbols_, sets()) {}

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
    for (std::size_t t = 0; t < values.size(); ++t)
      text += (t ? ", " : "") + to_string(Argument(values[t])) + " at " + at(t);
    return text;
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
  void align() {
    const std::size_t traces = traces_.size();
    std::vector<std::vector<Node*>> all;
    std::vector<std::size_t> next(traces, 0);
    for (const SizedTrace& trace : traces_) {
      all.push_back(trace.graph.nodes().snapshot());
      places_.emplace_back(trace.graph.index_bound(), nowhere);
    }
    nodes_.resize(traces);
    const std::vector<Node*> copies = result_.nodes().snapshot();
    const auto current = [&](std::size_t t) { return next[t] < all[t].size() ? all[t][next[t]] : nullptr; };
    while (true) {
      place_ = out_.size();
      bool ended = true, same_op = true;
      const Node* slice = nullptr;  // the one of the first dimension
      for (std::size_t t = 0; t < traces; ++t) {
        const Node* const node = current(t);
        ended = ended && !node;
        same_op = same_op && !node == !current(0) && (!node || node->op() == current(0)->op());
        if (node && slices_from_start(*node) && (!slice || node->arg(1).integer() < slice->arg(1).integer()))
          slice = node;
      }
      if (ended) return;
      if (slice) {
        for (std::size_t t = 0; t < traces; ++t)
          same_op = same_op && current(t) && slices_from_start(*current(t)) && current(t)->arg(1) == slice->arg(1);
      }
      for (std::size_t t = 0; t < traces; ++t) nodes_[t].push_back(current(t));
      if (same_op) {
        for (std::size_t t = 0; t < traces; ++t) take(t, *all[t][next[t]++]);
        out_.push_back(copies[next[0] - 1]);
        continue;
      }
      if (!slice) {
        for (std::size_t t = 1; t < traces; ++t)
          if (!current(t) != !current(0) || (current(t) && !(current(t)->op() == current(0)->op())))
            differ(t, "what is called");
      }
      add_slices(*slice, all, next, copies);
    }
  }
  static bool slices_from_start(const Node& node) {
    return node.calls(table_operator(OperatorIndex::slice_Tensor)) && node.opcode() == Opcode::call_function &&
           node.kwargs().empty() && node.args().size() == 4 && node.arg(0).is_node() &&
           node.arg(1).kind() == Argument::Kind::integer && node.arg(2) == Argument(0) &&
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
                  const std::vector<Node*>& copies) {
    const std::int64_t dim = slice.arg(1).integer();
    std::size_t owner = 0;
    while (&slice.graph() != &traces_[owner].graph) ++owner;
    const std::uint32_t sliced = places(owner, *slice.arg(0).node()).back();
    for (std::size_t t = 0; t < traces_.size(); ++t) {
      const Node* const node = nodes_[t].back();
      if (node && slices_from_start(*node) && node->arg(1) == slice.arg(1)) {
        take(t, *all[t][next[t]++]);
        if (t == 0) out_.push_back(copies[next[0] - 1]);
        continue;
      }
      const Node* const whole = nodes_[t][sliced];
      const TensorMeta* const meta = whole->tensor_meta();
      const std::int64_t d = meta && dim < 0 ? dim + meta->dim() : dim;
      if (!meta || d < 0 || d >= meta->dim()) differ(t ? t : owner, "what is called");
      const std::int64_t size = meta->shape[static_cast<std::size_t>(d)];
      const bool alias = node && node->calls(table_operator(OperatorIndex::alias)) && node->arg(0).is_node() &&
                         node->arg(0).node() == whole;
      added_[{t, place_}] = {const_cast<Node*>(whole), dim, 0, size};
      take(t, alias ? *all[t][next[t]++] : *whole);
      if (t > 0) continue;
      // The result is a copy of the first trace: the slice has to be in it.
      const std::array<Argument, 4> args = {out_[sliced], dim, 0, size};
      Node* made = alias ? copies[next[0] - 1] : nullptr;
      if (alias) {
        made->set_op(CallFunction{&table_operator(OperatorIndex::slice_Tensor)});
        made->set_args(std::span<const Argument>(args));
      } else {
        const InsertPoint before = result_.inserting_before(next[0] < copies.size() ? copies[next[0]] : nullptr);
        made = result_.call_function(table_operator(OperatorIndex::slice_Tensor), std::span<const Argument>(args));
        made->set_tensor_meta(*meta);
        made->set_location(slice.location());
        made->set_module_stack(slice.module_stack());
      }
      out_.push_back(made);
    }
  }

  /// Arguments of the node at hand, which may be a slice that the trace does not have.
  std::span<const Argument> args(std::size_t t) const {
    const auto added = added_.find({t, place_});
    return added == added_.end() ? node(t).args() : std::span<const Argument>(added->second);
  }
  std::span<const KeywordArgument> kwargs(std::size_t t) const {
    return added_.contains({t, place_}) ? std::span<const KeywordArgument>() : node(t).kwargs();
  }

  void merge_node() {
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      if (args(0).size() != args(t).size()) differ(t, "the number of arguments");
      if (kwargs(0).size() != kwargs(t).size()) differ(t, "the keyword arguments");
      for (std::size_t k = 0; k < kwargs(0).size(); ++k)
        if (kwargs(0)[k].key != kwargs(t)[k].key) differ(t, "the keyword arguments");
    }
    operands_known_ = false;
    const Operator* op = operator_of(*out_[place_]);
    std::vector<const Argument*> values(traces_.size());
    for (std::size_t i = 0; i < args(0).size(); ++i) {
      const auto argument = [&](std::size_t t) -> const Argument& { return args(t)[i]; };
      if (all_same(argument)) continue;
      for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
      path_ = out_[place_]->opcode() == Opcode::output ? "the returned value" : "argument " + std::to_string(i);
      if (op && i < op->parameters.size()) path_ += " (" + std::string(op->parameters[i].name) + ")";
      out_[place_]->update_arg(i, merge(values));
    }
    for (std::size_t k = 0; k < kwargs(0).size(); ++k) {
      const auto argument = [&](std::size_t t) -> const Argument& { return kwargs(t)[k].value; };
      if (all_same(argument)) continue;
      for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
      path_ = "argument '" + std::string(kwargs(0)[k].key) + "'";
      out_[place_]->update_kwarg(kwargs(0)[k].key, merge(values));
    }
  }

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
  bool same(const Argument& a, const Argument& b, std::size_t t) const {
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
      case Argument::Kind::node: {
        const auto x = places(0, *a.node()), y = places(t, *b.node());
        return x.size() == 1 && y.size() == 1 && x[0] == y[0];
      }
      case Argument::Kind::list:
      case Argument::Kind::tuple: {
        const auto x = a.items(), y = b.items();
        if (x.size() != y.size()) return false;
        for (std::size_t i = 0; i < x.size(); ++i)
          if (!same(x[i], y[i], t)) return false;
        return true;
      }
      case Argument::Kind::dict: {
        const auto x = a.entries(), y = b.entries();
        if (x.size() != y.size()) return false;
        for (std::size_t i = 0; i < x.size(); ++i)
          if (!(x[i].key == y[i].key) || !same(x[i].value, y[i].value, t)) return false;
        return true;
      }
      case Argument::Kind::slice:
        return same(a.slice().start, b.slice().start, t) && same(a.slice().stop, b.slice().stop, t) &&
               same(a.slice().step, b.slice().step, t);
      default: return a == b;
    }
  }

  /// One argument for all traces, in terms of the result's nodes.
  Argument merge(const std::vector<const Argument*>& values) {
    const Argument& first = *values[0];
    for (std::size_t t = 1; t < values.size(); ++t)
      if (values[t]->kind() != first.kind()) differ(t, path_);
    const auto parts = [&](auto&& part, const std::string& name) {
      const std::string outer = path_;
      std::vector<const Argument*> of(values.size());
      for (std::size_t t = 0; t < values.size(); ++t) of[t] = &part(*values[t]);
      path_ += ", " + name;
      Argument merged = merge(of);
      path_ = outer;
      return merged;
    };
    const auto equal_counts = [&](auto&& count) {
      for (std::size_t t = 1; t < values.size(); ++t)
        if (count(*values[t]) != count(first)) differ(t, path_ + ", the number of items");
    };
    switch (first.kind()) {
      case Argument::Kind::node: {
        const auto places_of_first = places(0, *first.node());
        std::vector<std::uint32_t> common(places_of_first.begin(), places_of_first.end());
        for (std::size_t t = 1; t < values.size(); ++t) {
          const auto of = places(t, *values[t]->node());
          std::erase_if(common, [&](auto place) { return std::find(of.begin(), of.end(), place) == of.end(); });
          if (common.empty()) differ(t, path_);
        }
        return out_[common.back()];
      }
      case Argument::Kind::integer: return integer(values);
      case Argument::Kind::real: return real(values);
      case Argument::Kind::list:
      case Argument::Kind::tuple: {
        equal_counts([](const Argument& a) { return a.items().size(); });
        std::vector<Argument> items;
        for (std::size_t i = 0; i < first.items().size(); ++i)
          items.push_back(
              parts([i](const Argument& a) -> const Argument& { return a.items()[i]; }, "item " + std::to_string(i)));
        return first.kind() == Argument::Kind::list ? Argument::list(std::move(items))
                                                    : Argument::tuple(std::move(items));
      }
      case Argument::Kind::dict: {
        equal_counts([](const Argument& a) { return a.entries().size(); });
        std::vector<DictEntry> entries;
        for (std::size_t i = 0; i < first.entries().size(); ++i) {
          const Argument& key = first.entries()[i].key;
          for (std::size_t t = 1; t < values.size(); ++t)
            if (!(values[t]->entries()[i].key == key)) differ(t, path_ + ", the keys");
          entries.push_back({key, parts([i](const Argument& a) -> const Argument& { return a.entries()[i].value; },
                                        "item " + to_string(key))});
        }
        return Argument::dict(std::move(entries));
      }
      case Argument::Kind::slice:
        return Slice{parts([](const Argument& a) -> const Argument& { return a.slice().start; }, "start"),
                     parts([](const Argument& a) -> const Argument& { return a.slice().stop; }, "stop"),
                     parts([](const Argument& a) -> const Argument& { return a.slice().step; }, "step")};
      default:
        for (std::size_t t = 1; t < values.size(); ++t)
          if (!(*values[t] == first)) differ(t, path_);
        return first;
    }
  }

  // --- numbers -------------------------------------------------------------------------------------------------------

  Argument integer(const std::vector<const Argument*>& values) {
    SizeValues v;
    for (const Argument* a : values) v.push_back(a->integer());
    if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) == v.end()) return v[0];
    const SizeFit::Answer answer = fit_.integer(v, operands());
    if (answer.expression == none) no_expression(v);
    if (!answer.ask.empty()) {
      if (!wanted_)
        unsolved(path_ + " changes with the sizes, and more than one expression gives it: " + text(answer.expression) +
                 (answer.rival == none ? std::string(" fits, but one size alone shows it")
                                       : " and " + text(answer.rival) + " both fit") +
                 "; values are " + seen(v) + ". Trace at " + sizes_text(names_, answer.ask) +
                 " as well, which would tell");
      // What was asked for another number may do for this one too; if not, the next round asks again.
      if (wanted_->size() < 3 && std::find(wanted_->begin(), wanted_->end(), answer.ask) == wanted_->end())
        wanted_->push_back(answer.ask);
    }
    return argument(answer.expression);
  }
  Argument real(const std::vector<const Argument*>& values) {
    std::vector<double> v;
    for (const Argument* a : values) v.push_back(a->real());
    if (std::find_if(values.begin(), values.end(), [&](auto* x) { return !(*x == *values[0]); }) == values.end())
      return *values[0];
    const std::optional<SizeReal> found = fit_.real(v, operands());
    if (!found) no_expression(v);
    using Factor = SizeReal::Factor;
    Argument x = argument(found->e);
    if (found->over != none) x = call(OperatorIndex::operator_truediv, {x, argument(found->over)});
    if (found->root) x = call(OperatorIndex::math_sqrt, {x});
    switch (found->use) {
      case Factor::none:
        // A whole number that was real stays so: operators tell the two apart.
        if (found->over == none && !found->root) x = call(OperatorIndex::operator_truediv, {x, 1.0});
        break;
      case Factor::times: x = call(OperatorIndex::operator_mul, {x, found->factor}); break;
      case Factor::divided_by: x = call(OperatorIndex::operator_truediv, {x, found->factor}); break;
      case Factor::divides: x = call(OperatorIndex::operator_truediv, {found->factor, x}); break;
    }
    return found->added == 0 ? x : call(OperatorIndex::operator_add, {x, found->added});
  }

  /// Sizes that change of a node's value, where its shapes are known.
  std::vector<int> sizes_of(std::size_t place) {
    std::vector<int> sizes;
    std::vector<const TensorMeta*> metas;
    for (const auto& nodes : nodes_) {
      metas.push_back(nodes[place]->tensor_meta());
      if (!metas.back() || metas.back()->dim() != metas[0]->dim()) return {};
    }
    for (std::size_t d = 0; d < metas[0]->shape.size(); ++d) {
      SizeValues v;
      for (const TensorMeta* meta : metas) v.push_back(meta->shape[d]);
      if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) != v.end())
        sizes.push_back(leaf({place, -1, static_cast<std::int64_t>(d)}, std::move(v)));
    }
    return sizes;
  }
  /// The same of the tensors that the node at hand takes.
  std::span<const int> operands() {
    if (operands_known_) return operands_;
    operands_known_ = true;
    operands_.clear();
    for (const Argument& argument : args(0))
      for_each_node(argument, [&](Node* input) {
        for (const int size : sizes_of(places(0, *input).back())) operands_.push_back(size);
      });
    return operands_;
  }

  // --- nodes that compute sizes --------------------------------------------------------------------------------------

  /// A node before the one at hand; the same call with the same arguments is made once.
  Argument call(OperatorIndex index, std::vector<Argument> args) {
    for (const auto& [op, made] : calls_[index])
      if (op == args) return made;
    const InsertPoint before = result_.inserting_before(out_[place_]);
    Node* made = result_.call_function(table_operator(index), args);
    made->set_location(out_[place_]->location());
    made->set_module_stack(out_[place_]->module_stack());
    if (out_[place_]->has_meta()) made->meta() = out_[place_]->meta();
    calls_[index].emplace_back(std::move(args), made);
    return made;
  }
  Argument argument(int e) {
    const SizeExpressions::Term term = fit_.expressions().term(e);
    if (term.kind == Kind::constant) return term.value;
    if (const auto known = made_.find(e); known != made_.end()) return known->second;
    Argument made;
    switch (term.kind) {
      case Kind::symbol: made = symbol(static_cast<std::size_t>(term.value)); break;
      case Kind::read: made = read(reads_[static_cast<std::size_t>(term.value)]); break;
      case Kind::neg: made = call(OperatorIndex::operator_neg, {argument(term.a)}); break;
      default: {
        const OperatorIndex index = term.kind == Kind::add        ? OperatorIndex::operator_add
                                    : term.kind == Kind::sub      ? OperatorIndex::operator_sub
                                    : term.kind == Kind::mul      ? OperatorIndex::operator_mul
                                    : term.kind == Kind::floordiv ? OperatorIndex::operator_floordiv
                                    : term.kind == Kind::mod      ? OperatorIndex::operator_mod
                                    : term.kind == Kind::minimum  ? OperatorIndex::builtins_min
                                                                  : OperatorIndex::builtins_max;
        const Argument a = argument(term.a);
        made = call(index, {a, argument(term.b)});
      }
    }
    made_.emplace(e, made);
    return made;
  }
  Node* size_node(Node* tensor, std::int64_t dim, std::string_view name) {
    Node* node = result_.create_node(CallMethod{"size"}, {tensor, dim}, {}, name);
    node->set_resolved(&table_operator(OperatorIndex::size_int));
    return node;
  }
  /// Behind the inputs, in the order of the names.
  Node* symbol(std::size_t i) {
    Node *input = nullptr, *last = nullptr;
    std::size_t count = 0;
    for (Node* node : out_)
      if (node->opcode() == Opcode::placeholder) {
        last = node;
        if (count++ == symbols_[i].input) input = node;
      }
    for (const auto& [other, node] : symbol_nodes_)
      if (other < i) last = node;
    const InsertPoint behind = result_.inserting_after(last);
    std::int64_t dim = symbols_[i].dim;
    if (const TensorMeta* meta = input->tensor_meta(); meta && dim < 0) dim += meta->dim();
    return symbol_nodes_[i] = size_node(input, dim, names_[i]);
  }
  /// Behind the node whose size it is.
  Node* read(const ReadPlace& place) {
    Node* tensor = out_[place.place];
    if (place.item >= 0) {
      Node* item = nullptr;
      for (Node* user : tensor->users())
        if (user->calls(table_operator(OperatorIndex::operator_getitem)) && user->args().size() == 2 &&
            user->arg(0) == Argument(tensor) && user->arg(1) == Argument(place.item))
          item = user;
      if (item) {
        // The code may have taken it later than it asked for the size.
        tensor->append(item);
      } else {
        const InsertPoint behind = result_.inserting_after(tensor);
        item = result_.call_function(table_operator(OperatorIndex::operator_getitem), {tensor, place.item});
      }
      tensor = item;
    }
    const InsertPoint behind = result_.inserting_after(tensor);
    return size_node(tensor, place.dim, std::string(tensor->name()) + "_size_" + std::to_string(place.dim));
  }

  // --- shapes --------------------------------------------------------------------------------------------------------

  void merge_meta() {
    std::vector<const TensorMeta*> metas;
    for (std::size_t t = 0; t < traces_.size(); ++t) metas.push_back(node(t).tensor_meta());
    if (std::find(metas.begin(), metas.end(), nullptr) != metas.end()) {
      if (metas[0]) out_[place_]->clear_tensor_meta();
      return;
    }
    bool changes = false;
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      if (metas[t]->dtype != metas[0]->dtype) differ(t, "the dtype of the result");
      if (metas[t]->dim() != metas[0]->dim()) differ(t, "the number of dimensions of the result");
      changes = changes || metas[t]->shape != metas[0]->shape || metas[t]->stride != metas[0]->stride;
    }
    if (!changes) return;
    TensorMeta meta = *metas[0];
    for (const TensorMeta* other : metas)
      if (other->stride != meta.stride) meta.stride.clear();
    for (std::size_t d = 0; d < meta.shape.size(); ++d) {
      SizeValues v;
      for (const TensorMeta* other : metas) v.push_back(other->shape[d]);
      if (std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) == v.end()) continue;
      if (node(0).opcode() == Opcode::get_attr) {
        path_ = "the constant '" + node(0).target() + "', size " + std::to_string(d) + ",";
        unsolved(path_ + " changes with the sizes of the inputs: " + seen(v) +
                 "; C++ made it, so the graph would keep one of them. Build it with operators (arange, zeros, full) "
                 "that the trace sees, or leave the dimension out");
      }
      meta.symbols.resize(meta.shape.size());
      const int e = fit_.description(v);
      meta.symbols[d] = e == none ? "?" : text(e);
      meta.shape[d] = e == none ? next_dynamic_size() : size_number(v);
    }
    if (!meta.symbols.empty())
      for (std::size_t d = 0; d < meta.shape.size(); ++d)
        if (meta.shape[d] >= 0) meta.symbols[d] = std::to_string(meta.shape[d]);
    out_[place_]->set_tensor_meta(meta);
  }
  std::int64_t size_number(const SizeValues& values) {
    const auto [at, fresh] = size_numbers_.try_emplace(values, 0);
    if (fresh) at->second = next_dynamic_size();
    return at->second;
  }

  std::span<const SizedTrace> traces_;
  std::span<const DynamicDim> dims_;
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
  std::size_t place_ = 0;                                                       // of the nodes at hand
  std::string path_;                                                            // of the argument at hand
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

}  // namespace detail

FXX_INLINE std::vector<SizeSet> more_sizes_to_trace(std::span<const SizedTrace> traces,
                                                    std::span<const DynamicDim> dims) {
  std::vector<SizeSet> wanted;
  detail::SizeSolver(traces, dims).solve(&wanted);
  return wanted;
}

FXX_INLINE Graph solve_sizes(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims) {
  return detail::SizeSolver(traces, dims).solve(nullptr);
}

}  // namespace fxx::inline FXX_ABI
