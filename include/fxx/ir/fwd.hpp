// Names of the intermediate representation, for headers that only point at it.
// Cost: light.
#pragma once

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

class Argument;
struct KeywordArgument;
struct Slice;
struct TensorMeta;
struct Operator;
struct UserFunction;
class Node;
class Graph;
class Owner;
class TracerFactory;
struct Signature;

}  // namespace fxx::inline FXX_ABI
