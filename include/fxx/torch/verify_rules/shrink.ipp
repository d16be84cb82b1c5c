// Makes a case that tells a rule's two sides apart smaller, so that a person can follow it.
#pragma once

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fxx/torch/verify_rules/case_graph.ipp"

namespace fxx::inline FXX_ABI::detail {

/// One round of changes that make a case simpler. `attempt(change)` keeps a change where the sides still differ, and says
/// whether it did; so does this of all of them.
template <class Attempt>
bool shrink(Case& c, const Attempt& attempt) {
  bool any = false;
  // Plain layouts, then sizes: the same size wherever it stands, since operators want them equal.
  any |= attempt([](Case& s) {
    bool changed = false;
    for (Given* g : s.tensors())
      if (!g->tensor.is_plain()) g->tensor = g->tensor.plain(), changed = true;
    return changed;
  });
  for (std::size_t i = 0; i < c.tensors().size(); ++i)
    any |= attempt([&](Case& s) {
      TensorRecipe& r = s.tensors()[i]->tensor;
      if (r.is_plain()) return false;
      r = r.plain();
      return true;
    });
  std::set<std::int64_t> sizes;
  for (const Given* g : c.tensors()) sizes.insert(g->tensor.shape.begin(), g->tensor.shape.end());
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    bool found = false;
    for (std::int64_t to = 1; to < *size && !found; ++to)
      for (const bool last : {false, true})
        found = found || attempt([&](Case& s) {
                  for (Given* g : s.tensors()) {
                    std::vector<std::int64_t> smaller = g->tensor.shape;
                    std::replace(smaller.begin(), smaller.end(), *size, to);
                    g->tensor = g->tensor.cut(smaller, last);
                  }
                  return true;
                });
    any |= found;
  }
  for (std::size_t i = 0; i < c.tensors().size(); ++i) {
    for (std::size_t d = 0; d < c.tensors()[i]->tensor.shape.size(); ++d)
      for (const bool last : {false, true})
        any |= attempt([&](Case& s) {
          TensorRecipe& r = s.tensors()[i]->tensor;
          if (d >= r.shape.size() || r.shape[d] < 2) return false;
          std::vector<std::int64_t> smaller = r.shape;
          smaller[d] = 1;
          r = r.cut(smaller, last);
          return true;
        });
    any |= attempt([&](Case& s) {  // a dimension less
      TensorRecipe& r = s.tensors()[i]->tensor;
      const auto one = std::find(r.shape.begin(), r.shape.end(), 1);
      if (one == r.shape.end() || !r.is_plain()) return false;
      r.shape.erase(one);
      return true;
    });
  }
  any |= attempt([](Case& s) {  // a dimension less of all
    bool changed = false;
    for (Given* g : s.tensors()) {
      TensorRecipe& r = g->tensor;
      if (r.shape.empty() || r.shape[0] != 1 || !r.is_plain()) continue;
      r.shape.erase(r.shape.begin());
      changed = true;
    }
    return changed;
  });
  any |= attempt([](Case& s) {  // float32 in place of others like it
    bool changed = false;
    for (Given* g : s.tensors()) {
      TensorRecipe& r = g->tensor;
      const bool other = at::isComplexType(r.dtype) || (at::isFloatingType(r.dtype) && r.dtype != at::kFloat);
      if (!other) continue;
      r.dtype = at::kFloat;
      r.imaginary.clear();
      changed = true;
    }
    return changed;
  });
  any |= attempt([](Case& s) {
    bool changed = false;
    for (std::size_t& choice : s.choices) changed |= std::exchange(choice, 0) != 0;
    return changed;
  });
  for (std::size_t i = 0; i < c.given.size(); ++i) {
    if (c.given[i].kind != Given::Kind::immediate) continue;
    const auto simpler = [&](Argument value) {
      return attempt([&](Case& s) {
        if (i >= s.given.size() || s.given[i].value == value) return false;
        s.given[i].value = value;
        return true;
      });
    };
    const Argument now = c.given[i].value;
    if (now.kind() == Argument::Kind::real && now.real() != 1 && now.real() != 2) any |= simpler(1.0) || simpler(2.0);
    if (now.kind() == Argument::Kind::boolean && now.boolean()) any |= simpler(false);
  }
  // Elements: all ones, then one by one.
  for (std::size_t i = 0; i < c.tensors().size(); ++i) {
    const auto with = [&](std::size_t from, std::size_t to, double value) {
      return attempt([&](Case& s) {
        if (i >= s.tensors().size()) return false;
        std::vector<double>& values = s.tensors()[i]->tensor.values;
        bool changed = false;
        for (std::size_t k = from; k < std::min(to, values.size()); ++k) {
          if (TensorRecipe::is_same(values[k], value)) continue;
          if (value != 1 && values[k] == 1) continue;  // simple enough
          values[k] = value;
          changed = true;
        }
        return changed;
      });
    };
    const std::size_t n = c.tensors()[i]->tensor.values.size();
    if (with(0, n, 1) || with(0, n, 0)) {
      any = true;
      continue;
    }
    for (std::size_t k = 0; k < n && k < 16; ++k) {
      const double value = c.tensors()[i]->tensor.values[k];
      if (value == 1 || value == 0) continue;
      any |= with(k, k + 1, 1) || with(k, k + 1, 0);
      if (std::isfinite(value) && value != std::round(value)) any |= with(k, k + 1, std::round(value));
    }
  }
  // The first reading, no call in place, no other user.
  for (std::size_t i = 0; i < c.choices.size(); ++i)
    any |= attempt([&](Case& s) { return i < s.choices.size() && std::exchange(s.choices[i], 0) != 0; });
  return any;
}

}  // namespace fxx::inline FXX_ABI::detail
