#!/usr/bin/env python3
"""Runs the benchmarks and their peers in turns, and prints a line a figure.

usage: report.py FOLDER [--only NAME[,NAME]] [--json] [--keep]      FOLDER holds the built programs; bench/run calls this
A NAME is a figure or the start of some: trace, graph/lint. Both sides of a figure are timed in this run: three rounds,
in each first our programs, then the peers; the fastest of each counts. As JSON, a line is an object with the keys
bench, unit, fxx, peer, peer_value, ratio (fxx / peer: lower is better), versions (of the peer's packages); peer_value and
ratio are null when the peer is not installed, and absent says so. Whole compiled models (compiled/..., build/...) have
more keys and more peers: see compiled.py. Each run leaves its raw figures in a file, which --keep puts among those of the
repository: see results.py.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
from dataclasses import dataclass, field

sys.dont_write_bytecode = True
import compiled as whole_models  # noqa: E402
import results  # noqa: E402

ROUNDS = 3
HERE = pathlib.Path(__file__).resolve().parent
FX = 'torch.fx symbolic_trace'


@dataclass
class Figure:
    """Microseconds a node, or what `unit` says. `fxx` and `same_run` name benchmarks of our programs, what follows a
    minus is taken off; of the program `compile`, figures of compile.py."""
    name: str
    program: str
    fxx: str
    peer: str
    same_run: str = ''   # the peer is another benchmark of the same program ...
    python: str = ''     # ... or a figure of peers/torch_fx.py, of peers/rules.py or fused.py by its start
    unit: str = field(default='us/node')


def figures():
    for model in ('deep10k', 'resnet18', 'encoder'):
        yield Figure(f'trace/{model}/path1', 'trace', f'trace/{model}/path1', FX, python=f'trace/{model}')
        # Both sides with fake tensors: what the model computes is no cost of tracing.
        yield Figure(f'trace/{model}/path2', 'trace', f'trace/{model}/path2', 'make_fx, fake tensors',
                     python=f'make_fx/{model}')
    for path in ('path1', 'path2'):
        # As much new memory on both sides: 10,000 nodes again and again would stay in the cache.
        yield Figure(f'trace/deep1m/{path}', 'trace', f'trace/deep1m/{path}', 'fxx, 100 x 10,000 nodes',
                     same_run=f'trace/hundred/{path}')
        yield Figure(f'trace/deep1m/{path}/memory', 'trace', f'trace/deep1m/{path}/memory', '', unit='B/node')
    # Seven billion parameters: building them and tracing, with fake tensors.
    yield Figure('trace/llama7b', 'trace', 'trace/llama7b', '', unit='s')
    for model in ('deep10k', 'resnet18', 'encoder'):
        yield Figure(f'interpreter/{model}', 'trace', f'interpreter/{model}', 'eager C++ forward',
                     same_run=f'eager/{model}')
    # The interpreter with a function to override per opcode, over what the operators themselves take.
    yield Figure('interpreter/deep10k/hooks', 'trace', 'hooks/deep10k - eager/deep10k', 'torch.fx Interpreter',
                 python='interpreter/deep10k')
    for operation in ('build', 'copy', 'lint', 'print', 'replace_all_uses', 'eliminate_dead_code'):
        yield Figure(f'graph/{operation}', 'graph', f'graph/{operation}', 'torch.fx Graph', python=f'graph/{operation}')
    yield Figure('graph/parse', 'graph', 'graph/parse', 'fxx printing', same_run='graph/print')
    # Calls of a compiled module beside what its kernels take; by two threads at once, what one of them waits.
    for case in ('raw', 'tensors'):
        yield Figure(f'call/{case}', 'call', f'call/{case} - call/kernels', '', unit='us')
        yield Figure(f'call/{case}/2t', 'call', f'call/{case}/2t - call/kernels', '', unit='us')
    # The same of fifty layers, of which each call looks whether their parameters have changed.
    yield Figure('call/tensors/layers', 'call', 'call/layers/tensors - call/layers', '', unit='us')
    yield from rules_figures()


def rules_figures():
    # A hundred rules over 100,000 nodes; beside PyTorch's matchers over 10,000.
    for case in ('no_match', 'foreign'):
        yield Figure(f'rules/{case}', 'rules', f'rules/{case}', 'the same, ten rules',
                     same_run=f'rules/{case}/ten_rules')
    yield Figure('rules/rewrite', 'rules', 'rules/rewrite', '', unit='us/rewrite')
    # The least of some calls, once all code has run; and the first call of a process, on both sides.
    for case, unit in (('no_match', 'us/node'), ('rewrite', 'us/rewrite')):
        for when in ('', '/cold'):
            fxx = f'rules/{case}/10k' if not when else f'rules/{case}/cold'
            yield Figure(f'rules/{case}/inductor{when}', 'rules', fxx, 'PatternMatcherPass',
                         python=f'rules/inductor/{case}{when}', unit=unit)
            yield Figure(f'rules/{case}/torch_fx{when}', 'rules', fxx, 'torch.fx replace_pattern',
                         python=f'rules/fx/{case}{when}', unit=unit)
    # Beside graphs of 10,000 nodes in the cache, none of which the processor has seen before; and beside a hundred that
    # are there together, as much memory as the million.
    for name, million, ten_thousand, hundred, unit in (
            ('rules/million', 'rules/million', 'rules/no_match/10k/once', 'rules/hundred_graphs', 'us/node'),
            ('rules/million/rewrite', 'rules/rewrite/million', 'rules/rewrite/10k/once', 'rules/rewrite/hundred_graphs',
             'us/rewrite')):
        yield Figure(name, 'rules', million, 'fxx, 10,000 nodes', same_run=ten_thousand, unit=unit)
        yield Figure(name + '/hundred', 'rules', million, 'fxx, 100 x 10,000 nodes', same_run=hundred, unit=unit)
    yield Figure('rules/hundred_to_ten', 'rules', 'rules/model/hundred_rules', 'fxx, 10 rules',
                 same_run='rules/model/ten_rules')
    # One call on 65,536 elements; the unit also says what instructions the kernel is made of here.
    yield Figure('rules/fused_64k', 'fused', 'rules/fused_64k', 'AOTInductor', python='rules/fused_64k/aoti', unit='us')
    yield Figure('rules/fused_64k/openvino', 'fused', 'rules/fused_64k', 'OpenVINO', python='rules/fused_64k/openvino',
                 unit='us')
    yield Figure('rules/fused_64k/operators', 'fused', 'rules/fused_64k', 'fxx, not fused',
                 same_run='rules/fused_64k/operators', unit='us')
    for compiler in ('g++', 'clang++'):
        for what, unit in (('rule', 'ms'), ('160', 's'), ('shipped', 's'), ('library', 's')):
            for suffix, unit in (('', unit), ('/memory', 'MB')):
                yield Figure(f'rules/compile/{compiler}/{what}{suffix}', 'compile', f'{compiler}/{what}{suffix}', '',
                             unit=unit)


def parts(expression):
    return [part.strip() for part in expression.split(' - ')]


def run_program(path, names, best, labels):
    """What the benchmarks `names` count a node, mostly microseconds: the least of some turns in random order. What they
    say besides goes into `labels`. One that ends in /cold is the first call of a process of its own."""
    for name in sorted(n for n in names if n.endswith('/cold')):
        case = name.split('/')[-2]
        graph = subprocess.run([path, '--graph', case], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        done = subprocess.run([path, '--cold', 'rewrite' if case == 'rewrite' else 'node'], input=graph.stdout,
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f'bench: {path} failed:\n{done.stderr[-2000:]}')
        best[name] = min(best.get(name, math.inf), float(done.stdout))
    names = {name for name in names if not name.endswith('/cold')}
    if not names:
        return
    pattern = '^(' + '|'.join(sorted(names)) + ')(/(iterations|manual_time|real_time).*)?$'
    done = subprocess.run([path, f'--benchmark_filter={pattern}', '--benchmark_format=json',
                           '--benchmark_min_time=0.05',
                           '--benchmark_repetitions=7', '--benchmark_enable_random_interleaving=true'],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'bench: {path} failed:\n{done.stderr[-2000:]}')
    units = {'ns': 1e-3, 'us': 1.0, 'ms': 1e3, 's': 1e6}
    for entry in json.loads(done.stdout)['benchmarks']:
        if entry.get('error_occurred'):
            sys.exit(f'bench: {entry["name"]}: {entry.get("error_message")}')
        if entry.get('run_type') == 'iteration':
            total = entry.get('bytes', entry['real_time'] * units[entry['time_unit']])
            value = total / entry['nodes']
            name = entry['run_name'].split('/iterations')[0].split('/real_time')[0].removesuffix('/manual_time')
            best[name] = min(best.get(name, value), value)
            labels[name] = entry.get('label', '')


def find_python():
    """A Python that has torch, or None."""
    for python in (HERE.parent / 'build/peers/bin/python', os.environ.get('FXX_PYTHON', ''), 'python3'):
        try:
            if python and subprocess.run([python, '-c', 'import torch.fx'], capture_output=True).returncode == 0:
                return str(python)
        except OSError:
            continue
    return None


def run_script(command, names, best):
    """The figures `names` of a script that prints them as JSON; the least of all turns."""
    done = subprocess.run([*command, *sorted(names)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'bench: {command[1]} failed:\n{done.stderr[-2000:]}')
    for name, value in json.loads(done.stdout).items():
        best[name] = min(best.get(name, value), value)


def run_peers(python, folder, names, best):
    fused = {name for name in names if name.startswith('rules/fused')}
    rules = {name for name in names if name.startswith('rules/')} - fused
    if names - rules - fused:
        run_script([python, HERE / 'peers/torch_fx.py'], names - rules - fused, best)
    if fused:
        run_script([python, HERE / 'peers/fused.py'], fused, best)
    # A process for each matcher and graph, whose first call is cold.
    for start in sorted({name.removesuffix('/cold') for name in rules}):
        run_script([python, HERE / 'peers/rules.py', folder], rules & {start, start + '/cold'}, best)


def nearest(wanted, names):
    """The names that begin as `wanted` does, for as long as any do; of all names their groups."""
    start = wanted
    while not any(name.startswith(start) for name in names):
        start = start[:-1]
    found = [name for name in names if name.startswith(start)]
    return found if start else list(dict.fromkeys(name.split('/')[0] for name in found))


def main(argv):
    parser = argparse.ArgumentParser(prog='bench/run', description='Prints fxx beside its peers, a line a figure.')
    parser.add_argument('folder', help=argparse.SUPPRESS)
    parser.add_argument('--only', default='', metavar='NAME[,NAME]', help='figures, or what their names start with')
    parser.add_argument('--json', action='store_true', help='a JSON object a line')
    parser.add_argument('--keep', action='store_true', help='raw figures go to bench/results instead of build/results')
    options = parser.parse_args(argv[1:])

    chosen = list(figures())
    models = [name for name in whole_models.names() if options.only or not name.startswith('avx2/')]
    if options.only:
        wanted = options.only.split(',')
        if 'compiled' in wanted:  # with what the models took to compile
            wanted.append('build')
        names = [*(f.name for f in chosen), *models]
        unknown = [w for w in wanted if not any(n == w or n.startswith(w + '/') for n in names)]
        if unknown:
            parser.error('; '.join(f'no figure is called {w}; there are: {" ".join(nearest(w, names))}' for w in unknown))
        chosen = [f for f in chosen if any(f.name == w or f.name.startswith(w + '/') for w in wanted)]
        models = [n for n in models if any(n == w or n.startswith(w + '/') for w in wanted)]

    kept = results.Run(options.only, options.keep)
    ours = {}
    for f in chosen:
        ours.setdefault(f.program, set()).update(parts(f.fxx) + ([f.same_run] if f.same_run else []))
    peers = {f.python for f in chosen if f.python}
    python = find_python() if peers else None
    if peers and not python:
        print('note: no Python with torch is installed, so torch.fx is left out; bench/run --setup installs it',
              file=sys.stderr)
    best, peer_best, labels = {}, {}, {}
    if compiled := ours.pop('compile', None):  # has rounds of its own
        run_script([sys.executable, HERE / 'compile.py'], compiled, best)
        if left_out := compiled - best.keys():
            print(f'note: no compiler is installed for {", ".join(sorted(left_out))}', file=sys.stderr)
        chosen = [f for f in chosen if f.program != 'compile' or f.fxx in best]
    for round_ in range(ROUNDS if ours else 0):
        print(f'round {round_ + 1} of {ROUNDS}', file=sys.stderr)
        for program, names in ours.items():
            run_program(pathlib.Path(options.folder) / f'bench_{program}', names, best, labels)
        if python:
            # replace_pattern takes a minute a turn, some thousand times as long as all else.
            turn = {name for name in peers if round_ == 0 or not name.startswith('rules/fx/')}
            run_peers(python, options.folder, turn, peer_best)

    # What the peers are: of Python's the packages, LibTorch of a C++ forward.
    installed = results.versions_of(python, ('torch', 'openvino')) if python else {}
    libtorch = os.environ.get('FXX_TORCH_VERSION', '')

    def versions_of(f):
        if f.python:
            name = 'openvino' if f.python.endswith('openvino') else 'torch'
            return {name: installed[name]} if name in installed else {}
        return {'LibTorch': libtorch} if f.peer == 'eager C++ forward' and libtorch else {}

    absent = {f.peer: 'it is not installed; bench/run --setup installs it' if python else 'no Python with torch is installed'
              for f in chosen if f.python and f.python not in peer_best}
    for f in chosen:
        if f.peer not in absent:
            kept.run['versions'].update(versions_of(f))
    kept.run['absent'].update(absent)
    if not options.json and chosen:
        print('peers: ' + (', '.join(f'{name} {version}' for name, version in kept.run['versions'].items()) or 'none'))
        print('not run: ' + ('; '.join(f'{peer}: {why}' for peer, why in absent.items()) or 'none'))
        print(f'{"figure":34} {"unit":8} {"fxx":>8}   {"peer":24} {"value":>8} {"ratio":>8}')
    for f in chosen:
        first, *rest = (best[name] for name in parts(f.fxx))
        value = first - sum(rest)
        peer = best[f.same_run] if f.same_run else peer_best.get(f.python)
        ratio = None if peer is None else value / peer
        unit = ', '.join(filter(None, (f.unit, labels.get(parts(f.fxx)[0]))))
        line = {'bench': f.name, 'unit': unit, 'fxx': round(value, 4), 'peer': f.peer,
                'peer_value': None if peer is None else round(peer, 4),
                'ratio': None if ratio is None else round(ratio, 4), 'versions': versions_of(f)}
        if f.peer in absent:
            line['absent'] = {f.peer: absent[f.peer]}
        kept.add(line)
        if options.json:
            print(json.dumps(line))
        else:
            print(f'{f.name:34} {unit:8} {value:8.3f}   {f.peer:24} {"-" if peer is None else f"{peer:.3f}":>8} '
                  f'{"-" if ratio is None else f"{ratio:.4f}":>8}')
    right = not models or whole_models.run(models, options.folder, options.json, kept)
    kept.finish()
    if not right:
        sys.exit(1)


if __name__ == '__main__':
    main(sys.argv)
