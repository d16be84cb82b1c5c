// A user's program that traces, rewrites and compiles: LibTorch and the kernels have to be found.
#include <fxx/torch.hpp>

int main() {
  const torch::Tensor x = torch::randn({3, 5});
  const auto gm = fxx::trace([](torch::Tensor t) { return torch::relu(torch::relu(t)) * 2; }, {x});
  using namespace fxx::pattern;
  constexpr auto rules = fxx::ruleset(fxx::rule<"relu twice">(relu(relu(tensor<"x">)) >> relu(tensor<"x">)));
  const auto compiled = fxx::compile(*gm, {x});
  return rules.apply(*gm).rewrites == 1 && torch::equal(gm->forward(x), compiled->forward(x)) ? 0 : 1;
}
