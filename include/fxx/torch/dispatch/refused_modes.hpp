// What a thread or a tensor may be in that a graph has no word for: autocast, function transforms.
//
// Main names: detail::mode_without_word, in_transform, belongs_to_transform. Cost: includes <ATen/core/Tensor.h>; some
// ns.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>

namespace fxx::inline FXX_ABI::detail {

inline constexpr std::string_view in_transform =
    " inside a function transform (vmap, grad), which a graph has no word for. Trace first, and transform the "
    "GraphModule";

/// The end of a sentence that says what the thread is in; empty when it is in nothing of the kind.
inline std::string_view mode_without_word() {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  if (!(c10::autocast_dispatch_keyset - keys.excluded_).empty())
    return " while autocast is on, which a graph has no word for. Trace without autocast; the GraphModule may run "
           "under it";
  if (keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) return in_transform;
  return {};
}

inline bool belongs_to_transform(const at::Tensor& tensor) {
  static constexpr c10::DispatchKeySet keys{c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                            c10::DispatchKey::Batched, c10::DispatchKey::BatchedNestedTensor};
  return tensor.key_set().has_any(keys);
}

}  // namespace fxx::inline FXX_ABI::detail
