// How fake tensors run an operator: by a shape rule, by its kernel for meta tensors, or not at all; and which operator
// the code called.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <bitset>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "fxx/error.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/shape_rules.hpp"

namespace fxx::inline FXX_ABI::detail {

inline constexpr c10::DispatchKey fake_key = c10::DispatchKey::Fake;
/// Above autograd, where an operator is still whole: free in every LibTorch build.
inline constexpr c10::DispatchKey fake_entry_key = c10::DispatchKey::TESTING_ONLY_GenericWrapper;
/// A tensor that torch::tensor({...}) makes in inference mode cannot be told from at::empty; up to so many elements it
/// is real.
inline constexpr std::int64_t largest_constant = 4096;

/// The operator that the fallback runs on twins in this thread; the outermost one.
FXX_INLINE const c10::OperatorHandle*& running_operator() {
  thread_local const c10::OperatorHandle* running = nullptr;
  return running;
}

/// What is particular to the operator with a fake tensor that the thread is in, as long as it is whole.
struct Entered {
  const c10::OperatorHandle* op = nullptr;
  bool fills_integers = false;  // it makes integers as a tensor, and fills them in C++
  bool all_fake = false;        // it writes fake numbers into what it computes from real tensors
};
FXX_INLINE Entered& entered_operator() {
  thread_local Entered entered;
  return entered;
}
class EnterOperator {
 public:
  explicit EnterOperator(const Entered& entered) : before_(std::exchange(entered_operator(), entered)) {}
  ~EnterOperator() { entered_operator() = before_; }
  EnterOperator(const EnterOperator&) = delete;
  EnterOperator& operator=(const EnterOperator&) = delete;

 private:
  Entered before_;
};

/// Sets whether the thread's operators reach the fallback without a fake tensor.
class FakeKeySwitch {
 public:
  explicit FakeKeySwitch(bool on) : before_(c10::impl::tls_is_dispatch_key_included(fake_key)) {
    if (on != before_) c10::impl::tls_set_dispatch_key_included(fake_key, on);
  }
  ~FakeKeySwitch() { c10::impl::tls_set_dispatch_key_included(fake_key, before_); }
  FakeKeySwitch(const FakeKeySwitch&) = delete;
  FakeKeySwitch& operator=(const FakeKeySwitch&) = delete;

 private:
  bool before_;
};

struct UserShapeRule {
  c10::KernelFunction kernel;
  c10::FunctionSchema schema;
};
struct UserShapeRules {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const UserShapeRule>, std::less<>> rules;
  std::atomic<std::uint64_t> version = 0;
};
FXX_INLINE UserShapeRules& user_shape_rules() {
  static auto* rules = new UserShapeRules;  // threads may outlive static objects
  return *rules;
}

/// Throws when a rule has another signature than its operator.
FXX_INLINE void check_rule_signature(const c10::OperatorHandle& op, const c10::FunctionSchema& rule) {
  if (const auto difference = c10::findSchemaDifferences(rule, op.schema()))
    throw OperatorError(ErrorId::arguments_mismatch, "register_shape_rule: the rule for '" +
                                                         text_of(op.operator_name()) +
                                                         "' has another signature than the operator, " +
                                                         c10::toString(op.schema()) + ": " + *difference);
}

/// How the fallback runs an operator, found out once a thread.
struct FakeOperator {
  enum class Way {
    user_rule,  // by register_shape_rule
    rule,       // from the table of shape rules
    meta,       // by a kernel that runs on meta tensors
    composite,  // by operators that come back here
    question,   // has no answer: the result depends on elements
    unknown,
  };

  c10::OperatorName name{"", ""};
  Way way = Way::unknown;
  ShapeRule rule = nullptr;
  std::shared_ptr<const UserShapeRule> user_rule;
  std::size_t arguments = 0, returns = 0;
  std::vector<std::size_t> devices, pins;  // positions of such arguments
  std::bitset<64> written;                 // positions of arguments that it writes to
  std::size_t outs = 0;                    // how many of those at the end are `out`
  bool in_place = false;                   // its only result is its first argument
  bool gives_tensors = false;
  bool factory = false;     // makes tensors of options
  bool aliases = false;     // a result may share memory with an argument
  bool keeps_real = false;  // needs the elements of arguments that are real
  Entered inside;           // what holds for its parts
  bool is_empty = false, is_scalar_tensor = false, is_equal = false, is_copy = false;

  explicit FakeOperator(const c10::OperatorHandle& op) : name(op.operator_name()) {
    using c10::DispatchKey;
    const c10::FunctionSchema& schema = op.schema();
    arguments = schema.arguments().size();
    returns = schema.returns().size();
    bool has_dtype = false;
    for (std::size_t i = 0; i < arguments; ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      if (argument.alias_info() && argument.alias_info()->isWrite() && i < written.size()) {
        written.set(i);
        outs += argument.is_out();
      }
      const std::string type = argument.type()->str();
      if (type.starts_with("Device")) devices.push_back(i);
      if (argument.name() == "pin_memory") pins.push_back(i);
      has_dtype = has_dtype || argument.name() == "dtype";
    }
    for (const c10::Argument& result : schema.returns()) {
      gives_tensors = gives_tensors || result.type()->str().starts_with("Tensor");
      aliases = aliases || result.alias_info();
    }
    factory = has_dtype && !devices.empty() && name.name != "aten::_to_copy";
    in_place = outs == 0 && written.count() == 1 && written[0] && returns == 1 && schema.returns()[0].alias_info();
    is_empty = name.name == "aten::empty" && name.overload_name == "memory_format";
    is_scalar_tensor = name.name == "aten::scalar_tensor";
    is_equal = name.name == "aten::equal";
    is_copy = name.name == "aten::copy_";
    keeps_real = name.name == "aten::_pack_padded_sequence" || name.name == "aten::linspace" ||
                 name.name == "aten::logspace" || name.name == "aten::randint_like";

    inside.fills_integers = name.name == "aten::_pad_packed_sequence" || name.name == "aten::ctc_loss";
    // A GRU adds to a third of the hidden state's gates, which a state of zeros and the weights give.
    inside.all_fake = name.name.starts_with("aten::gru");
    if (UserShapeRules& added = user_shape_rules(); added.version.load() > 0) {
      const std::lock_guard lock(added.mutex);
      if (const auto found = added.rules.find(text_of(name)); found != added.rules.end()) user_rule = found->second;
    }
    const auto has = [&](DispatchKey key) { return op.hasKernelForDispatchKey(key); };
    if (user_rule) {
      check_rule_signature(op, user_rule->schema);
      way = Way::user_rule;
    } else if ((rule = find_shape_rule(name))) {
      way = Way::rule;
    } else if (is_data_dependent(name)) {
      way = Way::question;
    } else if (has(DispatchKey::Meta) || has(DispatchKey::CompositeExplicitAutograd) ||
               has(DispatchKey::CompositeExplicitAutogradNonFunctional)) {
      way = Way::meta;
    } else if (has(DispatchKey::CompositeImplicitAutograd)) {
      way = Way::composite;
    } else if (outs > 0 && (rule = find_shape_rule_without_out(name))) {
      way = Way::rule;
    }
  }
};

FXX_INLINE const FakeOperator& fake_operator(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<c10::OperatorHandle, FakeOperator> known;
  thread_local std::uint64_t version = 0;
  if (const std::uint64_t now = user_shape_rules().version.load(std::memory_order_relaxed); now != version) {
    known.clear();
    version = now;
  }
  const auto found = known.find(op);
  // A handle may be that of a later operator in the same place, and a kernel may come later.
  if (found != known.end() && found->second.name == op.operator_name() &&
      found->second.way != FakeOperator::Way::unknown)
    return found->second;
  return known.insert_or_assign(op, FakeOperator(op)).first->second;
}

/// What to do instead of asking for elements; empty where there is nothing particular.
FXX_INLINE std::string_view instead_of(const std::string& op) {
  const std::string_view name = std::string_view(op).substr(std::string_view("aten::").size());
  if (name == "_local_scalar_dense") return "compute both sides and select with torch::where(condition, a, b), ";
  if (name.starts_with("nonzero") || name == "argwhere" || name == "masked_select")
    return "keep the size, as torch::where(condition, a, b) and masked_fill do, ";
  if (name == "repeat_interleave") return "give its output_size, ";
  return "";
}

FXX_INLINE void refuse_elements(const c10::OperatorName& name) {
  const c10::OperatorHandle* whole = entered_operator().op;
  std::string called = "'" + text_of(name) + "'";
  if (whole && whole->operator_name() != name) called = "'" + text_of(whole->operator_name()) + "' (by " + called + ")";
  throw TraceError(ErrorId::data_dependent,
                   "fake: " + called +
                       " depends on the elements of a fake tensor, which has none; decide without them, " +
                       std::string(instead_of(name.name)) +
                       "or use real tensors where values matter: fxx::fake off(false) leaves a scope",
                   user_context());
}

[[noreturn]] FXX_INLINE void refuse_unknown(const FakeOperator& known) {
  const c10::OperatorHandle* outer = running_operator();
  std::string called;
  if (outer && outer->operator_name() != known.name) called = " (called by '" + text_of(outer->operator_name()) + "')";
  throw TraceError(ErrorId::no_shape_rule,
                   "fake: '" + text_of(known.name) + "'" + called +
                       " was given a fake tensor, and it has neither a kernel for meta tensors nor a shape rule; tell "
                       "what it gives with fxx::register_shape_rule(\"" +
                       text_of(known.name) + "\", ...), or register a kernel for the dispatch key Meta",
                   user_context());
}

}  // namespace fxx::inline FXX_ABI::detail
