#!/usr/bin/env python3
"""Makes the rule sets that the benchmarks run: N rules whose patterns have two to four operators of the table.

usage: rulesets.py N    prints a header: bench::rules_N::rules and what applies them; for 100, instances of each too
The same N gives the same rules, and smaller sets are parts of larger ones. As Python: `rules(N)`, for the peers.
"""

import random
import sys

# Operators by how many arguments patterns vary. What C++ calls it; the constant in fxx::ops; the overload in torch.ops.
UNARY = {name: (name, name, name + '.default') for name in (
    'relu', 'sigmoid', 'tanh', 'exp', 'log', 'sqrt', 'rsqrt', 'abs', 'neg', 'erf', 'gelu', 'silu', 'mish', 'hardswish',
    'square', 'reciprocal', 'sin', 'cos')}
UNARY['softmax'] = ('softmax', 'softmax_int', 'softmax.int')
UNARY['transpose'] = ('transpose', 'transpose_int', 'transpose.int')
SCALAR = {f'{name}_number': (name, f'{name}_Scalar', f'{name}.Scalar') for name in ('add', 'sub', 'mul', 'div')}
SCALAR['pow'] = ('pow', 'pow_Tensor_Scalar', 'pow.Tensor_Scalar')
SCALAR['clamp_min'] = ('clamp_min', 'clamp_min', 'clamp_min.default')
COMMUTATIVE = {'add': ('add', 'add_Tensor', 'add.Tensor'), 'mul': ('mul', 'mul_Tensor', 'mul.Tensor')}
COMMUTATIVE |= {name: (name, name, f'{name}.default') for name in ('maximum', 'minimum')}
BINARY = {'sub': ('sub', 'sub_Tensor', 'sub.Tensor'), 'div': ('div', 'div_Tensor', 'div.Tensor'),
          'matmul': ('matmul', 'matmul', 'matmul.default'), 'linear': ('linear', 'linear', 'linear.default')}
OPERATORS = UNARY | SCALAR | COMMUTATIVE | BINARY
# Arguments that are the same wherever the operator stands, after those that patterns vary.
FIXED = {'softmax': [-1], 'transpose': [1, 2], 'linear': ['b']}
NUMBERS = [0, 1, 0.5, 2, 3, 4]
MOST = 160


def operators_in(pattern):
    return 0 if not isinstance(pattern, tuple) else 1 + sum(operators_in(p) for p in pattern[1:])


def shape_of(pattern):
    """Captures alike and operands of commutative operators sorted: no two rules of a set have the same."""
    if not isinstance(pattern, tuple):
        return '?' if isinstance(pattern, str) and pattern != 's' else str(pattern)
    operands = [shape_of(p) for p in pattern[1:]]
    if pattern[0] in COMMUTATIVE:
        operands.sort()
    return f'{pattern[0]}({",".join(operands)})'


def draw(random_, operators):
    """A random pattern of so many operators: a name and what it is called with; captures are 'x', 'y', 's', 'b'."""
    if operators == 0:
        return 'x'
    kind = random_.random()
    if kind < 0.45:
        name = random_.choice(list(UNARY))
        return (name, draw(random_, operators - 1), *FIXED.get(name, []))
    if kind < 0.65:
        return (random_.choice(list(SCALAR)), draw(random_, operators - 1), random_.choice([*NUMBERS, 's']))
    name = random_.choice(list(BINARY if kind < 0.82 else COMMUTATIVE))
    other = draw(random_, 1) if operators > 2 and random_.random() < 0.3 else random_.choice('xy')
    return (name, draw(random_, operators - 1 - operators_in(other)), other, *FIXED.get(name, []))


def rules(count):
    """[(name, pattern, replacement)]: larger patterns first, since the first rule that matches wins."""
    random_, seen, drawn = random.Random(7), set(), []
    while len(drawn) < MOST:
        pattern = draw(random_, random_.choices([2, 3, 4], [4, 4, 3])[0])
        if shape_of(pattern) in seen:
            continue
        seen.add(shape_of(pattern))
        drawn.append((f'r{len(drawn)}', pattern, (random_.choice([n for n in UNARY if n not in FIXED]), 'x')))
    return sorted(drawn[:count], key=lambda rule: (-operators_in(rule[1]), str(rule[1]).count("'s'"), str(rule[1])))


def as_pattern(term):
    if isinstance(term, tuple):
        return f'{OPERATORS[term[0]][0]}({", ".join(as_pattern(t) for t in term[1:])})'
    return term if isinstance(term, str) else f'{term}_c'


def as_nodes(term):
    if isinstance(term, tuple):
        return f'g.call_function(ops::{OPERATORS[term[0]][1]}, {{{", ".join(as_nodes(t) for t in term[1:])}}})'
    return '2.5' if term == 's' else str(term)


def as_header(count):
    lines = ['// Made by bench/rulesets.py.', '#pragma once', '#include "fxx/rewrite/functions.hpp"', '',
             f'namespace bench::rules_{count} {{', 'using namespace fxx;', '', 'namespace set {',
             'using namespace fxx::pattern;', 'inline constexpr auto b = tensor<"b">;',
             'inline constexpr auto rules = ruleset(']
    lines += [f'    rule<"{name}">({as_pattern(pattern)} >> {as_pattern(replacement)}),'
              for name, pattern, replacement in rules(count)]
    lines[-1] = lines[-1][:-1] + ');'
    lines += ['}  // namespace set', 'using set::rules;', '',
              'inline auto apply(Graph& graph) { return rules.apply(graph); }', '']
    if count == 100:
        lines += ['// An instance of each rule, and a call of each operator.',
                  'using Make = Node* (*)(Graph& g, Node* x, Node* y, Node* b, double s);',
                  'inline constexpr Make instances[] = {']
        lines += [f'    [](Graph& g, Node* x, [[maybe_unused]] Node* y, [[maybe_unused]] Node* b, double) '
                  f'{{ return {as_nodes(pattern)}; }},' for _, pattern, _ in rules(count)]
        lines += ['};']
        for kind, operators, operands in (('unary', UNARY, 'x'), ('scalar', SCALAR, 'x, s'),
                                          ('binary', COMMUTATIVE | BINARY, 'x, y')):
            lines += [f'inline constexpr Make {kind}[] = {{']
            for name, (_, constant, _) in operators.items():
                fixed = ''.join(f', {argument}' for argument in FIXED.get(name, []))
                lines += ['    [](Graph& g, Node* x, [[maybe_unused]] Node* y, [[maybe_unused]] Node* b, '
                          '[[maybe_unused]] double s) '
                          f'{{ return g.call_function(ops::{constant}, {{{operands}{fixed}}}); }},']
            lines += ['};']
    lines += [f'}}  // namespace bench::rules_{count}']
    return '\n'.join(lines)


if __name__ == '__main__':
    print(as_header(int(sys.argv[1])))
