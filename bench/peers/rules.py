#!/usr/bin/env python3
"""Times PyTorch's two pattern matchers with the rules of bench/rulesets.py on the graphs of bench/rules.cpp.

usage: rules.py FOLDER FIGURE...    prints a JSON object: figure -> microseconds a node, or a rewrite
FOLDER holds bench_rules, which prints the graphs. Figures: rules/inductor/no_match, rules/inductor/rewrite
(PatternMatcherPass, one pass), rules/fx/no_match, rules/fx/rewrite (replace_pattern, one rule after the other): the least
of the calls after the first, as bench_rules has it; with /cold at the end the first call of the process, which then has
no other graph. Where something is rewritten each call takes a copy; making it, and collecting garbage, is not timed.
Both take the operands of commutative operators in one order only and apply the rules once, so they have less to do.
"""
import copy
import gc
import json
import pathlib
import re
import subprocess
import sys
import time

import torch
import torch.fx
from torch._inductor import pattern_matcher as inductor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import rulesets  # noqa: E402

torch.set_num_threads(1)
RULES = 100
WARM_CALLS = {'inductor': 10, 'fx': 2}  # replace_pattern takes some twenty seconds a call
CALL = re.compile(r' *%(\w+) : .*call_function\[target=torch\.ops\.aten\.([\w.]+)\]\(args = \((.*)\), kwargs')


def overload(name):
    base, overload_name = name.split('.')
    return getattr(getattr(torch.ops.aten, base), overload_name)


def target_of(name):
    return overload(rulesets.OPERATORS[name][2])


def read_graph(text):
    """What bench_rules prints: torch.fx's own notation."""
    graph, values = torch.fx.Graph(), {}

    def argument(word):
        return values[word[1:]] if word.startswith('%') else float(word) if '.' in word else int(word)

    for line in text.splitlines():
        if call := CALL.match(line):
            words = [word.strip() for word in call[3].split(',') if word.strip()]
            values[call[1]] = graph.call_function(overload(call[2]), tuple(argument(word) for word in words))
        elif given := re.match(r' *%(\w+) : .*placeholder', line):
            values[given[1]] = graph.placeholder(given[1])
        elif 'return' in line:
            graph.output(tuple(values[name] for name in re.findall(r'%(\w+)', line)))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def as_inductor(term):
    if isinstance(term, tuple):
        return inductor.CallFunction(target_of(term[0]), *map(as_inductor, term[1:]), _users=inductor.MULTIPLE)
    return inductor.KeywordArg(term) if isinstance(term, str) else term


def inductor_pass():
    matcher = inductor.PatternMatcherPass()
    for _, pattern, replacement in rulesets.rules(RULES):
        def replace(match, *, x, target=target_of(replacement[0]), **_):
            node = match.output_node()
            with match.graph.inserting_before(node):
                node.replace_all_uses_with(match.graph.call_function(target, (x,)))
            match.erase_nodes()

        inductor.register_graph_pattern(as_inductor(pattern), pass_dict=matcher)(replace)
    return matcher


def captures_of(term):
    if isinstance(term, tuple):
        return set().union(*map(captures_of, term[1:]))
    return {term} if isinstance(term, str) else set()


def as_graph(term, names):
    """The graph of `term` that takes what the pattern captures: replace_pattern wants the same inputs on both sides."""
    graph = torch.fx.Graph()
    inputs = {name: graph.placeholder(name) for name in names}

    def build(part):
        if isinstance(part, tuple):
            return graph.call_function(target_of(part[0]), tuple(build(p) for p in part[1:]))
        return inputs[part] if isinstance(part, str) else part

    graph.output(build(term))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def applied_by(peer):
    """A function that applies the rules to a module, and returns how often."""
    if peer == 'inductor':
        return inductor_pass().apply
    pairs = [tuple(as_graph(side, sorted(captures_of(pattern))) for side in (pattern, replacement))
             for _, pattern, replacement in rulesets.rules(RULES)]
    return lambda module: sum(len(torch.fx.replace_pattern(module, *pair)) for pair in pairs)


def measure(peer, case, folder, warm):
    """Seconds a node, or a rewrite: of the first call, and the least of those after it if they are wanted."""
    printed = subprocess.run([f'{folder}/bench_rules', '--graph', case], check=True, capture_output=True, text=True)
    module = read_graph(printed.stdout)
    nodes, apply, seconds = len(module.graph.nodes), applied_by(peer), []
    for _ in range(1 + (WARM_CALLS[peer] if warm else 0)):
        given = copy.deepcopy(module) if case == 'rewrite' else module
        gc.collect()
        start = time.perf_counter()
        rewrites = apply(given)
        seconds.append(time.perf_counter() - start)
    print(f'rules/{peer}/{case}: {rewrites} rewrites of {nodes} nodes in {seconds[0]:.2f} s, then '
          f'{min(seconds[1:], default=0):.2f} s', file=sys.stderr)
    each = rewrites if case == 'rewrite' else nodes
    return seconds[0] / each, min(seconds[1:], default=0) / each


def main(argv):
    found, wanted = {}, argv[2:]
    for peer, case in dict.fromkeys(tuple(name.split('/')[1:3]) for name in wanted):
        warm, cold = f'rules/{peer}/{case}', f'rules/{peer}/{case}/cold'
        seconds = measure(peer, case, argv[1], warm in wanted)
        found.update({name: value * 1e6 for name, value in zip((cold, warm), seconds) if name in wanted})
    print(json.dumps(found))


if __name__ == '__main__':
    main(sys.argv)
