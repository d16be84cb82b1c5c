// What runs in the program between the kernels of its library: operators that have none, and regions; for
// torch/compile.ipp.
#pragma once

// after the tensor's own header
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/clone_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "fxx/error.hpp"
#include "fxx/torch/compile/specialise.ipp"
#include "fxx/torch/fake/tensors.ipp"

namespace fxx::inline FXX_ABI {

FXX_INLINE void CompiledModule::prepare_call_backs() {
  operators_.resize(kernels_.steps.size());
  for (std::size_t i = 0; i < kernels_.steps.size(); ++i) {
    const auto* back = std::get_if<plans::CallBack>(&kernels_.steps[i].kernel);
    if (!back) continue;
    const auto nodes_of = [](const std::vector<plans::CallBack::Value>& values) {
      std::vector<const Node*> nodes;
      for (const plans::CallBack::Value& value : values) nodes.push_back(value.node);
      return nodes;
    };
    auto graph = std::make_unique<const Graph>(graph_of(back->nodes, nodes_of(back->inputs), nodes_of(back->outputs)));
    operators_[i].plan = std::make_unique<const Plan>(*graph, prepared_->owner());
    operators_[i].graph = std::move(graph);
  }
}

FXX_INLINE at::Tensor CompiledModule::owned_at(const Host& host, const plans::View& view) const {
  const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(view.buffer)];
  using Kind = plans::Buffer::Kind;
  if (buffer.kind != Kind::constant && (buffer.kind != Kind::input || !host.tensors)) return {};
  const auto number = static_cast<std::size_t>(buffer.number);
  const at::Tensor& whole = buffer.kind == Kind::constant ? attributes_[number] : (*host.tensors)[number];
  // All of it: the tensor itself, which the operator may write to.
  const plans::View& all = buffer.kind == Kind::input ? kernels_.inputs[number] : view;
  if (view.offset == 0 && view.sizes == all.sizes && view.strides == all.strides &&
      whole.sizes() == at::IntArrayRef(view.sizes) &&
      (buffer.kind == Kind::input || view.strides == plans::dense_strides(view.sizes)))
    return whole;
  // A part of an input, so that what is written to it counts as written to that.
  if (buffer.kind == Kind::input) {
    if (whole.strides() != at::IntArrayRef(all.strides)) return {};
    return at::_ops::as_strided::call(whole, c10::fromIntArrayRefSlow(view.sizes),
                                      c10::fromIntArrayRefSlow(view.strides),
                                      c10::SymInt(whole.storage_offset() + view.offset));
  }
  return at::_ops::as_strided::call(whole.contiguous(), c10::fromIntArrayRefSlow(view.sizes),
                                    c10::fromIntArrayRefSlow(view.strides), c10::SymInt(view.offset));
}

FXX_INLINE at::Tensor CompiledModule::borrowed_at(const Host& host, const plans::View& view) const {
  const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(view.buffer)];
  using Kind = plans::Buffer::Kind;
  const auto number = static_cast<std::size_t>(buffer.number);
  unsigned char* base = nullptr;
  if (buffer.kind == Kind::input) base = static_cast<unsigned char*>(const_cast<void*>(host.inputs[number]));
  else if (buffer.kind == Kind::output) base = static_cast<unsigned char*>(host.outputs[number]);
  else base = host.memory + buffer.offset;
  base += view.offset * element_size(buffer.dtype);
  return at::from_blob(base, view.sizes, view.strides,
                       at::TensorOptions().dtype(static_cast<at::ScalarType>(buffer.dtype)));
}

FXX_INLINE void CompiledModule::run_called_back(Host& host, std::size_t step) const {
  const auto& back = std::get<plans::CallBack>(kernels_.steps[step].kernel);
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // in run_raw and profile
  std::vector<c10::IValue> inputs;
  std::vector<at::Tensor> borrowed;
  const bool keeps = std::ranges::any_of(back.outputs, [](const auto& output) { return output.kept >= 0; });
  const bool writes = std::ranges::any_of(back.nodes, [](const Node* node) { return may_write_memory(*node); });
  // Attributes that do not lie as kernels have them, and what a part of them is a part of: what is written to that goes
  // to the attribute.
  std::vector<std::pair<std::size_t, at::Tensor>> laid_out;
  const auto part_of_attribute = [&](const plans::View& view, std::size_t number) {
    auto known = std::ranges::find(laid_out, number, &std::pair<std::size_t, at::Tensor>::first);
    if (known == laid_out.end()) known = laid_out.insert(known, {number, attributes_[number].contiguous()});
    return at::_ops::as_strided::call(known->second, c10::fromIntArrayRefSlow(view.sizes),
                                      c10::fromIntArrayRefSlow(view.strides), c10::SymInt(view.offset));
  };
  for (const plans::CallBack::Value& input : back.inputs) {
    if (input.kept < 0) {
      at::Tensor tensor = owned_at(host, input.view);
      const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(input.view.buffer)];
      if (writes && buffer.kind == plans::Buffer::Kind::constant) {
        const auto number = static_cast<std::size_t>(buffer.number);
        if (!attributes_[number].is_contiguous() && !tensor.is_same(attributes_[number]))
          tensor = part_of_attribute(input.view, number);
      }
      if (!tensor.defined()) {
        tensor = borrowed_at(host, input.view);
        if (keeps) borrowed.push_back(tensor);
      }
      inputs.emplace_back(std::move(tensor));
    } else if (c10::IValue& kept = host.kept[static_cast<std::size_t>(input.kept)]; input.last) {
      inputs.push_back(std::move(kept));
    } else {
      inputs.push_back(kept);
    }
  }
  const c10::IValue result = operators_[step].plan->run(inputs);
  for (const auto& [number, dense] : laid_out) {
    at::Tensor attribute = attributes_[number];
    at::_ops::copy_::call(attribute, dense, false);
  }
  const auto& values = result.toTupleRef().elements();
  for (std::size_t i = 0; i < back.outputs.size(); ++i) {
    const plans::CallBack::Value& output = back.outputs[i];
    if (output.kept >= 0) {
      // The memory of this call will hold other values.
      host.kept[static_cast<std::size_t>(output.kept)] = detail::map_tensors(values[i], [&](const at::Tensor& tensor) {
        const bool is_part = std::ranges::any_of(
            borrowed, [&](const at::Tensor& from) { return tensor.has_storage() && tensor.is_alias_of(from); });
        return is_part ? at::_ops::clone::call(tensor, {}) : tensor;
      });
      continue;
    }
    const at::Tensor& value = values[i].toTensor();
    at::Tensor to = borrowed_at(host, output.view);
    if (to.sizes() != value.sizes()) {
      throw OtherSizes(ErrorId::run_failed, "compiled " + class_name() + ": '" + std::string(output.node->name()) +
                                                "' gave " + c10::str(value.sizes()) + ", and " + c10::str(to.sizes()) +
                                                " when it was compiled");
    }
    at::_ops::copy_::call(to, value, false);
  }
  for (const auto& [attribute, view] : back.renewed) {
    at::Tensor to = borrowed_at(host, view);
    at::_ops::copy_::call(to, owned_at(host, attribute), false);
  }
}

FXX_INLINE int CompiledModule::call_back(kernels::ModuleCall* call, int step) {
  Host& host = *static_cast<Host*>(call->host);
  try {
    host.self->run_called_back(host, static_cast<std::size_t>(step));
    return 0;
  } catch (...) {
    host.exception = std::current_exception();
    return 1;
  }
}

}  // namespace fxx::inline FXX_ABI
