// Calls of a module that was compiled: workspaces, tensors in and out; for torch/compile.ipp.
#pragma once

// after the tensor's own header
#include <ATen/EmptyTensor.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_strided_ops.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "fxx/error.hpp"
#include "fxx/torch/compile/call_backs.ipp"
#include "fxx/torch/compile/torch_state.ipp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// Not traced, nor batched, nor another of those whose elements only operators reach.
FXX_INLINE bool has_elements(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet others({trace_key, c10::DispatchKey::Fake, c10::DispatchKey::FuncTorchBatched,
                                        c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched,
                                        c10::DispatchKey::Functionalize, c10::DispatchKey::Python});
  return !tensor.key_set().has_any(others);
}

/// May an element of one be an element of the other? Where parts lie between each other, yes.
FXX_INLINE bool may_share_elements(const at::Tensor& a, const at::Tensor& b) {
  if (!a.has_storage() || !b.has_storage() || !a.is_alias_of(b)) return false;
  const auto range = [](const at::Tensor& tensor) {
    std::int64_t last = tensor.storage_offset();
    for (std::int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
    const auto bytes = static_cast<std::int64_t>(tensor.element_size());
    return std::pair(tensor.storage_offset() * bytes, (last + 1) * bytes);
  };
  const auto [first, end] = range(a);
  const auto [other_first, other_end] = range(b);
  return a.numel() > 0 && b.numel() > 0 && first < other_end && other_first < end;
}

/// Of tensors of the same sizes and dtype, wherever these lie; the first has its elements as they are, no conjugates.
FXX_INLINE bool have_same_bytes(const at::Tensor& plain, const at::Tensor& other) {
  const at::Tensor x = plain.is_non_overlapping_and_dense() ? plain : plain.contiguous();
  at::Tensor y = at::detail::empty_strided_cpu(x.sizes(), x.strides(), x.scalar_type());
  at::_ops::copy_::call(y, other, false);
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace detail

// Asked of every parameter in every call, so these ask the tensor itself: at::Tensor::_version takes two virtual calls.
FXX_INLINE void CompiledModule::Watched::look() {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  versioned = !tensor.is_inference();
  version = versioned ? impl.version_counter().current_version() : 0;
  memory = c10::weak_intrusive_ptr<c10::StorageImpl>(detail::memory_of(tensor));
}
FXX_INLINE void CompiledModule::Watched::go_back_to(const Watched& before) {
  versioned = before.versioned;
  version = before.version;
  memory = before.memory;
}
// Plain `inline`, since with -fPIC what others may replace when linking is not inlined.
inline bool CompiledModule::Watched::is_of_version() const {
  return versioned && !uncounted && tensor.unsafeGetTensorImpl()->version_counter().current_version() == version;
}
inline bool CompiledModule::Watched::has_its_memory() const {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() == memory._unsafe_get_target();
}

FXX_INLINE bool CompiledModule::is_current() const {
  return is_made_for_now() && !at::autocast::is_autocast_enabled(at::kCPU);
}

FXX_INLINE bool CompiledModule::is_made_for_now() const {
  if (graph().version() != built_version_ || detail::torch_state(multiplies_floats_) != made_under_ ||
      detail::in_mode_of_thread())
    return false;
  for (const auto& [module, training] : training_flags_)
    if (module->is_training() != training) return false;
  for (const auto& [inside, version] : graphs_inside_)
    if (inside->graph().version() != version) return false;
  // All of them, without a branch at each: nearly always nothing has changed, and what the one looks at is fetched while
  // the next is looked for. Hundreds of tensors lie outside the first cache.
  bool same = true;
  for (const auto& [member, tensor] : members_) same &= member->is_same(tensor);
  std::unique_lock<std::mutex> alone;
  if (changes_something_) alone = std::unique_lock(writing_mutex_);
  for (const Watched& w : watched_) {
    same &= w.has_its_memory();  // not after set_data or to(dtype)
    if (!w.written && w.versioned) same &= w.is_of_version();
  }
  return same;
}

FXX_INLINE void CompiledModule::guard(const Memory& arena) const {
  using Mark = void (*)(const volatile void*, std::size_t);
  const auto poison = reinterpret_cast<Mark>(::dlsym(RTLD_DEFAULT, "__asan_poison_memory_region"));
  const auto unpoison = reinterpret_cast<Mark>(::dlsym(RTLD_DEFAULT, "__asan_unpoison_memory_region"));
  if (!poison || !unpoison) return;  // the kernels run without its runtime, and were not linked with it
  const auto* memory = static_cast<const unsigned char*>(arena.data);
  poison(memory, static_cast<std::size_t>(kernels_.arena_bytes));
  for (const plans::Buffer& buffer : kernels_.buffers)
    if (buffer.kind == plans::Buffer::Kind::arena && buffer.offset >= 0)
      unpoison(memory + buffer.offset, static_cast<std::size_t>(buffer.bytes()));
}

FXX_INLINE std::unique_ptr<CompiledModule::Workspace> CompiledModule::workspace() const {
  auto made = std::make_unique<Workspace>();
  made->memory = Memory(std::max<std::size_t>(workspace_bytes_, 64));
  if (detail::kernels_are_guarded()) guard(made->memory);
  made->close = close_;
  const int threads = threads_of_caller(workspaces_.taken());
  made->change_team(open_(threads, processors_), threads);
  return made;
}

FXX_INLINE int CompiledModule::threads_of_caller(std::size_t callers) const {
  const std::size_t many = 4 * static_cast<std::size_t>(std::max(processors_, threads_));
  return (callers + 1) * static_cast<std::size_t>(threads_) <= many ? threads_ : 1;
}

FXX_INLINE void CompiledModule::widen(Workspace& workspace) const {
  const int threads = threads_of_caller(workspaces_.taken() - 1);
  if (threads > workspace.threads) workspace.change_team(open_(threads, processors_), threads);
}

FXX_INLINE std::vector<c10::IValue> CompiledModule::run_kernels(const void* const* inputs, void* const* outputs,
                                                                std::vector<at::Tensor>* tensors, Observer* observer) {
  // What a call writes, the next one packs: one at a time.
  std::unique_lock<std::mutex> alone;
  if (changes_something_) {
    alone = std::unique_lock(writing_mutex_);
    pack_what_it_wrote();
  }
  struct Lease {
    Pool<Workspace>& pool;
    Workspace* workspace;
    ~Lease() { pool.give(workspace); }
  } lease{workspaces_, workspaces_.take([this] { return workspace(); })};
  if (lease.workspace->threads < threads_) [[unlikely]]
    widen(*lease.workspace);
  Host host{this,    inputs, outputs, static_cast<unsigned char*>(lease.workspace->memory.data), tensors, {},
            nullptr, observer};
  if (kernels_.kept > 0) host.kept.resize(static_cast<std::size_t>(kernels_.kept));
  kernels::ModuleCall call{
      inputs, outputs, host.memory, static_cast<const float*>(weights_.data), &CompiledModule::call_back, &host, 0, -1};
  if (observer) [[unlikely]] {
    call.times = observer->times.data();
    if (observer->after_step) call.after_step = &CompiledModule::after_step;
  }
  run_(lease.workspace->team, &call);
  if (call.fault == 0) [[likely]]
    return std::move(host.kept);
  if (host.exception) std::rethrow_exception(host.exception);
  if (call.fault == kernels::fault_of_division)
    throw RunError(ErrorId::run_failed, "compiled " + class_name() + ": an integer is divided by zero");
  throw RunError(ErrorId::input_mismatch,
                 "compiled " + class_name() + ": an index is out of range of the tensor that it is a place in");
}

FXX_INLINE void CompiledModule::run_raw(const void* const* inputs, void* const* outputs) {
  if (kernels_.kept > 0)
    for (const PlanOutput& output : kernels_.outputs)
      if (output.kept >= 0)
        throw RunError(ErrorId::run_failed,
                       "compiled " + class_name() +
                           ": run_raw: a result has sizes that depend on the elements of tensors, so nobody knows how "
                           "much memory it needs; call it with tensors");
  run_kernels(inputs, outputs, nullptr);
}

FXX_INLINE c10::IValue CompiledModule::result_of(const Argument& argument, std::vector<c10::IValue>& outputs,
                                                 std::size_t& next) const {
  using Kind = Argument::Kind;
  switch (argument.kind()) {
    case Kind::node: return std::move(outputs[next++]);
    case Kind::list:
    case Kind::tuple: {
      std::vector<c10::IValue> items;
      for (const Argument& item : argument.items()) items.push_back(result_of(item, outputs, next));
      if (argument.kind() == Kind::tuple) return c10::ivalue::Tuple::create(std::move(items));
      return to_list(std::move(items), {});
    }
    case Kind::dict: {
      c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
      for (const DictEntry& entry : argument.entries())
        dict.insert(to_ivalue(entry.key), result_of(entry.value, outputs, next));
      return dict;
    }
    default: return to_ivalue(argument);
  }
}

FXX_INLINE void CompiledModule::check_inputs(const std::vector<c10::IValue>& inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const plans::View& wanted = kernels_.inputs[i];
    const plans::Buffer& buffer = kernels_.buffers[static_cast<std::size_t>(wanted.buffer)];
    const auto dtype = static_cast<at::ScalarType>(buffer.dtype);
    std::string what;
    if (!inputs[i].isTensor()) {
      what = inputs[i].tagKind();
    } else if (const at::Tensor& given = inputs[i].toTensor(); !given.defined()) {
      what = "an undefined tensor";
    } else if (given.scalar_type() != dtype || given.sizes() != at::IntArrayRef(wanted.sizes) ||
               !given.device().is_cpu() || given.layout() != at::kStrided) {
      what = (given.layout() == at::kStrided ? "" : c10::str(given.layout(), " ")) +
             c10::str(c10::toString(given.scalar_type()), given.sizes(), " on ", given.device());
    }
    if (what.empty()) [[likely]]
      continue;
    throw RunError(ErrorId::input_mismatch,
                   "compiled " + class_name() + ": input '" + buffer.name + "' is " + what + "; it was compiled for " +
                       c10::str(c10::toString(dtype), at::IntArrayRef(wanted.sizes)) + " on cpu");
  }
}

FXX_INLINE c10::IValue CompiledModule::run_specialised(std::vector<c10::IValue>& inputs, Observer* observer) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> tensors, seen, dense;  // as they were given, as the operators called back see them
  c10::SmallVector<const void*, 16> from;
  c10::SmallVector<void*, 16> to;
  tensors.reserve(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    tensors.push_back(inputs[i].toTensor());
    const at::Tensor& given = tensors.back();
    const plans::View& wanted = kernels_.inputs[i];
    if (given.strides() == at::IntArrayRef(wanted.strides) && !given.is_neg() && !given.is_conj() &&
        !given._is_zerotensor()) {
      from.push_back(given.const_data_ptr());
    } else {
      dense.reserve(inputs.size());  // pointers into it are kept
      {
        const c10::InferenceMode counted(false);  // so that it tells whether somebody wrote to it
        dense.push_back(at::_ops::empty_strided::call(c10::fromIntArrayRefSlow(wanted.sizes),
                                                      c10::fromIntArrayRefSlow(wanted.strides), given.scalar_type(), {},
                                                      at::kCPU, {}));
      }
      at::_ops::copy_::call(dense.back(), given, false);
      from.push_back(dense.back().const_data_ptr());
      if (!changes_something_) continue;
      // What writes to the input writes to the copy; the input gets it at the end.
      seen.resize(inputs.size());
      seen[i] = dense.back();
    }
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i].defined()) seen[i] = tensors[i];
  std::vector<c10::IValue> outputs;
  outputs.reserve(kernels_.outputs.size());
  for (const PlanOutput& output : kernels_.outputs) {
    if (output.input >= 0) {
      outputs.emplace_back(tensors[static_cast<std::size_t>(output.input)]);
      to.push_back(nullptr);
    } else if (output.kept >= 0) {
      outputs.emplace_back();
      to.push_back(nullptr);
    } else {
      const Dtype dtype = kernels_.buffers[static_cast<std::size_t>(output.buffer)].dtype;
      // What the operator runs in the end: the dispatcher takes longer than a small kernel.
      at::Tensor result =
          at::detail::empty_strided_cpu(output.view.sizes, output.view.strides, static_cast<at::ScalarType>(dtype));
      to.push_back(result.mutable_data_ptr());
      outputs.emplace_back(std::move(result));
    }
  }
  const auto version = [](const at::Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); };
  std::vector<std::uint32_t> versions;
  for (const at::Tensor& tensor : seen) versions.push_back(version(tensor));
  const std::vector<c10::IValue> kept = run_kernels(from.data(), to.data(), seen.empty() ? &tensors : &seen, observer);
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (!seen[i].is_same(tensors[i]) &&
        (version(seen[i]) != versions[i] || (uncounted_inputs_[i] && !detail::have_same_bytes(seen[i], tensors[i]))))
      at::_ops::copy_::call(tensors[i], seen[i], false);
  if (!kept.empty())
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (kernels_.outputs[i].kept >= 0) outputs[i] = kept[static_cast<std::size_t>(kernels_.outputs[i].kept)];
  std::size_t next = 0;
  return result_of(prepared_->graph().output_node()->arg(0), outputs, next);
}

FXX_INLINE bool CompiledModule::share_elements(const std::vector<c10::IValue>& inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i].toTensor();
    const auto shares = [&](const at::Tensor& other) { return detail::may_share_elements(input, other); };
    if (std::ranges::any_of(watched_, shares, &Watched::tensor)) return true;
    for (std::size_t k = 0; k < i; ++k)
      if (shares(inputs[k].toTensor())) return true;
  }
  return false;
}

FXX_INLINE c10::IValue CompiledModule::run_flat(std::vector<c10::IValue> inputs) {
  const auto interpreted = [&] {
    std::unique_lock<std::mutex> alone;
    if (changes_something_) alone = std::unique_lock(writing_mutex_);
    return GraphModule::run_flat(std::move(inputs));
  };
  bool elements = true, gradient = false, tangent = false, left_out = inputs.size() != kernels_.inputs.size();
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor()) continue;
    left_out = left_out || !input.toTensor().defined();
    if (left_out) break;
    elements = elements && detail::has_elements(input.toTensor());
    if (!elements) continue;
    gradient = gradient || input.toTensor().requires_grad();
    tangent = tangent || input.toTensor()._fw_grad(0).defined();
  }
  // Inputs left out, and all else that the kernels were not made for, are the interpreter's business.
  if (left_out || !elements || !is_made_for_now()) return interpreted();
  check_inputs(inputs);
  if ((gradient && at::GradMode::is_enabled()) || tangent || at::autocast::is_autocast_enabled(at::kCPU) ||
      (changes_something_ && share_elements(inputs)))
    return interpreted();
  return run_with_kernels(inputs);
}

FXX_INLINE c10::IValue CompiledModule::run_with_kernels(std::vector<c10::IValue>& inputs, Observer* observer) {
  try {
    return run_specialised(inputs, observer);
  } catch (const OtherSizes&) {
    if (changes_something_) throw;  // what it wrote is written
    return GraphModule::run_flat(inputs);
  }
}

FXX_INLINE std::vector<double> CompiledModule::profile(const std::vector<at::Tensor>& inputs, int calls) {
  std::vector<double> seconds(kernels_.steps.size(), 0);
  if (inputs.size() != kernels_.inputs.size())
    throw RunError(ErrorId::input_mismatch, "profile: " + std::to_string(inputs.size()) +
                                                " tensors were given; the graph takes " +
                                                std::to_string(kernels_.inputs.size()));
  check_inputs({inputs.begin(), inputs.end()});
  Observer observer;
  std::vector<std::int64_t>& times = observer.times;
  times.resize(seconds.size() + 1);
  for (int call = 0; call < calls; ++call) {
    std::vector<c10::IValue> values(inputs.begin(), inputs.end());
    run_specialised(values, &observer);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      const double took = static_cast<double>(times[i + 1] - times[i]) * 1e-9;
      seconds[i] = call == 0 ? took : std::min(seconds[i], took);
    }
  }
  return seconds;
}

}  // namespace fxx::inline FXX_ABI
