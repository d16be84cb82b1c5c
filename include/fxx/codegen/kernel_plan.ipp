// Bodies of codegen/kernel_plan.hpp.
#pragma once

#include <algorithm>
#include <cstdio>

#include "fxx/codegen/kernel_plan.hpp"
#include "fxx/meta/enum_name.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE plans::Sizes plans::dense_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i];
  }
  return strides;
}

FXX_INLINE plans::Buffer::Border plans::Buffer::Border::around(const Border& other) const {
  return {std::max(top, other.top), std::max(left, other.left), std::max(bottom, other.bottom),
          std::max(right, other.right)};
}
FXX_INLINE plans::Buffer::Border plans::Buffer::Border::outside(const Border& other) const {
  return {top + other.top, left + other.left, bottom + other.bottom, right + other.right};
}

FXX_INLINE std::string KernelStep::name() const {
  return nodes.empty() ? std::string() : std::string(nodes.back()->name());
}

FXX_INLINE std::vector<std::pair<std::string, std::string>> KernelPlan::called_back() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const KernelStep& step : steps)
    if (const auto* back = std::get_if<plans::CallBack>(&step.kernel); back && !back->is_region())
      result.emplace_back(back->nodes.front()->name(), back->why);
  return result;
}
FXX_INLINE std::vector<std::pair<std::string, std::string>> KernelPlan::interpreted() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const KernelStep& step : steps)
    if (const auto* back = std::get_if<plans::CallBack>(&step.kernel); back && back->is_region())
      for (std::size_t i = 0; i < back->nodes.size(); ++i)
        result.emplace_back(back->nodes[i]->name(), back->reasons[i]);
  return result;
}

namespace detail {

FXX_INLINE std::string by(const plans::Sizes& sizes) {
  std::string text;
  for (std::int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}
/// "log softmax" of Rows::Kind::log_softmax.
template <class Kind>
std::string words_of(Kind kind) {
  std::string words(enumerator_name(kind));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}
/// Kernel and shapes of a step: "winograd 4 x 4", "56 x 56 x 64 -> 64".
FXX_INLINE std::pair<std::string, std::string> described(const KernelStep& step) {
  using namespace plans;
  using Text = std::pair<std::string, std::string>;
  return match(
      step.kernel,
      [&](const Pointwise&) {
        return Text{"pointwise", step.stores.empty() ? "" : std::to_string(step.stores[0].to.numel())};
      },
      [](const MatrixProduct& k) {
        const std::string of_two = "product of two";
        return Text{k.quantised                                       ? "product of bytes"
                    : k.weights.constant                              ? "product"
                    : k.reading == MatrixProduct::Reading::by_rows    ? of_two + " by rows"
                    : k.reading == MatrixProduct::Reading::by_columns ? of_two + " by columns"
                                                                      : of_two,
                    (k.batch > 1 ? std::to_string(k.batch) + " of " : "") + by({k.rows, k.depth}) + " -> " +
                        std::to_string(k.columns)};
      },
      [](const Convolution& k) {
        using Method = Convolution::Method;
        std::string name = k.method == Method::winograd_4   ? "winograd 4 x 4"
                           : k.method == Method::winograd_2 ? "winograd 2 x 2"
                           : k.is_depthwise()               ? "depthwise"
                           : k.method == Method::transposed ? "transposed"
                           : k.quantised                    ? "convolution of bytes"
                           : k.reduced                      ? "convolution of bfloat16"
                                                            : "convolution";
        return Text{std::move(name), (k.images > 1 ? std::to_string(k.images) + " of " : "") +
                                         by({k.kernel_height, k.kernel_width}) + ", " + std::to_string(k.channels) +
                                         " -> " + by({k.out_height, k.out_width, k.out_channels})};
      },
      [](const DepthwiseBlock& k) {
        const Convolution& c = k.filter;
        const std::string before = k.expand ? "product, " : k.expanded ? "pointwise, " : "";
        return Text{before + "depthwise" + (k.project ? ", product" : ""),
                    by({c.kernel_height, c.kernel_width}) + ", " +
                        (k.expand ? std::to_string(k.expand->depth) + " -> " : "") + std::to_string(c.channels) +
                        " -> " + by({c.out_height, c.out_width, k.project ? k.project->columns : c.channels})};
      },
      [](const Pooling& k) {
        return Text{std::string(k.adaptive ? "adaptive " : "") +
                        (k.kind == Pooling::Kind::largest ? "max pool" : "mean pool"),
                    by({k.kernel_height, k.kernel_width}) + ", " + by({k.in_height, k.in_width, k.channels}) + " -> " +
                        by({k.out_height, k.out_width})};
      },
      [](const Rows& k) {
        return Text{words_of(k.kind),
                    std::to_string(k.rows * std::max<std::int64_t>(k.columns, 1)) + " of " + std::to_string(k.length)};
      },
      [](const GroupNorm& k) {
        return Text{"group norm", by({k.images, k.pixels, k.channels}) + " in " + std::to_string(k.groups)};
      },
      [](const Attention& k) {
        return Text{(k.causal ? "causal attention" : "attention") + std::string(k.reduced ? " of bfloat16" : ""),
                    std::to_string(k.heads) + " of " + by({k.queries, k.keys, k.size})};
      },
      [](const Recurrent& k) {
        return Text{(k.directions.size() > 1 ? "two-way " : "") + std::string(words_of(k.kind)),
                    (k.batch > 1 ? std::to_string(k.batch) + " of " : "") + by({k.steps, k.size})};
      },
      [](const Resize& k) {
        return Text{words_of(k.kind),
                    by({k.in_height, k.in_width, k.channels}) + " -> " + by({k.out_height, k.out_width})};
      },
      [&](const Scatter& k) {
        const std::int64_t elements = step.stores.empty() ? 0 : step.stores[0].to.numel();
        return Text{"scatter" + (k.kind == Scatter::Kind::replace ? std::string() : ", " + words_of(k.kind)),
                    std::to_string(elements) + " to places in " + by([&] {
                      Sizes sizes;
                      for (const Term::Dimension& d : k.looked_up) sizes.push_back(d.size);
                      return sizes;
                    }())};
      },
      [](const Bags& k) {
        return Text{"bags, " + words_of(k.kind),
                    std::to_string(k.count) + " of " + by(k.table.sizes) + " -> " + std::to_string(k.bags)};
      },
      [](const Sort& k) {
        return Text{k.count < k.length ? "first in order" : "sort",
                    std::to_string(k.rows) + " of " + std::to_string(k.length) +
                        (k.count < k.length ? " -> " + std::to_string(k.count) : std::string())};
      },
      [](const CallBack& k) {
        return Text{k.is_region() ? "interpreted" : "call back", k.why};
      });
}

}  // namespace detail

FXX_INLINE std::vector<KernelPlan::SlowStep> KernelPlan::slow_steps(const std::vector<double>& seconds) const {
  constexpr double times = 3, clock_and_barrier = 2e-6;
  std::vector<SlowStep> slow;
  for (std::size_t i = 0; i < steps.size() && i < seconds.size(); ++i) {
    const double expected = steps[i].expected;
    if (expected > 0 && seconds[i] >= times * expected && seconds[i] >= expected + clock_and_barrier)
      slow.push_back({i, seconds[i] / expected});
  }
  return slow;
}

FXX_INLINE std::string KernelPlan::to_string(const std::vector<double>& seconds) const {
  constexpr std::size_t columns = 9;
  struct Line {
    std::string cells[columns];
  };
  const bool tuned = std::ranges::any_of(steps, [](const KernelStep& step) { return step.way != plans::Way{}; });
  std::vector<Line> lines = {
      {{"step", "kernel", "tuned", "shapes", "MFLOP", "kB", "expected us", seconds.empty() ? "" : "us", ""}}};
  const auto decimal = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", value < 10 ? 2 : 0, value);
    return std::string(text);
  };
  double flops = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const KernelStep& step = steps[i];
    auto [kernel, shapes] = detail::described(step);
    lines.push_back({{step.name(), std::move(kernel), step.way == plans::Way{} ? "" : step.way.to_string(),
                      std::move(shapes), decimal(step.flops * 1e-6), decimal(step.bytes * 1e-3),
                      step.expected < 0 ? "-" : decimal(step.expected * 1e6),
                      i < seconds.size() ? decimal(seconds[i] * 1e6) : "", ""}});
    flops += step.flops;
  }
  const std::vector<SlowStep> slow = slow_steps(seconds);
  std::string slow_names;
  for (const SlowStep& s : slow) {
    const std::string factor = decimal(s.factor) + " x";
    lines[s.step + 1].cells[columns - 1] = factor;
    slow_names += (slow_names.empty() ? "" : ", ") + steps[s.step].name() + " (" + factor + ")";
  }
  std::size_t width[columns] = {};
  for (const Line& line : lines)
    for (std::size_t c = 0; c < columns; ++c) width[c] = std::max(width[c], line.cells[c].size());
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (std::size_t c = 0; c < columns; ++c) {
      if (c == 2 && !tuned) continue;
      const std::string pad(width[c] - line.cells[c].size(), ' ');
      row += (c < 4 ? line.cells[c] + pad : pad + line.cells[c]) + "  ";
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  text += std::to_string(steps.size()) + " steps, " + decimal(flops * 1e-6) + " MFLOP, arena " +
          decimal(static_cast<double>(arena_bytes) * 1e-3) + " kB (no less than " +
          decimal(static_cast<double>(live_bytes) * 1e-3) + ")";
  if (!slow.empty()) text += "; three times what is expected, or more: " + slow_names;
  text += "\n";
  return text;
}

FXX_INLINE void KernelPlan::print(const std::vector<double>& seconds) const {
  std::fputs(to_string(seconds).c_str(), stdout);
}

}  // namespace fxx::inline FXX_ABI
