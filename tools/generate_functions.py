#!/usr/bin/env python3
"""Writes the overload sets that follow from the operator table (include/fxx/ops/table.inc).

ops/functions.inc: FXX_FUNCTION(name, tag::operator...), one line per function name: patterns.
trace/functions_{declared,defined}.inc: free functions over Proxy, one per operator that takes a tensor.
trace/methods_{declared,defined}.inc: members of Proxy, one per operator that torch::Tensor has as a member.
trace/factories.inc: functions that argument-dependent lookup does not find: what takes no tensor, or lists of them only.

Run it after changing the table; `--check` says whether the files are up to date instead (the tests do).
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent / "include" / "fxx"
LINE = re.compile(r'^FXX_OP\((\w+), (\w+), R"\((.*)\)", ([\w| ]+)\)$')
HEAD = ("// Made from ops/table.inc by tools/generate_functions.py; change the table, not this file.\n"
        "// clang-format off\n")

BASE = {"Tensor": "Tensor", "Scalar": "Scalar", "int": "Int", "SymInt": "Int", "float": "Real", "bool": "Bool",
        "str": "String", "ScalarType": "Dtype", "Layout": "Layout", "MemoryFormat": "MemoryFormat", "Device": "Device"}
# Overloads that LibTorch tells apart by leaving out a default, and one that C++ cannot tell from its siblings.
NO_DEFAULT = {("arange_start_step", "step"), ("range_step", "step"),
              ("std", "unbiased"), ("var", "unbiased"), ("std_mean", "unbiased"), ("var_mean", "unbiased"),
              ("std_dim", "unbiased"), ("var_dim", "unbiased"), ("std_mean_dim", "unbiased"),
              ("var_mean_dim", "unbiased"),
              ("any_dims", "dim"), ("all_dims", "dim"),
              *((f"conv{n}d_padding", name) for n in (1, 2, 3) for name in ("bias", "stride", "padding"))}
SKIP = {"index_Tensor", "operator_getitem"}
# dtype, layout, device and pin_memory are one torch::TensorOptions in C++.
OPTIONS = ["dtype", "layout", "device", "pin_memory"]
NUMBERS = ("operator::", "math::", "builtins::", "std::", "prim::")  # no patterns but for those below
PATTERNS = {"operator_add", "operator_sub", "operator_mul", "operator_truediv", "operator_floordiv", "operator_mod",
            "operator_neg", "operator_getitem", "math_sqrt", "math_floor", "math_ceil"}
TAKES_A_NUMBER = {"IntArg", "OptionalIntArg", "ScalarArg", "OptionalScalarArg", "RealArg", "OptionalRealArg",
                  "SizedIntListArg", "OptionalSizedIntListArg"}
BY_HAND = {"size_int", "stride_int", "dim", "numel", "index_put_"}  # members written in trace/proxy.hpp
KEYWORDS = {"and", "or", "xor", "not", "union", "new", "default", "register", "signed", "template"}


def read_table():
    operators = []
    for number, line in enumerate((ROOT / "ops" / "table.inc").read_text().splitlines(), 1):
        if not line.startswith("FXX_OP"):
            continue
        match = LINE.match(line)
        if not match:
            sys.exit(f"ops/table.inc:{number}: not of the form FXX_OP(function, name, R\"(schema)\", traits)")
        operators.append(match.groups())
    return operators


def split(text):
    """Pieces between commas outside brackets and quotes."""
    pieces, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            pieces.append(text[start:i].strip())
            start = i + 1
    return pieces + ([text[start:].strip()] if text[start:].strip() else [])


def cpp_type(schema_type):
    """The parameter class for a type of the schema; None when C++ callers never pass it."""
    text = re.sub(r"\([^)]*\)", "", schema_type)
    match = re.fullmatch(r"(\w+)(\?)?(\[(\d*)\])?(\?)?", text)
    name, inner_optional, is_list, size, outer_optional = match.groups()
    if name not in BASE:
        return None
    base = BASE[name]
    if is_list:
        return (("Optional" if outer_optional else "") + ("Sized" if size else "") + base + "List" +
                ("OfOptional" if inner_optional else "") + "Arg")
    return ("Optional" if inner_optional else "") + base + "Arg"


def result_type(text):
    """The C++ type that recording gives; None for results that have no proxy."""
    text = re.sub(r"\(\w!?\)", "", text)
    if text == "()":
        return "void"
    if text.startswith("("):
        types = [result_type(piece.split()[0]) for piece in split(text[1:-1])]
        return None if None in types else f"std::tuple<{', '.join(types)}>"
    return {"Tensor": "Proxy", "Tensor[]": "ListProxy", "int": "ScalarProxy", "SymInt": "ScalarProxy",
            "Scalar": "ScalarProxy", "float": "ScalarProxy", "bool": "BoolProxy"}.get(text)


def signature(tag, schema):
    """(result, [(type, name, has default)], takes a tensor), or None when the operator gets no function."""
    head, result = schema.rsplit(") -> ", 1) if not schema.endswith(")") or ") -> (" not in schema else (
        schema[:schema.index(") -> (")], schema[schema.index(") -> (") + 5:])
    result = result_type(result)
    if result is None:
        return None
    parameters, takes_tensor = [], False
    for piece in split(head[head.index("(") + 1:]):
        if piece == "*":
            continue
        kind, rest = re.match(r"((?:\w+)(?:\([^)]*\))?[\[\]\d?]*) (.*)", piece).groups()
        name, has_default = rest.split("=")[0], "=" in rest
        if kind.startswith("Generator"):
            if not has_default:
                return None
            continue
        cpp = cpp_type(kind)
        if cpp is None:
            return None
        takes_tensor |= "Tensor" in cpp
        if (tag, name) in NO_DEFAULT:
            has_default = False
        parameters.append((cpp, name + "_" if name in KEYWORDS else name, has_default))
    # One parameter for four: torch::TensorOptions.
    names = [p[1] for p in parameters]
    for i in range(len(parameters) - 3):
        if names[i:i + 4] == OPTIONS:
            only = tag == "to_dtype_layout"
            parameters[i:i + 4] = [("DeviceOrOptionsArg" if only else "OptionsArg", "options", not only)]
            break
    # A default before a parameter without one is no default in C++.
    needed = False
    for i in range(len(parameters) - 1, -1, -1):
        needed |= not parameters[i][2]
        parameters[i] = parameters[i][:2] + (not needed,)
    return result, parameters, takes_tensor


def functions(operators):
    by_name = {}
    for function, tag, schema, _ in operators:
        if schema.startswith(NUMBERS) and tag not in PATTERNS:
            continue
        by_name.setdefault(function, []).append(tag)
    return HEAD + "".join(f"FXX_FUNCTION({name}, {', '.join('tag::' + t for t in tags)})\n"
                          for name, tags in by_name.items())


def one_for_a_list(made):
    """Where LibTorch's `view(-1)` takes one number as a list of one, so does a proxy, unless another overload wants a
    number there."""
    numbers = {(name, i) for name, _, (_, parameters, _), _ in made
               for i, p in enumerate(parameters) if p[0] in TAKES_A_NUMBER}
    for name, tag, (result, parameters, takes_tensor), traits in made:
        widened = [(("IntListOrOneArg" if kind == "IntListArg" and (name, i) not in numbers else kind), n, default)
                   for i, (kind, n, default) in enumerate(parameters)]
        yield name, tag, (result, widened, takes_tensor), traits


def addresses(parameters):
    """The operands of a call, in the order of the schema."""
    return ", ".join(", ".join(f"&options.{o}" for o in OPTIONS) if kind.endswith("OptionsArg") else f"&{n}"
                     for kind, n, _ in parameters)


def factories(made):
    """Functions without a tensor among their parameters, and those of lists of tensors only."""
    text = []
    for name, tag, (result, parameters, takes_tensor), traits in made:
        kinds = {kind for kind, _, _ in parameters}
        if "function" not in traits.split(" | ") or kinds & {"TensorArg", "OptionalTensorArg"} or not parameters:
            continue
        declared = ", ".join(f"const functional::{kind}& {n}{' = {}' if default else ''}" for kind, n, default in parameters)
        if takes_tensor:
            record = f"functional::{name}({', '.join(n for _, n, _ in parameters)})"
        elif result == "Proxy":
            grad = "options.requires_grad" if any(kind.endswith("OptionsArg") for kind, _, _ in parameters) else "false"
            record = f"functional::detail::make_tensor(OperatorIndex::{tag}, {{{addresses(parameters)}}}, {grad})"
        else:
            continue
        text.append(f"template <int = 0> {result} {name}({declared}) {{ return {record}; }}\n")
    return text


def overloads(operators):
    declared, defined, methods_declared, methods_defined = [], [], [], []
    made = [(name, tag, signature(tag, schema), traits) for name, tag, schema, traits in operators
            if not name.startswith("_") and tag not in SKIP and schema.startswith(("aten::", "fxx::"))]
    made = list(one_for_a_list([m for m in made if m[2] is not None]))
    for name, tag, (result, parameters, takes_tensor), traits in made:
        traits = traits.split(" | ")
        if not takes_tensor:
            continue

        def text(items, defaults):
            return ", ".join(f"const {kind}& {n}{' = {}' if default and defaults else ''}"
                             for kind, n, default in items)

        arguments = addresses(parameters)
        if "function" in traits:
            declared.append(f"{result} {name}({text(parameters, True)});\n")
            defined.append(f"FXX_INLINE {result} {name}({text(parameters, False)}) {{ "
                           f"return fxx::detail::function(OperatorIndex::{tag}, {{{arguments}}}); }}\n")
        # Members take the tensor as the object; `self` is not always the first parameter (where).
        selves = [i for i, p in enumerate(parameters) if p[1] == "self" and p[0] == "TensorArg"]
        if "method" in traits and selves and tag not in BY_HAND:
            rest = [p for i, p in enumerate(parameters) if i != selves[0]]
            location = "std::source_location where"
            comma = ", " if rest else ""
            # The object comes first in a call_method; where it does not in the schema, the call is one of the function.
            record = (f"detail::method(\"{name}\", OperatorIndex::{tag}, {{{arguments}}}, where)" if selves[0] == 0 else
                      f"detail::function(OperatorIndex::{tag}, {{{arguments}}})")
            methods_declared.append(f"{result} {name}({text(rest, True)}{comma}{location} = "
                                    f"std::source_location::current()) const;\n")
            methods_defined.append(f"FXX_INLINE {result} Proxy::{name}({text(rest, False)}{comma}{location}) const {{ "
                                   f"const TensorArg self(*this, where); return {record}; }}\n")
    return declared, defined, methods_declared, methods_defined, factories(made)


def main():
    operators = read_table()
    declared, defined, methods_declared, methods_defined, made = overloads(operators)
    files = {ROOT / "ops" / "functions.inc": functions(operators),
             ROOT / "trace" / "functions_declared.inc": HEAD + "".join(declared),
             ROOT / "trace" / "functions_defined.inc": HEAD + "".join(defined),
             ROOT / "trace" / "methods_declared.inc": HEAD + "".join(methods_declared),
             ROOT / "trace" / "methods_defined.inc": HEAD + "".join(methods_defined),
             ROOT / "trace" / "factories.inc": HEAD + "".join(made)}
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv:
        for path in stale:
            print(f"{path.relative_to(ROOT.parent.parent)} is not what ops/table.inc gives; "
                  f"run tools/generate_functions.py")
        print(f"{len(files) - len(stale)} passed, {len(stale)} failed")
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(files[path])
        print(f"wrote {path.relative_to(ROOT.parent.parent)}")


if __name__ == "__main__":
    main()
