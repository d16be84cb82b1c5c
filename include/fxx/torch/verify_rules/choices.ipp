// What suits an operator: shapes, dtypes and values of tensors, and immediates, beside the arguments chosen before.
//
// A wrong or missing suggestion costs tries, never correctness: what does not suit, the operator refuses.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fxx/ops/registry.hpp"
#include "fxx/rewrite/instantiate.hpp"
#include "fxx/torch/verify_rules/tensors.ipp"

namespace fxx::inline FXX_ABI::detail {

using Shape = std::vector<std::int64_t>;

/// What an operator would like a tensor to be.
struct Wanted {
  std::optional<Shape> shape = {};
  std::optional<std::int64_t> rank = {};
  std::optional<at::ScalarType> dtype = {};
  bool positive = false;
  std::int64_t below = 0;  // indices: 0 to this, exclusive
};

class Suggestions {
 public:
  using TensorOf = std::function<at::Tensor(const Argument&)>;  // the value of a node; undefined when it has none
  Suggestions(VerifyRandom& random, const Shape& pool, TensorOf tensor_of)
      : random_(random), pool_(pool), tensor_of_(std::move(tensor_of)) {}

  std::int64_t size() { return random_.chance(85) ? pool_[random_.below(pool_.size())] : any_size(); }
  std::int64_t any_size() { return random_.pick<std::int64_t>({0, 1, 1, 2, 2, 3, 3, 5, 8}); }
  std::int64_t rank() { return random_.pick<std::int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5}); }

  // --- tensors -------------------------------------------------------------------------------------------------------
  Wanted tensor(const rewrite::Hole& hole) {
    const std::string_view op = base_of(hole), name = hole.op->parameters[index(hole.parameter)].name;
    const int at = hole.parameter;
    const Shape first = shape_before(hole, 0), second = shape_before(hole, 1);
    const bool has_first = defined_before(hole, 0), has_second = defined_before(hole, 1);
    const std::int64_t channels = has_first && first.size() > 1 ? first[1] : size();
    if (hole.item > 0) return member(hole, op);
    if (name == "condition" || name == "mask") return {.shape = broadcast_of(hole), .dtype = at::kBool};
    if (name == "indices" || name == "index" || op == "embedding") {
      if (op == "embedding" && at == 0) return {.rank = 2};
      return {.dtype = at::kLong, .below = has_first && !first.empty() ? std::max<std::int64_t>(1, first[0]) : 2};
    }
    if (op == "linear") {
      if (at == 0) return {.rank = 1 + std::int64_t(random_.below(4))};
      if (at == 1) return {.shape = Shape{size(), first.empty() ? size() : first.back()}};
      return {.shape = Shape{has_second && !second.empty() ? second[0] : size()}};
    }
    if (op == "matmul") {
      if (at == 0) return carried(hole, {.rank = random_.pick<std::int64_t>({1, 2, 2, 3, 3, 4, 4})});
      if (first.empty()) return {.rank = 2};
      Shape s = {first.back(), size()};
      if (random_.chance(10)) s.pop_back();
      else if (first.size() > 2 && random_.chance(75)) s.insert(s.begin(), first.begin(), first.end() - 2);
      if (s.size() > 2 && random_.chance(15)) s[random_.below(s.size() - 2)] = 1;
      return {.shape = s};
    }
    if (op == "mm" || op == "bmm") {
      const std::int64_t batch = op == "bmm";
      if (at == 0) return {.rank = 2 + batch};
      Shape s = {first.empty() ? size() : first.back(), size()};
      if (batch) s.insert(s.begin(), first.empty() ? size() : first[0]);
      return {.shape = s};
    }
    if (op == "addmm" || op == "baddbmm") {
      const std::int64_t batch = op == "baddbmm";
      if (at == 0) return random_.chance(60) ? Wanted{.rank = 1} : Wanted{.rank = 2 + batch};
      const std::int64_t rows = first.size() > 1 ? first[first.size() - 2] : size();
      const std::int64_t columns = first.empty() ? size() : first.back();
      Shape s = at == 1 ? Shape{rows, size()} : Shape{second.empty() ? size() : second.back(), columns};
      if (random_.chance(15) && s[at == 1 ? 0 : 1] == 1) s[at == 1 ? 0 : 1] = size();
      if (batch) s.insert(s.begin(), at == 2 && !second.empty() ? second[0] : first.size() > 2 ? first[0] : size());
      return {.shape = s};
    }
    if (op.starts_with("conv")) return convolution(op, at, first, second);
    if (op == "batch_norm" || op == "instance_norm" || op == "native_batch_norm") {
      if (at == 0) return {.rank = 2 + std::int64_t(random_.below(4))};
      return {.shape = Shape{channels}, .positive = name == "running_var"};
    }
    if (op == "group_norm") {
      if (at == 0) return {.rank = 2 + std::int64_t(random_.below(4))};
      return {.shape = Shape{channels}};
    }
    if (op == "layer_norm" || op == "rms_norm") {
      if (at == 0) return {.rank = 1 + std::int64_t(random_.below(4))};
      Shape normalised;
      if (hole.before.size() > 1 && hole.before[1].is_sequence())
        for (const Argument& a : hole.before[1].items()) normalised.push_back(a.integer());
      return {.shape = normalised};
    }
    if (op == "prelu" && at == 1) return {.shape = random_.chance(50) ? Shape{channels} : Shape{1}};
    if (op == "scaled_dot_product_attention") {
      if (at == 0) return {.rank = 2 + std::int64_t(random_.below(3))};
      if (first.size() < 2) return {};
      Shape s = first;
      if (at == 1) s[s.size() - 2] = size();
      if (at == 2 && second.size() > 1) s = second, s.back() = random_.chance(70) ? s.back() : size();
      if (at == 3 && second.size() > 1) s.back() = second[second.size() - 2];
      return {.shape = s};
    }
    if (op == "t") {
      Wanted w = carried(hole, {.rank = 2});
      if (w.shape) std::reverse(w.shape->begin(), w.shape->end());
      return w;
    }
    if ((op == "transpose" || op == "swapaxes" || op == "permute" || op == "mT") && at == 0) {
      Wanted w = carried(hole, {.rank = 2 + std::int64_t(random_.below(3))});
      if (w.shape && w.shape->size() > 1) std::swap(w.shape->end()[-1], w.shape->end()[-2]);
      return w;
    }
    if (at == 0 && (has(hole.op->traits, Trait::pointwise) || keeps_shape(op))) return carried(hole, {});
    if (has(hole.op->traits, Trait::pointwise)) return {.shape = broadcast_of(hole)};
    return {};
  }

  // --- immediates ----------------------------------------------------------------------------------------------------
  Argument immediate(const rewrite::Hole& hole) {
    const Type& type = hole.type;
    const bool is_number = hole.wants == rewrite::Hole::Wants::number;
    if (type.optional && !is_number && random_.chance(25)) return {};
    if (type.list && !(is_number && type.list_size > 0)) return list(hole);
    const std::string_view name = hole.op->parameters[index(hole.parameter)].name;
    const bool is_dim = name.starts_with("dim") || name == "axis" || name.ends_with("_dim");
    switch (type.base) {
      case ValueType::boolean: return random_.chance(50);
      case ValueType::integer: return is_dim ? dimension(hole) : integer(hole, name);
      case ValueType::string: return text(name);
      case ValueType::dtype:
        if (const at::Tensor first = before(hole, 0); first.defined() && random_.chance(40))
          return to_dtype(first.scalar_type());
        return random_.pick({Dtype::float32, Dtype::float64, Dtype::int64, Dtype::boolean, Dtype::float16});
      case ValueType::layout: return Layout::strided;
      case ValueType::memory_format:
        return random_.pick(
            {MemoryFormat::contiguous_format, MemoryFormat::preserve_format, MemoryFormat::channels_last});
      case ValueType::device: return Device{};
      case ValueType::generator: return {};
      default: return number(name);
    }
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
  /// "add" of add and add_.
  static std::string_view base_of(const rewrite::Hole& hole) {
    std::string_view name = hole.op->base_name();
    if (name.size() > 1 && name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
    return name;
  }
  static bool keeps_shape(std::string_view op) {
    for (const std::string_view one : {"softmax", "log_softmax", "dropout", "feature_dropout", "alpha_dropout",
                                       "feature_alpha_dropout", "contiguous", "clone", "to", "identity", "cumsum"})
      if (op == one) return true;
    return false;
  }

  at::Tensor before(const rewrite::Hole& hole, std::size_t i) const {
    return i < hole.before.size() ? tensor_of_(hole.before[i]) : at::Tensor();
  }
  bool defined_before(const rewrite::Hole& hole, std::size_t i) const { return before(hole, i).defined(); }
  Shape shape_before(const rewrite::Hole& hole, std::size_t i) const {
    const at::Tensor t = before(hole, i);
    return t.defined() ? t.sizes().vec() : Shape{};
  }

  /// What the call around this one wants, for an operator that leaves shapes as they are.
  Wanted carried(const rewrite::Hole& hole, Wanted otherwise) {
    if (!hole.outer) return otherwise;
    Wanted w = tensor(*hole.outer);
    if (!w.shape && !w.rank) return otherwise;
    w.dtype = {};
    return w;
  }
  /// A shape that broadcasts with the tensors before it.
  std::optional<Shape> broadcast_of(const rewrite::Hole& hole) {
    for (const Argument& a : hole.before) {
      const at::Tensor t = tensor_of_(a);
      if (!t.defined()) continue;
      return broadcast(t.sizes().vec());
    }
    return {};
  }

 public:
  /// The shape, or what broadcasts with it.
  Shape broadcast(Shape s) {
    if (random_.chance(55)) return s;
    for (std::int64_t& n : s)
      if (n == 1 ? random_.chance(40) : random_.chance(35)) n = n == 1 ? size() : 1;
    while (!s.empty() && random_.chance(25)) s.erase(s.begin());
    if (s.size() < 4 && random_.chance(10)) s.insert(s.begin(), size());
    return s;
  }

 private:
  /// A further tensor in a list: like the first, but for one dimension.
  Wanted member(const rewrite::Hole& hole, std::string_view op) {
    const at::Tensor first = hole.items.empty() ? at::Tensor() : tensor_of_(hole.items[0]);
    if (!first.defined()) return {};
    Shape s = first.sizes().vec();
    if (op != "stack" && !s.empty() && random_.chance(50)) s[random_.below(s.size())] = size();
    return {.shape = s};
  }

  Wanted convolution(std::string_view op, int at, const Shape& first, const Shape& second) {
    const bool transposed = op.starts_with("conv_transpose");
    const std::int64_t dims = op.ends_with("1d") ? 1 : op.ends_with("2d") ? 2 : 3;
    if (at == 0) return {.rank = dims + (random_.chance(85) ? 2 : 1)};
    if (at == 1) {
      std::int64_t in = first.size() >= index(dims + 1) ? first[first.size() - index(dims + 1)] : size();
      std::int64_t out = size(), groups = 1;
      if (random_.chance(30) && in > 1) groups = in % 2 == 0 && random_.chance(50) ? 2 : in;
      in = transposed ? in : in / groups;
      if (!transposed) out *= groups;
      Shape s = transposed ? Shape{in, out} : Shape{out, in};
      for (std::int64_t d = 0; d < dims; ++d) s.push_back(1 + std::int64_t(random_.below(2)));
      return {.shape = s};
    }
    return {.shape = Shape{second.size() > 1 ? second[transposed ? 1 : 0] : size()}};
  }

  Argument dimension(const rewrite::Hole& hole) {
    std::int64_t dims = 3;
    for (const Argument& a : hole.before) {
      at::Tensor t = tensor_of_(a);
      if (!t.defined() && a.is_sequence() && !a.items().empty()) t = tensor_of_(a.items()[0]);
      if (t.defined()) {
        dims = t.dim();
        break;
      }
    }
    if (random_.chance(45)) return random_.pick<std::int64_t>({-1, -1, -2});
    return static_cast<std::int64_t>(random_.below(index(2 * std::max<std::int64_t>(dims, 1)))) -
           std::max<std::int64_t>(dims, 1);
  }

  Argument integer(const rewrite::Hole& hole, std::string_view name) {
    const Shape first = shape_before(hole, 0), second = shape_before(hole, 1);
    if (name == "groups" && hole.op->base_name().starts_with("conv")) {
      const bool transposed = hole.op->base_name().starts_with("conv_transpose");
      const std::size_t dims = second.size() - 2;
      if (transposed || second.size() < 3 || first.size() < dims + 1 || second[1] == 0) return 1;
      return std::max<std::int64_t>(1, first[first.size() - dims - 1] / second[1]);
    }
    if (name == "num_groups") return first.size() > 1 && random_.chance(50) ? std::max<std::int64_t>(1, first[1]) : 1;
    if (name == "stride" || name == "dilation" || name == "kernel_size") return 1 + std::int64_t(random_.below(2));
    if (name == "padding" || name == "output_padding") return std::int64_t(random_.below(2));
    if (name == "step") return 1 + std::int64_t(random_.below(3));
    if (name == "end" && random_.chance(30)) return 9223372036854775807;
    return random_.pick<std::int64_t>({0, 1, -1, 2, 3, -2, 5});
  }

  Argument text(std::string_view name) {
    if (name == "approximate") return random_.chance(50) ? "none" : "tanh";
    if (name == "padding") return random_.chance(50) ? "same" : "valid";
    if (name == "rounding_mode") return random_.chance(50) ? "floor" : "trunc";
    if (name == "mode") return random_.pick({"constant", "reflect", "replicate", "circular"});
    if (name == "indexing") return random_.chance(50) ? "ij" : "xy";
    return random_.pick({"none", "mean", "sum"});
  }

  Argument number(std::string_view name) {
    if (name == "eps") return random_.pick({1e-5, 1e-3, 0.1, 1e-12});
    if (name == "p" || name == "momentum") return random_.pick({0.0, 0.1, 0.5, 1.0});
    if (random_.chance(40)) return random_.pick<std::int64_t>({0, 1, -1, 2, 3, -2, 10});
    constexpr double infinite = std::numeric_limits<double>::infinity();
    if (random_.chance(5)) return random_.pick({infinite, -infinite, std::numeric_limits<double>::quiet_NaN()});
    return random_.pick({0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, 0.25, 1.5, 1e-3, -0.0});
  }

  Argument list(const rewrite::Hole& hole) {
    const Type& type = hole.type;
    const std::string_view name = hole.op->parameters[index(hole.parameter)].name, op = base_of(hole);
    const Shape first = shape_before(hole, 0);
    const auto of = [](const Shape& values) {
      std::vector<Argument> items(values.begin(), values.end());
      return Argument::list(std::move(items));
    };
    if (type.base == ValueType::boolean) return Argument::list({random_.chance(50)});
    if (type.base != ValueType::integer) {
      std::vector<Argument> items;
      for (std::size_t n = type.list_size ? type.list_size : 1 + random_.below(3); n--;) items.push_back(number(name));
      return Argument::list(std::move(items));
    }
    if (op == "permute") {
      Shape dims(first.size());
      for (std::size_t i = 0; i < dims.size(); ++i) dims[i] = std::int64_t(i);
      for (std::size_t i = dims.size(); i > 1; --i) std::swap(dims[i - 1], dims[random_.below(i)]);
      for (std::int64_t& d : dims)
        if (random_.chance(20)) d -= std::int64_t(first.size());
      return of(dims);
    }
    if (name.starts_with("dim")) {
      Shape dims;
      for (std::int64_t d = 0; d < std::int64_t(first.size()); ++d)
        if (random_.chance(40)) dims.push_back(random_.chance(50) ? d : d - std::int64_t(first.size()));
      if (dims.empty() && !first.empty()) dims.push_back(-1);
      return of(dims);
    }
    if (name == "pad") {
      Shape pad;
      for (std::size_t n = 2 * (1 + random_.below(std::max<std::size_t>(1, std::min<std::size_t>(first.size(), 3))));
           n--;)
        pad.push_back(random_.pick<std::int64_t>({0, 1, 1, 2, -1, 0}));
      return of(pad);
    }
    if (name == "split_sizes" && !first.empty()) {
      const std::int64_t whole = first[random_.below(first.size())],
                         part = std::int64_t(random_.below(index(whole) + 1));
      return of({part, whole - part});
    }
    if (name == "normalized_shape") {
      const std::size_t keep = first.empty() ? 0 : random_.below(first.size());
      return of(Shape(first.begin() + std::ptrdiff_t(keep), first.end()));
    }
    if (name == "size" || name == "shape" || name == "sizes") {
      if (op == "expand" || op == "broadcast_to") {
        Shape s = first;
        for (std::int64_t& n : s) n = n == 1 ? size() : random_.chance(30) ? -1 : n;
        if (s.size() < 4 && random_.chance(30)) s.insert(s.begin(), size());
        return of(s);
      }
      Shape s = first;
      if (s.size() > 1 && random_.chance(60)) {  // two dimensions become one
        const std::size_t d = random_.below(s.size() - 1);
        s[d] *= s[d + 1];
        s.erase(s.begin() + std::ptrdiff_t(d) + 1);
      }
      if (random_.chance(25)) s.insert(s.begin() + std::ptrdiff_t(random_.below(s.size() + 1)), 1);
      if (!s.empty() && random_.chance(40)) s[random_.below(s.size())] = -1;
      if (random_.chance(30)) s = {-1};
      return of(s);
    }
    const std::size_t n = type.list_size ? type.list_size : std::max<std::size_t>(1, first.size());
    const bool of_window =
        name == "stride" || name == "dilation" || name == "kernel_size" || name == "repeats" || name == "output_size";
    Shape s;
    for (std::size_t i = 0; i < n; ++i) s.push_back(std::int64_t(of_window) + std::int64_t(random_.below(2)));
    if (type.list_size && random_.chance(20)) return s[0];  // one for all
    return of(s);
  }

  VerifyRandom& random_;
  const Shape& pool_;
  TensorOf tensor_of_;
};

}  // namespace fxx::inline FXX_ABI::detail
