// Bodies of trace/sizes.hpp.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "fxx/error.hpp"
#include "fxx/ir/print.hpp"
#include "fxx/ops/registry.hpp"
#include "fxx/trace/detail/size_fit.hpp"
#include "fxx/trace/sizes.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Sizes are not larger than this, so that a few of them can be multiplied.
inline constexpr std::int64_t largest_size = std::int64_t{1} << 40;

FXX_INLINE std::string describe(const DynamicDim& dim) {
  return "dimension " + std::to_string(dim.dim) + " of input " + std::to_string(dim.input) + ", '" + dim.name + "',";
}

FXX_INLINE std::vector<SizeSymbol> size_symbols(std::span<const DynamicDim> dims, const char* call) {
  const auto fail = [&](const std::string& what) {
    throw TraceError(ErrorId::dynamic_dim_invalid, std::string(call) + ": " + what);
  };
  if (dims.empty()) fail("there is no dynamic dimension; name at least one, {0, 0, \"batch\"}");
  std::vector<SizeSymbol> symbols;
  for (const DynamicDim& dim : dims) {
    if (dim.name.empty()) fail(describe(dim) + " has no name; give it one, {0, 0, \"batch\"}");
    if (dim.minimum < 0 || dim.minimum > largest_size || dim.maximum < 0 || dim.multiple_of < 1 ||
        dim.multiple_of > largest_size)
      fail(describe(dim) + " has minimum " + std::to_string(dim.minimum) + ", maximum " + std::to_string(dim.maximum) +
           ", multiple_of " + std::to_string(dim.multiple_of) +
           "; sizes are not negative and below 2^40, and multiples are of 1 or more");
    const std::int64_t maximum = dim.maximum ? std::min(dim.maximum, largest_size) : largest_size;
    const auto known = std::find_if(symbols.begin(), symbols.end(), [&](auto& s) { return s.name == dim.name; });
    if (known == symbols.end()) {
      symbols.push_back({dim.name, dim.minimum, maximum, dim.multiple_of, dim.input, dim.dim});
      continue;
    }
    known->minimum = std::max(known->minimum, dim.minimum);
    known->maximum = std::min(known->maximum, maximum);
    // At most 2^40 times 2^40 over what they share: too large is as good as contradicting.
    const std::int64_t factor = dim.multiple_of / std::gcd(known->multiple_of, dim.multiple_of);
    known->multiple_of = factor > largest_size / known->multiple_of ? largest_size + 1 : known->multiple_of * factor;
  }
  for (SizeSymbol& s : symbols) {
    // Up and down to the sizes that are really there.
    s.minimum = (s.minimum + s.multiple_of - 1) / s.multiple_of * s.multiple_of;
    s.maximum = s.maximum / s.multiple_of * s.multiple_of;
    if (s.minimum >= s.maximum || s.maximum < 2)
      fail("the bounds of '" + s.name + "' leave " + (s.minimum > s.maximum ? "no size" : "one size only") +
           "; a size that changes needs two at least. Widen the bounds, or leave the dimension out");
  }
  return symbols;
}

/// Picks sizes of one symbol, each another one as long as there are any.
class SizePicker {
 public:
  explicit SizePicker(const SizeSymbol& symbol) : symbol_(symbol) {}

  void use(std::int64_t size) { used_.push_back(size); }
  /// The nearest allowed size that is not used yet: upwards, then downwards; what was used first when all are.
  std::int64_t pick(std::int64_t wanted) {
    const std::int64_t step = symbol_.multiple_of, lowest = std::max(symbol_.minimum, (2 + step - 1) / step * step);
    wanted = std::clamp((wanted + step - 1) / step * step, lowest, std::max(lowest, symbol_.maximum));
    for (std::int64_t size = wanted; size <= symbol_.maximum; size += step)
      if (fresh(size)) return used_.emplace_back(size);
    for (std::int64_t size = wanted; size >= lowest; size -= step)
      if (fresh(size)) return used_.emplace_back(size);
    return used_.empty() ? used_.emplace_back(symbol_.maximum) : used_.back();
  }

 private:
  bool fresh(std::int64_t size) const { return std::find(used_.begin(), used_.end(), size) == used_.end(); }

  const SizeSymbol& symbol_;
  std::vector<std::int64_t> used_;
};

}  // namespace detail

FXX_INLINE std::vector<std::string> size_names(std::span<const DynamicDim> dims) {
  std::vector<std::string> names;
  for (const DynamicDim& dim : dims)
    if (std::find(names.begin(), names.end(), dim.name) == names.end()) names.push_back(dim.name);
  return names;
}

FXX_INLINE std::vector<SizeSet> sizes_to_trace(std::span<const DynamicDim> dims, std::span<const SizeSet> given) {
  const std::vector<detail::SizeSymbol> symbols = detail::size_symbols(dims, "sizes_to_trace");
  const std::size_t count = symbols.size();
  std::vector<detail::SizePicker> pickers(symbols.begin(), symbols.end());
  std::vector<SizeSet> sets;
  for (const SizeSet& set : given) {
    if (set.size() != count)
      throw TraceError(ErrorId::dynamic_dim_invalid, "sizes_to_trace: a given set has " + std::to_string(set.size()) +
                                                         " sizes; there are " + std::to_string(count) +
                                                         " distinct names of dynamic dimensions");
    SizeSet& allowed = sets.emplace_back(set);
    for (std::size_t i = 0; i < count; ++i)
      if (symbols[i].allows(set[i])) pickers[i].use(set[i]);
      else allowed[i] = pickers[i].pick(std::clamp<std::int64_t>(set[i], 0, detail::largest_size));
  }
  if (sets.empty()) {
    sets.emplace_back();
    for (std::size_t i = 0; i < count; ++i) sets[0].push_back(pickers[i].pick(0));
  }
  const SizeSet base = sets[0];

  // One below and one above a multiple of many numbers, and such a multiple: n / k changes its value between them.
  SizeSet below(count), above(count), multiple(count);
  const auto many = [&](std::size_t i) {
    const std::int64_t n = base[i] / symbols[i].multiple_of;
    return symbols[i].multiple_of > 1 ? 1 : n < 16 ? 12 : n < 64 ? 24 : 64;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t step = symbols[i].multiple_of;
    // Different symbols are different numbers, also where they started as the same.
    const std::int64_t next = (base[i] / step + 1) / many(i) + 1, k = next + static_cast<std::int64_t>(i / 2);
    const std::int64_t first = step > 1 ? k + 1 : many(i) * k - 1, second = step > 1 ? k + 2 : many(i) * k + 1;
    below[i] = pickers[i].pick((i % 2 ? second : first) * step);
    above[i] = pickers[i].pick((i % 2 ? first : second) * step);
    multiple[i] = (many(i) * (next + 1 + static_cast<std::int64_t>(i % 2)) + (step > 1 ? 3 : 0)) * step;
  }
  // In the last set, of sizes that are not far apart the smaller is the larger one, so that it shows where the code
  // takes one for being the smaller.
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return base[a] > base[b]; });
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = order[i];
    if (i && base[order[i - 1]] <= 4 * base[at] && multiple[order[i - 1]] < 8 * base[at]) {
      const std::int64_t step = symbols[at].multiple_of * many(at);
      multiple[at] = std::max(multiple[at], (multiple[order[i - 1]] / step + 1) * step);
    }
    multiple[at] = pickers[at].pick(multiple[at]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    sets.push_back(base);
    sets.back()[i] = below[i];
  }
  sets.push_back(above);
  sets.push_back(multiple);
  std::vector<SizeSet> distinct;
  for (SizeSet& set : sets)
    if (std::find(distinct.begin(), distinct.end(), set) == distinct.end()) distinct.push_back(std::move(set));
  return distinct;
}

namespace detail {

/// A new number for a size that changes from call to call; no two calls give the same.
FXX_INLINE std::int64_t next_dynamic_size() {
  static std::int64_t last = -1;
  return __atomic_sub_fetch(&last, 1, __ATOMIC_RELAXED);
}

/// Walks the traces in step and makes one graph of them.
class SizeSolver {
 public:
  SizeSolver(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims, const char* call)
      : traces_(traces),
        dims_(dims),
        call_(call),
        symbols_(size_symbols(dims, call)),
        names_(size_names(dims)),
        fit_(symbols_, sets()) {}

  /// With `wanted`, goes on where several expressions fit and collects sizes that would tell them apart.
  Graph solve(std::vector<SizeSet>* wanted) {
    wanted_ = wanted;
    check_traces();
    result_ = traces_[0].graph;
    for (const SizedTrace& trace : traces_) {
      nodes_.push_back(trace.graph.nodes().snapshot());
      std::vector<std::uint32_t>& position = positions_.emplace_back(trace.graph.index_bound());
      for (std::size_t p = 0; p < nodes_.back().size(); ++p)
        position[nodes_.back()[p]->index()] = static_cast<std::uint32_t>(p);
    }
    out_ = result_.nodes().snapshot();
    check_dimensions();
    collect_reads();
    for (place_ = 0; place_ < nodes_[0].size(); ++place_) {
      merge_node();
      merge_meta();
      for (const auto& read : reads_at_[place_]) fit_.add_read(read);
    }
    for (std::size_t t = 1; t < traces_.size(); ++t)
      if (nodes_[t].size() != nodes_[0].size())
        differ(t, "what comes after the end of the shorter one", nodes_[0].size());
    return std::move(result_);
  }

 private:
  using Kind = SizeExpressions::Kind;
  static constexpr int none = SizeExpressions::none;

  struct ReadPlace {
    std::size_t position;
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
    throw TraceError(ErrorId::dynamic_dim_invalid, std::string(call_) + ": " + what);
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
          invalid(describe(dim) + " does not exist; the graph has " + std::to_string(inputs.size()) + " inputs");
        const TensorMeta* meta = inputs[dim.input]->tensor_meta();
        if (!meta) continue;
        if (dim.dim >= meta->dim() || dim.dim < -meta->dim())
          invalid(describe(dim) + " does not exist; the input has " + std::to_string(meta->dim()) + " dimensions");
        const std::int64_t size = meta->shape[static_cast<std::size_t>(dim.dim < 0 ? dim.dim + meta->dim() : dim.dim)];
        const auto name = std::find(names_.begin(), names_.end(), dim.name) - names_.begin();
        if (size != traces_[t].sizes[static_cast<std::size_t>(name)])
          invalid(describe(dim) + " is " + std::to_string(size) + " in the trace at " + at(t));
      }
    }
  }

  /// Reads that all traces have of the same place; the code may have asked for others besides.
  void collect_reads() {
    reads_at_.resize(nodes_[0].size());
    std::vector<std::map<ReadPlace, std::int64_t>> values(traces_.size());
    std::vector<ReadPlace> order;
    for (std::size_t t = 0; t < traces_.size(); ++t)
      for (const SizedTrace::Read& read : traces_[t].reads) {
        if (!read.node || read.node->is_erased()) continue;
        const ReadPlace place{positions_[t][read.node->index()], read.item, read.dim};
        if (values[t].emplace(place, read.value).second && t == 0) order.push_back(place);
      }
    for (const ReadPlace& place : order) {
      SizeValues v;
      for (const auto& known : values)
        if (const auto found = known.find(place); found != known.end()) v.push_back(found->second);
      if (v.size() == traces_.size()) reads_at_[place.position].push_back(leaf(place, std::move(v)));
    }
  }
  int leaf(const ReadPlace& place, SizeValues values) {
    const auto [at, fresh] = read_index_.try_emplace(place, static_cast<std::int64_t>(reads_.size()));
    if (fresh) {
      reads_.push_back(place);
      std::string text(nodes_[0][place.position]->name());
      if (place.item >= 0) text += "[" + std::to_string(place.item) + "]";
      read_names_.push_back(text + ".size(" + std::to_string(place.dim) + ")");
    }
    return fit_.expressions().leaf(Kind::read, at->second, std::move(values));
  }

  // --- messages ------------------------------------------------------------------------------------------------------

  /// "batch=5, seq=7".
  std::string at(std::size_t t) const { return at(traces_[t].sizes); }
  std::string at(const SizeSet& sizes) const {
    std::string text;
    for (std::size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + names_[i] + "=" + std::to_string(sizes[i]);
    return text;
  }
  std::string text(int e) { return fit_.expressions().text(e, names_, read_names_); }
  static ErrorContext context(const Node& node) {
    return {format_node(node), node.source(), node.module_stack().text()};
  }

  /// Trace `t` is the first that differs from the first one.
  [[noreturn]] void differ(std::size_t t, const std::string& what) const { differ(t, what, place_); }
  [[noreturn]] void differ(std::size_t t, const std::string& what, std::size_t place) const {
    const auto side = [&](std::size_t trace) {
      if (place >= nodes_[trace].size()) return std::string("nothing");
      const Node& node = *nodes_[trace][place];
      return "`" + format_node(node) + "`" + (node.source().empty() ? "" : " from " + node.source());
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
                     std::string(call_) + ": the code does different things at different sizes, first in " + what +
                         ": at " + at(0) + " there is " + side(0) + ", at " + at(t) + " there is " + side(t) +
                         "; one graph has one course for all sizes. " + remedy,
                     context(*nodes_[0][std::min(place, nodes_[0].size() - 1)]));
  }
  template <class T>
  std::string seen(const std::vector<T>& values) const {
    std::string text;
    for (std::size_t t = 0; t < values.size(); ++t)
      text += (t ? ", " : "") + to_string(Argument(values[t])) + " at " + at(t);
    return text;
  }
  [[noreturn]] void unsolved(const std::string& what) const {
    throw TraceError(ErrorId::size_not_solved, std::string(call_) + ": " + what, context(*nodes_[0][place_]));
  }
  template <class T>
  [[noreturn]] void no_expression(const std::vector<T>& values) const {
    unsolved(path_ + " changes with the sizes, and no expression over them gives it: " + seen(values) +
             "; numbers have to follow from sizes by +, -, *, /, %, min, max or sqrt. Compute it so, or with operators "
             "that the trace sees, or leave the dimension out");
  }

  // --- nodes in step -------------------------------------------------------------------------------------------------

  const Node& node(std::size_t t) const { return *nodes_[t][place_]; }

  void merge_node() {
    for (std::size_t t = 1; t < traces_.size(); ++t) {
      if (place_ >= nodes_[t].size()) differ(t, "the number of nodes");
      if (!(node(0).op() == node(t).op())) differ(t, "what is called");
      if (node(0).args().size() != node(t).args().size()) differ(t, "the number of arguments");
      if (node(0).kwargs().size() != node(t).kwargs().size()) differ(t, "the keyword arguments");
      for (std::size_t k = 0; k < node(0).kwargs().size(); ++k)
        if (node(0).kwargs()[k].key != node(t).kwargs()[k].key) differ(t, "the keyword arguments");
    }
    operands_known_ = false;
    const Operator* op = operator_of(node(0));
    std::vector<const Argument*> values(traces_.size());
    for (std::size_t i = 0; i < node(0).args().size(); ++i) {
      const auto argument = [&](std::size_t t) -> const Argument& { return node(t).args()[i]; };
      if (all_same(argument)) continue;
      for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
      path_ = node(0).opcode() == Opcode::output ? "the returned value" : "argument " + std::to_string(i);
      if (op && i < op->parameters.size()) path_ += " (" + std::string(op->parameters[i].name) + ")";
      out_[place_]->update_arg(i, merge(values));
    }
    for (std::size_t k = 0; k < node(0).kwargs().size(); ++k) {
      const auto argument = [&](std::size_t t) -> const Argument& { return node(t).kwargs()[k].value; };
      if (all_same(argument)) continue;
      for (std::size_t t = 0; t < traces_.size(); ++t) values[t] = &argument(t);
      path_ = "argument '" + std::string(node(0).kwargs()[k].key) + "'";
      out_[place_]->update_kwarg(node(0).kwargs()[k].key, merge(values));
    }
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
      case Argument::Kind::node: return positions_[0][a.node()->index()] == positions_[t][b.node()->index()];
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
      case Argument::Kind::node:
        for (std::size_t t = 1; t < values.size(); ++t)
          if (!same(first, *values[t], t)) differ(t, path_);
        return out_[positions_[0][first.node()->index()]];
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
                 "; values are " + seen(v) + ". Trace at " + at(answer.ask) + " as well, which would tell");
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

  /// Sizes that change of the tensors that the node at hand takes.
  std::span<const int> operands() {
    if (operands_known_) return operands_;
    operands_known_ = true;
    operands_.clear();
    for (const Node* input : node(0).all_input_nodes()) {
      const std::size_t position = positions_[0][input->index()];
      std::vector<const TensorMeta*> metas;
      for (const auto& nodes : nodes_) metas.push_back(nodes[position]->tensor_meta());
      if (std::find(metas.begin(), metas.end(), nullptr) != metas.end()) continue;
      for (std::size_t d = 0; d < metas[0]->shape.size(); ++d) {
        SizeValues v;
        for (const TensorMeta* meta : metas)
          if (d < meta->shape.size()) v.push_back(meta->shape[d]);
        if (v.size() == metas.size() && std::find_if(v.begin(), v.end(), [&](auto x) { return x != v[0]; }) != v.end())
          operands_.push_back(leaf({position, -1, static_cast<std::int64_t>(d)}, std::move(v)));
      }
    }
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
    Node* tensor = out_[place.position];
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
  const char* call_;
  std::vector<SizeSymbol> symbols_;
  std::vector<std::string> names_;
  SizeFit fit_;
  std::vector<SizeSet>* wanted_ = nullptr;

  Graph result_;
  std::vector<Node*> out_;                             // the result's nodes, by place in the traces
  std::vector<std::vector<Node*>> nodes_;              // of each trace
  std::vector<std::vector<std::uint32_t>> positions_;  // of each trace, by index of the node
  std::size_t place_ = 0;                              // of the nodes at hand
  std::string path_;                                   // of the argument at hand
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
  detail::SizeSolver(traces, dims, "more_sizes_to_trace").solve(&wanted);
  return wanted;
}

FXX_INLINE Graph solve_sizes(std::span<const SizedTrace> traces, std::span<const DynamicDim> dims) {
  return detail::SizeSolver(traces, dims, "solve_sizes").solve(nullptr);
}

}  // namespace fxx::inline FXX_ABI
