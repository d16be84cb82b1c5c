// Bodies of torch/dispatch/script_watch.hpp.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <link.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <unwind.h>

// after the tensor's own header
#include <ATen/ops/copy_ops.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "fxx/torch/dispatch/met_constants.hpp"
#include "fxx/torch/dispatch/script_watch.hpp"
#include "fxx/torch/dispatch/traced_tensor.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/values.hpp"

namespace fxx::inline FXX_ABI::detail {

// --- the objects -----------------------------------------------------------------------------------------------------

/// Gives what a function is called with. RecordFunction::inputs() asserts a flag, where NDEBUG is not defined, that a
/// LibTorch which was built with it never sets; an explicit instantiation may name what is private.
template <auto Member>
struct RecordedInputs {
  friend c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& call) { return call.*Member; }
};
c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& call);
template struct RecordedInputs<&at::RecordFunction::inputs_>;

/// The watches of a thread, and what they share.
struct ScriptWatches {
  std::vector<ScriptWatch*> all;
  at::CallbackHandle handle = 0;
  bool optimised = true;
};
FXX_INLINE ScriptWatches& script_watches() {
  thread_local ScriptWatches watches;
  return watches;
}
FXX_INLINE void watch_script_objects(const c10::IValue& value) {
  for (ScriptWatch* watch : script_watches().all) watch->add(value, {});
}

FXX_INLINE ScriptWatch::ScriptWatch() {
  ScriptWatches& watches = script_watches();
  if (watches.all.empty()) {
    watches.optimised = torch::jit::getGraphExecutorOptimize();
    if (watches.optimised) torch::jit::setGraphExecutorOptimize(false);
    watches.handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback([](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
          for (const c10::IValue& input : recorded_inputs(call))
            if (input.isObject()) watch_script_objects(input);
          return nullptr;
        })
            .needsInputs(true)
            .scopes({at::RecordScope::TORCHSCRIPT_FUNCTION}));
  }
  watches.all.push_back(this);
}

FXX_INLINE ScriptWatch::~ScriptWatch() {
  ScriptWatches& watches = script_watches();
  std::erase(watches.all, this);
  if (watches.all.empty()) {
    at::removeCallback(watches.handle);
    if (watches.optimised) torch::jit::setGraphExecutorOptimize(true);
  }
  if (!restores_) return;
  const at::NoGradGuard no_grad;
  const FakeScope real(false);
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  for (const Object& known : objects_)
    for (std::size_t i = 0; i < known.slots.size(); ++i) {
      known.object->setSlot(i, known.slots[i].value);
      try {
        put_back(known.slots[i]);
      } catch (const c10::Error& error) {
        TORCH_WARN("trace: the attribute '", known.path, known.object->type()->getAttributeName(i),
                   "' could not be put back to what it was: ", error.what_without_backtrace());
      }
    }
}

FXX_INLINE std::vector<c10::IValue> ScriptWatch::objects() const {
  std::vector<c10::IValue> all;
  for (const Object& known : objects_) all.emplace_back(known.object);
  return all;
}

FXX_INLINE void ScriptWatch::add(const c10::IValue& value, const std::string& path) {
  const c10::intrusive_ptr<c10::ivalue::Object> object = value.toObject();
  if (!known_.insert(object.get()).second) return;
  const std::shared_ptr<c10::ClassType> type = object->type();
  const std::size_t count = std::min(type->numAttributes(), object->slots().size());
  Object saved{object, path, {}};
  for (std::size_t i = 0; i < count; ++i)
    saved.slots.push_back(save(object->getSlot(i), type->is_module() && type->is_parameter(i)));
  objects_.push_back(std::move(saved));
  // A method may take an object out of a list, a tuple or a dictionary as well.
  const auto within = [&](const c10::IValue& held, const std::string& name, auto&& self) -> void {
    if (held.isObject()) return add(held, name + ".");
    if (held.isList())
      for (const c10::IValue& item : held.toListRef()) self(item, name, self);
    if (held.isTuple())
      for (const c10::IValue& item : held.toTupleRef().elements()) self(item, name, self);
    if (held.isGenericDict())
      for (const auto& entry : held.toGenericDict()) self(entry.value(), name, self);
  };
  for (std::size_t i = 0; i < count; ++i)
    if (const c10::IValue slot = object->getSlot(i); slot.isObject() || slot.isTuple() || slot.isGenericDict() ||
                                                     (slot.isList() && slot.toList().elementType()->kind() !=
                                                                           c10::TypeKind::TensorType))
      within(slot, path + type->getAttributeName(i), within);
}

FXX_INLINE ScriptWatch::Saved ScriptWatch::save(const c10::IValue& value, bool parameter) {
  Saved saved{value};
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && !parameter && !traced(tensor) && !is_fake(tensor) && !tensor.is_meta())
      saved.copy = copy_of(tensor);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) saved.items.push_back(save(item, false));
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) saved.items.push_back(save(item, false));
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      saved.items.push_back(save(entry.key(), false));
      saved.items.push_back(save(entry.value(), false));
    }
  }
  return saved;
}

FXX_INLINE void ScriptWatch::put_back(const Saved& saved) {
  if (saved.copy.defined()) {
    at::Tensor tensor = saved.value.toTensor();
    if (same_values(tensor, saved.copy)) return;  // a write would count, for autograd
    std::optional<c10::InferenceMode> mode;
    if (tensor.is_inference()) mode.emplace();
    at::_ops::copy_::call(tensor, saved.copy, false);
  }
  if (saved.value.isGenericDict()) {
    auto dict = saved.value.toGenericDict();
    dict.clear();
    for (std::size_t i = 0; i + 1 < saved.items.size(); i += 2)
      dict.insert(saved.items[i].value, saved.items[i + 1].value);
  } else if (saved.value.isList()) {
    auto list = saved.value.toList();
    list.clear();
    for (const Saved& item : saved.items) list.push_back(item.value);
  }
  for (const Saved& item : saved.items) put_back(item);
}

FXX_INLINE bool ScriptWatch::is_same(const Saved& saved, const c10::IValue& now) {
  const c10::IValue& before = saved.value;
  const auto items_are = [&](const auto& items) {
    return std::equal(saved.items.begin(), saved.items.end(), items.begin(), items.end(),
                      [](const Saved& s, const c10::IValue& n) { return is_same(s, n); });
  };
  if (before.isTensor() && now.isTensor()) {
    const at::Tensor &a = before.toTensor(), &b = now.toTensor();
    if (a.is_same(b) || (!a.defined() && !b.defined())) return true;
    if (!a.defined() || !b.defined() || is_fake(b) || b.is_meta()) return false;
    const at::Tensor& was = saved.copy.defined() ? saved.copy : a;
    return was.scalar_type() == b.scalar_type() && was.sizes() == b.sizes() && same_values(bare(b), was);
  }
  if (before.tagKind() != now.tagKind()) return false;
  if (before.isList()) return items_are(now.toListRef());
  if (before.isTuple()) return items_are(now.toTupleRef().elements());
  if (before.isGenericDict()) {
    std::vector<c10::IValue> items;
    for (const auto& entry : now.toGenericDict()) {
      items.push_back(entry.key());
      items.push_back(entry.value());
    }
    return items_are(items);
  }
  if (before.isString()) return before.toStringRef() == now.toStringRef();
  return before.is(now);
}

FXX_INLINE std::string ScriptWatch::reassigned() const {
  const at::NoGradGuard no_grad;
  const FakeScope real(false);
  const c10::impl::ExcludeDispatchKeyGuard unwatched(trace_key);
  const auto text = [](const c10::IValue& value) {
    return value.isInt() || value.isDouble() || value.isBool() || value.isString() || value.isNone() ? describe(value)
                                                                                                     : std::string();
  };
  for (const Object& known : objects_)
    for (std::size_t i = 0; i < known.slots.size(); ++i) {
      const c10::IValue& now = known.object->getSlot(i);
      if (is_same(known.slots[i], now)) continue;
      const auto type = known.object->type();
      std::string name = "'" + known.path + type->getAttributeName(i) + "'";
      if (type->name()) name += " of " + type->name()->name();
      const std::string from = text(known.slots[i].value), to = text(now);
      return from.empty() || to.empty() ? name : name + " (" + from + " before, " + to + " after)";
    }
  return {};
}

// --- the compiler ----------------------------------------------------------------------------------------------------

/// Where a function of LibTorch lies in memory; nothing where the linker does not know it.
struct CodeRange {
  std::uintptr_t first = 0, last = 0;
};
FXX_INLINE CodeRange code_range(const void* function) {
  Dl_info info{};
  void* entry = nullptr;
  if (!function || !dladdr1(function, &info, &entry, RTLD_DL_SYMENT) || !entry || info.dli_saddr != function) return {};
  const auto first = reinterpret_cast<std::uintptr_t>(function);
  return {first, first + static_cast<const ElfW(Sym)*>(entry)->st_size};
}

struct ScriptCompilerSearch {
  std::array<CodeRange, 2> ranges;
  int left = 32;
  bool found = false;
};

FXX_INLINE bool in_script_compiler() {
  // The one runs a node whose inputs are constants, the other compares constants, too. It is in no header.
  static const std::array<CodeRange, 2> ranges = [] {
    const auto* run = reinterpret_cast<const void*>(&torch::jit::runNodeIfInputsAreConstant);
    CodeRange runs = code_range(run);
    if (runs.first == 0)  // the address is an entry of the program's own
      runs = code_range(dlsym(RTLD_DEFAULT, "_ZN5torch3jit26runNodeIfInputsAreConstantEPKNS0_4NodeEbPNS0_7AliasDbE"));
    return std::array{runs,
                      code_range(dlsym(RTLD_DEFAULT, "_ZN5torch3jit16preoptimizeGraphERSt10shared_ptrINS0_5GraphEEb"))};
  }();
  ScriptCompilerSearch search{ranges};
  ::_Unwind_Backtrace(
      [](_Unwind_Context* context, void* data) -> _Unwind_Reason_Code {
        ScriptCompilerSearch& s = *static_cast<ScriptCompilerSearch*>(data);
        const auto at = static_cast<std::uintptr_t>(_Unwind_GetIP(context));
        for (const CodeRange& range : s.ranges) s.found = s.found || (at > range.first && at <= range.last);
        return s.found || --s.left == 0 ? _URC_END_OF_STACK : _URC_NO_REASON;
      },
      &search);
  return search.found;
}

}  // namespace fxx::inline FXX_ABI::detail
