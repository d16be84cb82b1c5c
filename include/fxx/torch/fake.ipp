// Bodies of torch/fake.hpp: the fallback on the key `Fake`.
//
// A fake tensor is a plain TensorImpl with the key Fake, whose storage has a size and a device, throws when its data is
// asked for, and owns nothing. For the time of one operator each tensor gets a twin on the meta device, twins of
// tensors that share memory share it too; the operator runs on the twins, and results are told by what they share with
// them: the twin itself (in-place operators, out=), its memory (views), or nothing.
#pragma once

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>
#include <torch/nn/module.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "fxx/error.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/fake/operators.ipp"
#include "fxx/torch/fake/tensors.ipp"
#include "fxx/torch/shape_rules.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

// --- one operator ------------------------------------------------------------------------------------------------

/// The tensors of one call and their twins on the meta device.
class Twins {
 public:
  explicit Twins(c10::Device device) : device_(device) {}

  at::Tensor twin_of(const at::Tensor& tensor, bool written) {
    for (Pair& pair : pairs_) {
      if (pair.original.is_same(tensor)) {
        pair.written = pair.written || written;
        return pair.twin;
      }
    }
    if (tensor.is_meta()) return tensor;
    if (!is_plain(tensor))
      throw TraceError(ErrorId::unsupported_argument,
                       "fake: an operator was given a fake tensor together with a " + c10::toString(tensor.options()) +
                           " one; only dense tensors can be used with fake ones",
                       user_context());
    at::Tensor twin =
        meta_tensor(memory_for(tensor), tensor.sizes(), tensor.strides(), tensor.storage_offset(), tensor.dtype());
    c10::TensorImpl* impl = twin.unsafeGetTensorImpl();
    if (tensor.is_conj()) impl->_set_conj(true);
    if (tensor.is_neg()) impl->_set_neg(true);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    pairs_.push_back({tensor, twin, written});
    return twin;
  }

  /// What the caller gets for a result: the argument itself, a view of its memory, or a fake tensor of its own.
  at::Tensor result_of(const at::Tensor& result, bool all_fake) {
    for (const Pair& pair : pairs_)
      if (pair.twin.is_same(result)) return pair.original;
    if (!result.is_meta()) return all_fake && !is_fake(result) ? fake_like(result) : result;
    if (result.layout() != c10::kStrided || !result.has_storage())
      throw TraceError(ErrorId::unsupported_output,
                       "fake: an operator gives a tensor of layout " + c10::toString(result.options()) +
                           "; only dense tensors can be fake",
                       user_context());
    if (device_.is_meta()) return result;
    for (std::size_t i = memories_.size(); i-- > 0;) {
      const Memory& memory = memories_[i];
      if (memory.twin.unsafeGetStorageImpl() != result.storage().unsafeGetStorageImpl()) continue;
      return memory.fake ? fake_tensor(memory.original, result) : real_view(memory.original, result);
    }
    memories_.push_back({fake_storage(result.storage().nbytes(), device_), result.storage(), true});
    return fake_tensor(memories_.back().original, result);
  }

  /// Sizes and strides that an operator changed in place (t_, resize_, set_, an `out` of another size).
  void sync(const FakeOperator& known) {
    for (Pair& pair : pairs_) {
      if (!pair.written) continue;
      const at::Tensor &twin = pair.twin, &original = pair.original;
      const c10::StorageImpl* storage = twin.storage().unsafeGetStorageImpl();
      const bool moved = twin.sizes() != original.sizes() || twin.strides() != original.strides() ||
                         twin.storage_offset() != original.storage_offset();
      Memory* memory = nullptr;
      for (Memory& m : memories_)
        if (m.twin.unsafeGetStorageImpl() == storage) memory = &m;
      const bool elsewhere =
          !memory || memory->original.unsafeGetStorageImpl() != original.storage().unsafeGetStorageImpl();
      if (!is_fake(original)) {
        if (is_made_in_scope(original)) make_fake(known, original, twin);
        else if (moved || elsewhere)
          throw TraceError(ErrorId::unsupported_argument,
                           "fake: '" + text_of(known.name) +
                               "' would resize a real tensor to hold a fake result; give a tensor of the result's size",
                           user_context());
        continue;
      }
      if (memory && memory->fake && memory->original.nbytes() != storage->nbytes())
        memory->original.unsafeGetStorageImpl()->set_nbytes(storage->nbytes());
      if (!moved && !elsewhere) continue;
      c10::TensorImpl* impl = original.unsafeGetTensorImpl();
      if (elsewhere) {
        if (!memory) {
          memories_.push_back({fake_storage(storage->nbytes(), device_), twin.storage(), true});
          memory = &memories_.back();
        }
        impl->set_storage_keep_dtype(memory->original);
      }
      impl->set_sizes_and_strides(twin.sizes(), twin.strides(), twin.storage_offset());
    }
  }

 private:
  struct Pair {
    at::Tensor original, twin;
    bool written;
  };
  struct Memory {
    c10::Storage original, twin;
    bool fake;
  };

  c10::Storage memory_for(const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    for (const Memory& memory : memories_)
      if (memory.original.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) return memory.twin;
    memories_.push_back({storage, meta_storage(storage.nbytes()), is_fake(tensor)});
    return memories_.back().twin;
  }
  /// A real tensor of the scope's own that a fake one was written to has no known elements any more.
  void make_fake(const FakeOperator& known, const at::Tensor& original, const at::Tensor& twin) {
    if (original.storage().use_count() > 2 || original.nbytes() < original.storage().nbytes())
      throw TraceError(ErrorId::unsupported_argument,
                       "fake: '" + text_of(known.name) +
                           "' writes a fake tensor into real memory that other tensors share; make the tensor by an "
                           "operator with the fake one, such as torch::cat or torch::where",
                       user_context());
    memories_.push_back({fake_storage(twin.storage().nbytes(), original.device()), twin.storage(), true});
    c10::TensorImpl* impl = original.unsafeGetTensorImpl();
    impl->shallow_copy_from(fake_tensor(memories_.back().original, twin).getIntrusivePtr());
  }
  static at::Tensor real_view(const c10::Storage& storage, const at::Tensor& shape) {
    const auto key = c10::computeDispatchKey(shape.scalar_type(), c10::kStrided, storage.device());
    at::Tensor view =
        at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), c10::DispatchKeySet(key), shape.dtype());
    view.unsafeGetTensorImpl()->set_sizes_and_strides(shape.sizes(), shape.strides(), shape.storage_offset());
    return view;
  }

  c10::Device device_;
  c10::SmallVector<Pair, 6> pairs_;
  c10::SmallVector<Memory, 6> memories_;
};

/// Fits what a rule gave into the arguments that the operator writes to.
FXX_INLINE void write_results(const FakeOperator& known, c10::ArrayRef<c10::IValue> arguments, ShapeCall& call) {
  std::vector<c10::IValue>& results = call.results();
  if (known.outs > 0) {
    const std::size_t first = known.arguments - known.outs;
    for (std::size_t i = 0; i < known.outs && i < results.size(); ++i) {
      const at::Tensor given = results[i].toTensor(), out = arguments[first + i].toTensor();
      if (given.defined()) {
        const bool fits = call.casts() ? c10::canCast(given.scalar_type(), out.scalar_type())
                                       : given.scalar_type() == out.scalar_type();
        TORCH_CHECK(fits, "result type ", given.scalar_type(), " can't be cast to the desired output type ",
                    out.scalar_type());
        at::assert_no_internal_overlap(out);
        for (std::size_t k = 0; k < first; ++k)
          for_each_tensor(arguments[k], [&](const at::Tensor& in) { at::assert_no_partial_overlap(out, in); });
        const bool fits_size = given.sizes() == out.sizes();
        if (!fits_size || (call.restrides() && given.strides() != out.strides())) {
          if (!fits_size && given.is_contiguous()) {
            out.resize_(given.sizes());
          } else {
            out.resize_({static_cast<std::int64_t>(given.storage().nbytes() / given.itemsize())});
            out.as_strided_(given.sizes(), given.strides());
          }
        }
      }
      results[i] = out;
    }
  } else if (known.in_place && results.size() == 1) {
    const at::Tensor given = results[0].toTensor(), self = arguments[0].toTensor();
    TORCH_CHECK(given.sizes() == self.sizes(), "output with shape ", self.sizes(),
                " doesn't match the broadcast shape ", given.sizes());
    results[0] = self;
  }
}

/// Runs an operator whose tensors are on the meta device.
FXX_INLINE void run_on_meta(const c10::OperatorHandle& op, const FakeOperator& known, torch::jit::Stack* stack) {
  switch (known.way) {
    case FakeOperator::Way::user_rule:
      known.user_rule->kernel.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
      return;
    case FakeOperator::Way::rule: {
      const auto arguments = torch::jit::last(*stack, known.arguments);
      ShapeCall call(op, arguments);
      known.rule(call);
      write_results(known, arguments, call);
      torch::jit::drop(*stack, known.arguments);
      for (c10::IValue& result : call.results()) stack->push_back(std::move(result));
      return;
    }
    case FakeOperator::Way::meta:
    case FakeOperator::Way::composite: op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack); return;
    case FakeOperator::Way::question: refuse_elements(known.name);
    case FakeOperator::Way::unknown: refuse_unknown(known);
  }
}

/// Runs an operator as if there were no fake tensors.
FXX_INLINE void run_real(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const FakeKeySwitch off(false);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, fake_key), stack);
}

/// "cuda" is "cuda:0", as LibTorch has it for tensors.
FXX_INLINE c10::Device with_index(c10::Device device) {
  return device.has_index() || device.is_cpu() || device.is_meta() ? device : c10::Device(device.type(), 0);
}

FXX_INLINE void run_fake(const c10::OperatorHandle& op, const FakeOperator& known, torch::jit::Stack* stack) {
  const auto arguments = [&] { return torch::jit::last(*stack, known.arguments); };
  if (known.way == FakeOperator::Way::composite) {
    // What it is made of comes back here, and decides by the device that the tensors claim.
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
    return;
  }
  if (known.way == FakeOperator::Way::question) {
    if (!known.is_equal) refuse_elements(known.name);
    const at::Tensor a = arguments()[0].toTensor(), b = arguments()[1].toTensor();
    if (!a.is_same(b) && a.sizes() == b.sizes()) refuse_elements(known.name);
    torch::jit::drop(*stack, known.arguments);
    stack->emplace_back(a.is_same(b));
    return;
  }
  if (known.way == FakeOperator::Way::unknown) refuse_unknown(known);

  // The first device that is not the CPU, unless the call names one.
  c10::Device device = c10::kCPU;
  for (const c10::IValue& value : arguments())
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (device.is_cpu() && !tensor.is_meta()) device = tensor.device();
    });
  const std::size_t base = stack->size() - known.arguments;
  for (std::size_t i : known.devices) {
    c10::IValue& value = (*stack)[base + i];
    if (value.isDevice()) device = with_index(value.toDevice());
    value = c10::Device(c10::kMeta);
  }
  for (std::size_t i : known.pins) (*stack)[base + i] = c10::IValue();

  Twins twins(device);
  for (std::size_t i = 0; i < known.arguments; ++i) {
    c10::IValue& value = (*stack)[base + i];
    const bool written = i < known.written.size() && known.written[i];
    value = map_tensors(value, [&](const at::Tensor& tensor) {
      const bool kept = known.keeps_real && !is_fake(tensor) && !written;
      return kept ? tensor : twins.twin_of(tensor, written);
    });
  }
  {
    const FakeKeySwitch on(true);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::OperatorHandle*& running = running_operator();
    struct Restore {
      const c10::OperatorHandle*& place;
      const c10::OperatorHandle* before;
      ~Restore() { place = before; }
    } restore{running, running};
    if (!running) running = &op;
    run_on_meta(op, known, stack);
  }
  twins.sync(known);
  // A rule of fxx's knows what has to be real; a rule or kernel of the user's may give a tensor of any device.
  const bool all_fake = known.way != FakeOperator::Way::rule && !known.keeps_real;
  for (std::size_t i = stack->size() - known.returns; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    value = map_tensors(value, [&](const at::Tensor& tensor) { return twins.result_of(tensor, all_fake); });
  }
}

/// In a scope, an operator without a fake tensor.
FXX_INLINE void run_in_scope(const c10::OperatorHandle& op, const FakeOperator& known, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, known.arguments);
  std::size_t tensors = 0;
  bool all_made_here = true, writes_elsewhere = false, meta = false;
  for (std::size_t i = 0; i < known.arguments; ++i)
    for_each_tensor(arguments[i], [&](const at::Tensor& tensor) {
      ++tensors;
      meta = meta || tensor.is_meta();
      if (is_made_in_scope(tensor)) return;
      all_made_here = false;
      writes_elsewhere = writes_elsewhere || (i < known.written.size() && known.written[i]);
    });
  for (std::size_t i : known.devices) meta = meta || (arguments[i].isDevice() && arguments[i].toDevice().is_meta());
  const bool runnable = known.way != FakeOperator::Way::question && known.way != FakeOperator::Way::unknown;

  // What goes to another device is fake, whether the machine has the device or not.
  bool elsewhere = false;
  for (std::size_t i : known.devices)
    elsewhere = elsewhere || (arguments[i].isDevice() && !arguments[i].toDevice().is_cpu());

  bool real = meta || !known.gives_tensors || !runnable;
  if (!real && tensors == 0) {
    // torch::tensor({...}) fills an empty tensor, or a scalar one, in C++. It alone calls with autograd left out and
    // the tracking of views not, outside of inference mode.
    const bool by_data = c10::impl::tls_is_dispatch_keyset_excluded(c10::autograd_dispatch_keyset) &&
                         !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView);
    real = !elsewhere && (known.is_scalar_tensor || (known.is_empty && (by_data || entered_operator().fills_integers)));
    if (real && known.is_empty && c10::InferenceMode::is_enabled()) {
      std::int64_t count = 1;
      for (std::int64_t size : arguments[0].toIntVector()) count *= size;
      real = count <= largest_constant;
    }
  } else if (!real) {
    real = !elsewhere && !writes_elsewhere && (!known.factory || all_made_here) &&
           (known.aliases || !entered_operator().all_fake);
  }
  if (!real) {
    run_fake(op, known, stack);
    return;
  }
  run_real(op, keys, stack);
  if (!known.aliases)
    for (const c10::IValue& value : torch::jit::last(*stack, known.returns)) for_each_tensor(value, mark_made_in_scope);
}

FXX_INLINE void fake_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const FakeOperator& known = fake_operator(op);
  bool fake = false, meta = false, real = false;
  const auto arguments = torch::jit::last(*stack, known.arguments);
  for (const c10::IValue& value : arguments)
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      (is_fake(tensor) ? fake : tensor.is_meta() ? meta : real) = true;
    });
  if (fake) return run_fake(op, known, stack);
  if (!running_operator()) return run_in_scope(op, known, keys, stack);
  // A step of an operator that runs on twins.
  for (std::size_t i : known.devices) meta = meta || (arguments[i].isDevice() && arguments[i].toDevice().is_meta());
  if (meta) run_on_meta(op, known, stack);
  else run_real(op, keys, stack);
}

/// An operator with a fake tensor, before it is taken apart: what its parts make is fake as well.
FXX_INLINE void fake_entry(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const FakeOperator& known = fake_operator(op);
  // Composite operators look up which CUDA device is the current one, which a machine without one refuses.
  const std::size_t base = stack->size() - known.arguments;
  for (std::size_t i : known.devices)
    if (c10::IValue& value = (*stack)[base + i]; value.isDevice()) value = with_index(value.toDevice());
  if (known.is_copy && !is_fake_scope() && !c10::impl::tls_is_dispatch_key_included(trace_key) &&
      !is_fake((*stack)[base + 1].toTensor())) {
    TORCH_WARN_ONCE(
        "fake: real values were copied into a fake tensor (copy_, torch::load), which keeps none of them. Give it "
        "memory "
        "first: parameter.set_data(torch::empty_like(real)), or set_data(real) at once");
  }
  const FakeKeySwitch on(true);
  const c10::impl::ExcludeDispatchKeyGuard entered(fake_entry_key);
  Entered whole = known.inside;
  whole.op = &op;
  const EnterOperator inside(whole);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, fake_entry_key), stack);
}

/// The fallbacks are registered once per process, when the first scope or fake tensor is made.
FXX_INLINE void register_fake_fallback() {
  static const bool registered = [] {
    // They stay for the life of the process, as the dispatcher does.
    auto* fallback = new torch::Library(torch::Library::IMPL, "_", fake_key, __FILE__, __LINE__);
    fallback->fallback(torch::CppFunction::makeFromBoxedFunction<&fake_fallback>());
    auto* entry = new torch::Library(torch::Library::IMPL, "_", fake_entry_key, __FILE__, __LINE__);
    entry->fallback(torch::CppFunction::makeFromBoxedFunction<&fake_entry>());
    return true;
  }();
  (void)registered;
}

FXX_INLINE void add_shape_rule(const std::string& op, c10::KernelFunction rule, c10::FunctionSchema schema) {
  register_fake_fallback();
  const std::size_t dot = op.find('.', op.find("::") == op.npos ? 0 : op.find("::"));
  const c10::OperatorName name(op.substr(0, dot), dot == op.npos ? "" : op.substr(dot + 1));
  // An operator that is registered later is checked when it is first called.
  if (const auto known = c10::Dispatcher::singleton().findSchema(name)) check_rule_signature(*known, schema);
  UserShapeRules& added = user_shape_rules();
  const std::lock_guard lock(added.mutex);
  added.rules[text_of(name)] = std::make_shared<UserShapeRule>(UserShapeRule{std::move(rule), std::move(schema)});
  ++added.version;
}

/// A fake tensor for each of several tensors; where those share memory, so do these.
class FakeCopies {
 public:
  at::Tensor copy_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    if (!is_plain(tensor))
      throw TraceError(ErrorId::unsupported_argument, "fake_like: a tensor of options " +
                                                          c10::toString(tensor.options()) +
                                                          " was given; only dense tensors can be fake");
    c10::Storage& storage = storages_[tensor.storage().unsafeGetStorageImpl()];
    if (!storage)
      storage = fake_storage(tensor.storage().nbytes(), tensor.is_meta() ? c10::Device(c10::kCPU) : tensor.device());
    at::Tensor fake = fake_tensor(storage, tensor);
    return fake.set_requires_grad(tensor.requires_grad());
  }

 private:
  std::unordered_map<const c10::StorageImpl*, c10::Storage> storages_;
};

}  // namespace detail

FXX_INLINE FakeScope::FakeScope(bool enabled) : before_(is_fake_scope()) {
  detail::register_fake_fallback();
  c10::impl::tls_set_dispatch_key_included(detail::fake_key, enabled);
}
FXX_INLINE FakeScope::~FakeScope() { c10::impl::tls_set_dispatch_key_included(detail::fake_key, before_); }

FXX_INLINE bool is_fake_scope() noexcept { return c10::impl::tls_is_dispatch_key_included(detail::fake_key); }

FXX_INLINE at::Tensor fake_like(const at::Tensor& tensor) {
  detail::register_fake_fallback();
  if (!tensor.defined()) return {};
  at::Tensor fake = detail::FakeCopies().copy_of(tensor);
  // In memory of its own, that holds what the tensor shows and no more.
  fake.storage().unsafeGetStorageImpl()->set_nbytes(detail::bytes_reached(tensor));
  fake.unsafeGetTensorImpl()->set_storage_offset(0);
  return fake;
}

FXX_INLINE void to_fake(torch::nn::Module& module) {
  detail::register_fake_fallback();
  detail::FakeCopies copies;
  const at::NoGradGuard no_grad;
  // All copies first: when one cannot be made, nothing has changed.
  struct Replacement {
    at::Tensor tensor, data, gradient;
  };
  std::vector<Replacement> replacements;
  for (const auto& tensors : {module.parameters(), module.buffers()})
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && !is_fake(tensor))
        replacements.push_back(
            {tensor, copies.copy_of(tensor).set_requires_grad(false), copies.copy_of(tensor.mutable_grad())});
  for (const auto& [tensor, data, gradient] : replacements) {
    if (gradient.defined()) tensor.mutable_grad() = gradient;
    tensor.set_data(data);
  }
}

}  // namespace fxx::inline FXX_ABI
