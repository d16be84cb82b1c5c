// Faults, of three kinds: the caller's (Error and its classes), ours (InternalError), the environment's
// (CompileError, LoadError: a compiler, a file or a cache that does not do its part).
//
// Every message reads `fxx::<call>: <what is wrong, with values>; <what was expected>. <what to do> [E103, node ...,
// from ..., in ...]`. docs/errors.md has a heading for each id. Nothing is lost when one is thrown: graphs and files
// stay as they were.
// Cost: light.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

/// Stable numbers of faults. A number is never given to another fault.
enum class ErrorId : std::uint16_t {
  // graph and node
  node_not_in_graph = 101,
  node_has_users = 102,
  node_erased = 103,
  used_before_defined = 104,
  duplicate_name = 105,
  broken_links = 106,
  output_misplaced = 107,
  attribute_missing = 108,
  argument_out_of_range = 109,
  dict_key_is_node = 110,
  text_malformed = 111,
  wrong_argument_kind = 112,
  nested_too_deep = 113,
  // operators
  operator_unknown = 201,
  schema_malformed = 202,
  arguments_mismatch = 203,
  operator_registered_twice = 204,
  // tracing
  data_dependent = 301,
  not_iterable = 302,
  module_not_in_root = 303,
  proxy_of_other_tracer = 304,
  unsupported_argument = 305,
  unsupported_output = 306,
  untraced_alias = 307,
  no_tracer = 308,
  traces_differ = 309,
  size_not_solved = 310,
  dynamic_dim_invalid = 311,
  mutable_operation = 315,
  gradients_switched = 316,
  traced_data_access = 320,
  traced_on_other_thread = 321,
  sizes_baked = 322,
  mode_refused = 323,
  constant_is_intermediate = 324,
  gradient_in_forward = 325,
  training_flag_unknown = 326,
  module_changed = 327,
  keeps_state = 328,
  no_shape_rule = 330,
  // rewriting
  rewrite_limit = 401,
  replacement_invalid = 402,
  pattern_invalid = 403,
  partition_invalid = 404,
  no_such_rule = 405,
  no_such_name = 406,
  rule_wrong = 410,
  rule_not_verified = 411,
  // code generation
  no_cpp_spelling = 501,
  folder_not_written = 502,
  // tool chain, cache, loading
  compiler_missing = 601,
  compile_failed = 602,
  compile_timeout = 603,
  cache_unwritable = 604,
  load_failed = 605,
  process_failed = 606,
  result_differs = 607,
  // running
  input_mismatch = 701,
  run_failed = 702,
  check_failed = 703,
  // files
  file_unreadable = 801,
  file_malformed = 802,
  weights_mismatch = 803,
  drawing_failed = 804,
  file_unwritable = 805,
  // bugs
  internal = 901,
};

/// Where a fault happened: the node as format_node prints it, a line of source or a function of the user's, and the
/// modules that were being traced, outermost first ("Net > encoder (Encoder) > encoder.0 (Layer)").
struct ErrorContext {
  std::string node = {};
  std::string source = {};
  std::string modules = {};
};

/// A mistake of the caller's, or the root of all faults when caught by this type.
class Error : public std::runtime_error {
 public:
  Error(ErrorId id, const std::string& sentence, ErrorContext context = {})
      : std::runtime_error(compose(id, sentence, context)), id_(id), context_(std::move(context)) {}

  ErrorId id() const noexcept { return id_; }
  const std::string& node() const noexcept { return context_.node; }
  const std::string& source() const noexcept { return context_.source; }
  const std::string& modules() const noexcept { return context_.modules; }

 private:
  static std::string compose(ErrorId id, const std::string& sentence, const ErrorContext& context) {
    std::string text = "fxx::" + sentence + " [E" + std::to_string(static_cast<int>(id));
    if (!context.node.empty()) text += ", node " + context.node;
    if (!context.source.empty()) text += ", from " + context.source;
    if (!context.modules.empty()) text += ", in " + context.modules;
    return text + "]";
  }

  ErrorId id_;
  ErrorContext context_;
};

/// A graph or a node was asked for something that would leave it broken, or is broken.
class GraphError : public Error {
  using Error::Error;
};
/// An operator, its schema or the arguments given to it.
class OperatorError : public Error {
  using Error::Error;
};
/// Tracing met what a graph cannot hold. The word is torch.fx's.
class TraceError : public Error {
  using Error::Error;
};
/// A rule, or what it built.
class RuleError : public Error {
  using Error::Error;
};
/// A graph that has no C++ form, or a folder that could not be written.
class CodegenError : public Error {
  using Error::Error;
};
/// A value that a module was run with, or an operator that failed while running.
class RunError : public Error {
  using Error::Error;
};
/// A file of the user's: missing, truncated, not what its name says.
class FileError : public Error {
  using Error::Error;
};

/// The tool chain: no compiler, a compile that failed or took too long, a cache that cannot be written.
class CompileError : public Error {
 public:
  CompileError(ErrorId id, const std::string& sentence, std::string log = {})
      : Error(id, log.empty() ? sentence : sentence + "\n" + log + "\n"), log_(std::move(log)) {}
  /// Output of the tool, first lines; empty when it was never started.
  const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};
/// A built module that cannot be loaded or gives other values than it should.
class LoadError : public Error {
  using Error::Error;
};

/// A bug in the library, never the caller's fault.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& sentence)
      : Error(ErrorId::internal, sentence + ". This is a bug in fxx; please report it with the graph") {}
};

}  // namespace fxx::inline FXX_ABI
