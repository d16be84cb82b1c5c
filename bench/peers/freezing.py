#!/usr/bin/env python3
"""Sets what the shipped rules find in the zoo of models beside what Inductor's freezing passes find in the same.

usage: freezing.py FOLDER [MODEL...] > COUNTS    counts, of these models or of all, and prints JSON
       freezing.py --table COUNTS [--write]      prints the table of docs/writing_rules.md, or writes it there
FOLDER holds bench_fusions, which traces the models and applies the rules. The traces are read back as torch.fx graphs,
so both see the same calls, and compiled by torch.compile with freezing, in eval mode and without gradients, on the CPU.
Every pattern of every pass of Inductor is counted by name; its compiler is stopped before it writes a kernel.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch._inductor.config as config
from torch._dynamo.utils import counters
from torch._inductor import compile_fx, pattern_matcher

sys.dont_write_bytecode = True
import traced_models  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN, END = '<!-- freezing.py: begin -->', '<!-- freezing.py: end -->'


# --- Inductor --------------------------------------------------------------------------------------------------------
class Stopped(Exception):
    pass


counted = collections.Counter()


def name_of(entry):
    """The name of a pattern: of what is put in its place, or of the function that does it."""
    named = getattr(entry, 'pattern_name', None)
    if named:
        return named
    handler = getattr(entry, 'handler', None) or getattr(entry, 'normalize_args', None)
    return getattr(handler, '__qualname__', str(handler)).replace('.<locals>', '')


def count_entries():
    for kind in (pattern_matcher.LoweringPatternEntry, pattern_matcher.GraphPatternEntry,
                 pattern_matcher.ReplacementPatternEntry):
        def apply(self, match, graph, node, original=kind.apply):
            name = name_of(self)
            if name.endswith('folded_op'):  # one for conv and linear; add, sub, mul and div
                convolves = any('convolution' in str(n.target) for n in match.nodes)
                name = f'fold {node.target.__name__.split(".")[0]}, {"convolution" if convolves else "linear"}'
            calls = [str(n.target) for n in match.nodes if n.op == 'call_function']
            products = sum(call.startswith(('aten.mm.', 'aten.addmm.')) for call in calls)
            if isinstance(self, pattern_matcher.ReplacementPatternEntry) and products > 1 and products == len(calls):
                name = 'merge linears'
            counted[name] += products if name == 'merge linears' else 1
            return original(self, match, graph, node)

        kind.apply = apply


def found_by_inductor(module, inputs):
    torch._dynamo.reset()
    counters.clear()
    counted.clear()
    with torch.no_grad():
        try:
            torch.compile(module, fullgraph=True)(*inputs)
        except Exception as error:  # noqa: BLE001: Dynamo wraps what a compiler throws
            if 'Stopped' not in repr(error) + repr(error.__cause__):
                raise
        else:
            raise SystemExit('freezing.py: Inductor was not stopped')
    return dict(counted)


def count_all(folder, only):
    config.freezing = True
    config.cpp.enable_concat_linear = True  # off by default
    config.enable_linear_binary_folding = True  # off by default
    config.fx_graph_cache = False
    config.compile_threads = 1
    count_entries()

    def stop(*args, **kwargs):
        raise Stopped

    compile_fx.GraphLowering = type('Stopping', (compile_fx.GraphLowering,), {'__init__': stop})
    counts = {}
    with tempfile.TemporaryDirectory() as scratch:
        program = subprocess.run([folder / 'bench_fusions', scratch], check=True, capture_output=True, text=True)
        for model, ours in json.loads(program.stdout).items():
            if only and model not in only:
                continue
            print(model, file=sys.stderr)
            module, inputs = traced_models.read(f'{scratch}/{model}')
            counts[model] = {'fxx': ours, 'inductor': found_by_inductor(module, inputs)}
    return counts


# --- the table -------------------------------------------------------------------------------------------------------
def batch_norms(found):
    """Each is taken apart; its first part subtracts the mean."""
    return found.get('fold sub, convolution', 0)


def other_folds(found):
    folds = sum(n for name, n in found.items() if name.startswith('fold ') and name.endswith(', convolution'))
    return folds - 4 * batch_norms(found)


def named(*starts):
    return lambda found: sum(n for name, n in found.items() if name.startswith(starts))


KINDS = {  # what Inductor finds, what fxx finds
    'batch norms into weights': (batch_norms, named('fold batch norm')),
    'scales, shifts into weights': (other_folds, named('fold scale', 'fold shift')),
    'attention': (named('_sfdp'), named('attention')),
    'linears merged': (named('merge linears'), named('merge linears')),
    'convolutions merged': (named('merge convolutions'), named('merge convolutions')),
    'activations': (lambda _: 0, named('gelu', 'silu')),
    'dropout gone': (None, named('dropout')),
    'kernels of oneDNN': (named('_register_unary_fusion', '_register_leaky_relu_fusion', '_register_hardtanh_fusion',
                                '_register_binary'),
                          named('convolution, ', 'transposed convolution, ', 'linear, ')),
}
PACKED = named('_register_weight_pack')
CLEANED = named('pointless', 'bmm_to_mm', 'fix_iota', 'fold add, linear')


def table_of(counts):
    rows = []
    for model, count in counts.items():
        theirs, ours = count['inductor'], count['fxx']
        cells = {'model': model}
        for kind, (find_theirs, find_ours) in KINDS.items():
            found = find_theirs(theirs) if find_theirs else None, find_ours(ours)
            cells[kind] = f'{"-" if found[0] is None else found[0]} / {found[1]}' if any(found) else ''
        cells['nodes'] = f'{ours["nodes"][0]} -> {ours["nodes"][1]}'
        for head, find in {'its packing': PACKED, 'its clean-ups': CLEANED}.items():
            cells[head] = str(find(theirs) or '')
        rows.append(cells)
    heads = [head for head in rows[0] if any(row[head] for row in rows)]  # of what is found somewhere
    lines = [heads, ['---'] * len(heads)] + [[row[head] for head in heads] for row in rows]
    return ''.join('| ' + ' | '.join(line) + ' |\n' for line in lines)


def main(arguments):
    if arguments[0] != '--table':
        print(json.dumps(count_all(pathlib.Path(arguments[0]), arguments[1:]), indent=1))
        return
    table = table_of(json.loads(pathlib.Path(arguments[1]).read_text()))
    if '--write' not in arguments:
        print(table, end='')
        return
    path = ROOT / 'docs/writing_rules.md'
    before, rest = path.read_text().split(BEGIN)
    path.write_text(before + BEGIN + '\n' + table + END + rest.split(END)[1])


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
