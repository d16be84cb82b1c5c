// TorchScript that runs while a trace looks on: its compiler is kept out of the graph, its attributes are put back.
//
// Main names: detail::ScriptWatch, in_script_compiler. Cost: includes <ATen/core/ivalue.h>; an object of TorchScript is
// looked through when it is first called, and tensors that are no parameters are copied.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <unordered_set>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI::detail {

/// Lets all watches of the thread take a snapshot of the object, which is about to change, unless they have one.
void watch_script_objects(const c10::IValue& value);

/// Snapshots of the objects of TorchScript whose methods the thread calls, each from before its first call. Methods run
/// without the optimiser meanwhile: its plans would hold what a trace computes, or fuse operators that a trace records.
class ScriptWatch {
 public:
  ScriptWatch();
  ScriptWatch(const ScriptWatch&) = delete;
  ScriptWatch& operator=(const ScriptWatch&) = delete;
  /// Puts all attributes back, and the values of tensors that are no parameters.
  ~ScriptWatch();

  /// The first attribute that has another value now, with both: "'n' of Counter (0 before, 1 after)". Empty when there
  /// is none. Tensors that were written in place are not among them: operators did that.
  std::string reassigned() const;
  /// Leaves the attributes as they are.
  void keep() { restores_ = false; }
  /// Takes a snapshot of an object now, before anything calls it, unless there is one.
  void watch(const c10::IValue& object) { add(object, {}); }
  /// The objects that there are snapshots of, those within others too.
  std::vector<c10::IValue> objects() const;

 private:
  struct Saved {
    c10::IValue value;
    at::Tensor copy = {};            // of a tensor that is no parameter
    std::vector<Saved> items = {};   // of a list or tuple; keys and values of a dictionary
  };
  struct Object {
    c10::intrusive_ptr<c10::ivalue::Object> object;
    std::string path;  // "encoder."
    std::vector<Saved> slots;
  };
  friend void watch_script_objects(const c10::IValue& value);
  void add(const c10::IValue& value, const std::string& path);
  static Saved save(const c10::IValue& value, bool parameter);
  static bool is_same(const Saved& saved, const c10::IValue& now);
  static void put_back(const Saved& saved);

  std::vector<Object> objects_;
  std::unordered_set<const void*> known_;
  bool restores_ = true;
};

/// Whether the thread's caller is the compiler of TorchScript, which runs operators on constants when a function is
/// first called. Costs about 0.2 us a frame, of at most 32.
bool in_script_compiler();

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/script_watch.ipp"
#endif
