// expect: no graph returns this type
#include "fxx/torch/graph_module.hpp"
#include "fxx/trace/hana.hpp"

struct Detection {
  at::Tensor boxes, scores;
};
#ifdef FXX_CONTROL
BOOST_HANA_ADAPT_STRUCT(Detection, boxes, scores);
#endif

[[maybe_unused]] static at::Tensor boxes_in(fxx::GraphModule& gm, const at::Tensor& x) {
  return gm.call<Detection>(x).boxes;
}
