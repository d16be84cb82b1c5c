// Random graphs with every opcode and kind of value, the same for the same seed.
#pragma once

#include <bit>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"
#include "fxx/ops/operation.hpp"
#include "fxx/ops/registry.hpp"
#include "support.hpp"

namespace fxx::test {

inline std::string random_text(Random& random) {
  const char* pieces[] = {"a", "é", "\n", "'", "\"", "\\", "]", ", ", "%x", "\x01", "\x7f", "\t", "}", " : ", "torch."};
  std::string text;
  for (std::size_t k = random.below(4); k > 0; --k) text += pieces[random.below(std::size(pieces))];
  return text;
}

inline double random_real(Random& random) {
  if (random.chance(3)) return static_cast<double>(static_cast<int>(random.below(200)) - 100) / 8;
  return std::bit_cast<double>(random.next());
}

/// A value of any kind; nodes are taken from `nodes`.
inline Argument random_argument(Random& random, const std::vector<Node*>& nodes, int depth = 0) {
  const auto integer = [&] { return static_cast<std::int64_t>(random.next()); };
  const auto items = [&] {
    std::vector<Argument> some;
    for (std::size_t k = random.below(4); k > 0; --k) some.push_back(random_argument(random, nodes, depth + 1));
    return some;
  };
  switch (random.below(depth < 3 ? 22 : 15)) {
    case 0: return {};
    case 1: return random.chance(2);
    case 2: return static_cast<int>(random.below(20)) - 10;
    case 3: return integer();
    case 4: return random_real(random);
    case 5: {
      const auto dtype = static_cast<Dtype>(random.below(30));
      return name_of(dtype).empty() ? Argument(Dtype::float32) : Argument(dtype);
    }
    case 6: return static_cast<Layout>(random.below(8));
    case 7: return static_cast<MemoryFormat>(random.below(4));
    case 8:
      return Device{static_cast<DeviceType>(random.below(21)),
                    static_cast<std::int8_t>(static_cast<int>(random.below(9)) - 1)};
    case 9: return Ellipsis{};
    case 10: return Complex{random_real(random), random_real(random)};
    case 11: return random_text(random);
    case 12: return Enumerator{random_text(random), random_text(random), integer()};
    case 13: return Range{integer(), integer(), integer()};
    case 15: return Slice{random_argument(random, nodes, depth + 1), random_argument(random, nodes, depth + 1), {}};
    case 16:
    case 17: return Argument::list(items());
    case 18: return Argument::tuple(items());
    case 19: {
      std::vector<DictEntry> entries;
      for (std::size_t k = random.below(3); k > 0; --k)
        entries.push_back({random.chance(2) ? Argument(random_text(random)) : Argument(integer()),
                           random_argument(random, nodes, depth + 1)});
      return Argument::dict(std::move(entries));
    }
    default: return nodes.empty() ? Argument() : Argument(nodes[random.below(nodes.size())]);
  }
}

inline Graph random_graph(Random& random, std::size_t size) {
  const Operator* operators[] = {&ops::relu.info(),   &ops::add_Tensor.info(),
                                 &ops::cat.info(),    &ops::operator_getitem.info(),
                                 &ops::conv2d.info(), &ops::math_sqrt.info()};
  const UserFunction& user = register_function("tests::random_function");
  const char* types[] = {"", "", "", "torch::Tensor", "std::vector<torch::Tensor>", "int", "std::tuple<int, float>"};
  Graph g;
  std::vector<Node*> nodes;
  for (std::size_t i = 0; i < size; ++i) {
    std::vector<Argument> args;
    for (std::size_t k = random.below(4); k > 0; --k) args.push_back(random_argument(random, nodes));
    std::vector<KeywordArgument> kwargs;
    if (random.chance(3)) kwargs.push_back({"alpha", random_argument(random, nodes)});
    if (random.chance(5)) kwargs.push_back({"Keyword_2", random_argument(random, nodes)});
    Node* n = nullptr;
    switch (random.below(7)) {
      case 0:
        n = random.chance(2) ? g.placeholder("x", random_argument(random, {}))
                             : g.placeholder("input." + std::to_string(i));
        break;
      case 1: n = g.get_attr(random.chance(4) ? random_text(random) : "layer.weight"); break;
      case 2: n = g.call_method(random.chance(4) ? random_text(random) : "view", args, kwargs); break;
      case 3: n = g.call_module(random.chance(4) ? random_text(random) : "layer.0", args, kwargs); break;
      case 4: n = g.call_function(user, args, kwargs); break;
      default: n = g.call_function(*operators[random.below(std::size(operators))], args, kwargs); break;
    }
    n->set_type(types[random.below(std::size(types))]);
    nodes.push_back(n);
  }
  if (!random.chance(8)) g.output(random_argument(random, nodes), types[random.below(std::size(types))]);
  return g;
}

}  // namespace fxx::test
