#!/usr/bin/env python3
"""Checks the scripts of the benchmarks on figures that are made up: what rows say of their peers, and what files keep.

usage: benchmarks.py SOURCE_FOLDER       prints `N passed, N failed`
Nothing is timed, no peer is needed: bench/peers is read as text.
"""

import ast
import contextlib
import io
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / 'bench'))
import compiled  # noqa: E402
import results  # noqa: E402


def scripts():
    """All scripts are Python that this version reads."""
    for path in sorted((root / 'bench').rglob('*.py')):
        try:
            ast.parse(path.read_text())
        except SyntaxError as error:
            yield f'{path}: {error}'


def peers():
    """Both sides name the same peers, and each list names only such."""
    source = ast.parse((root / 'bench/peers/compiled.py').read_text())
    made = next(node.value for node in source.body
                if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == 'PEERS')
    there = {key.value for key in made.keys}
    if there != set(compiled.PEERS):
        yield f'bench/compiled.py and bench/peers/compiled.py differ in {there ^ set(compiled.PEERS)}'
    for name in ('CPP_PEERS', 'RAW_PEERS', 'PRECISION', 'PYTHONS'):
        if unknown := set(getattr(compiled, name)) - set(compiled.PEERS):
            yield f'{name} names {unknown}'
    for precision in compiled.REDUCED:
        if not compiled.REDUCED_PEERS.get(precision):
            yield f'rows of {precision} have no peer of their precision'


def row_of(precision, peers):
    row = compiled.Row(f'compiled/net/1t/{precision}', 'net', 1, precision)
    row.fxx = {'ms': 2.0, 'error': 1e-3, 'eager_error': 1e-7, 'rounds': [2.5, 2.0]}
    row.peers = {peer: line if 'why' in line else {'error': 1e-3, 'rounds': [line['ms']], **line}
                 for peer, line in peers.items()}
    return row


def printed(row):
    line = compiled.line_of(row, {}, {peer: f'{peer} 1.0' for peer in row.peers}, {'iree': 'it is not installed'})
    with contextlib.redirect_stdout(io.StringIO()) as out:
        compiled.print_row(row, line)
    return line, out.getvalue()


def precisions():
    """A row whose peer computes in another precision says so, and has the best of its own."""
    both = {'onnxruntime': {'ms': 4.0, 'error': 1e-7}, 'openvino_bf16': {'ms': 5.0}}
    line, text = printed(row_of('bf16', both))
    if (line['peer'], line['peer_precision']) != ('onnxruntime', 'f32'):
        yield f'the fastest peer is {line["peer"]} in {line["peer_precision"]}'
    if line['same_precision'] != {'peer': 'openvino_bf16', 'value': 5.0, 'ratio': 0.4}:
        yield f'the best of its precision is {line["same_precision"]}'
    if 'computes in f32; in bf16 the best is openvino_bf16 5, 0.400' not in text:
        yield f'the printed row is {text}'
    if line['versions'] != {peer: f'{peer} 1.0' for peer in both} or line['absent'] != {'iree': 'it is not installed'}:
        yield f'versions are {line["versions"]}, absent is {line.get("absent")}'
    # A peer that took another precision than its name says counts as what it took; a wrong one does not count.
    for peer in ({'openvino_bf16': {'ms': 3.0, 'precision': 'f32'}}, {'openvino_bf16': {'ms': 3.0, 'error': 0.2}},
                 {'openvino_bf16': {'why': 'this processor has none'}}):
        line, text = printed(row_of('bf16', {'onnxruntime': {'ms': 4.0, 'error': 1e-7}, **peer}))
        if line['same_precision'] is not None or 'NO PEER IN bf16: the ratio is to one in f32' not in text:
            yield f'with {peer} the row is {line} and {text}'
    line, text = printed(row_of('int8', {'openvino_int8': {'ms': 1.0}, 'aoti': {'ms': 4.0, 'error': 1e-7}}))
    if line['peer_precision'] != 'int8' or 'NO PEER' in text or 'computes in' in text:
        yield f'a row beside a peer of its own precision is {line} and {text}'
    line, text = printed(row_of('', {'aoti': {'ms': 4.0, 'error': 1e-7}}))
    if 'same_precision' in line:
        yield 'a row of floats speaks of precisions'


def rounds():
    """The fastest round counts, the largest error, and all rounds are kept."""
    kept = {}
    for ms, error in ((3.0, 1e-7), (2.0, 2e-7), (4.0, 1e-7)):
        kept = compiled.keep_fastest(kept, {'ms': ms, 'error': error})
    if (kept['ms'], kept['error'], kept['rounds']) != (2.0, 2e-7, [3.0, 2.0, 4.0]):
        yield f'what is kept is {kept}'
    if 'why' not in compiled.keep_fastest(kept, {'why': 'it crashed'}, failures_count=True):
        yield 'a failure of ours does not count'
    if 'why' in compiled.keep_fastest(kept, {'why': 'it crashed'}):
        yield 'a failure of a peer counts'


def files():
    """A run's file is as bench/results/README.md says, and gives its tables."""
    with tempfile.TemporaryDirectory() as folder:
        results.ROOT = results.KEPT = pathlib.Path(folder)
        paths = []
        for _ in range(2):
            kept = results.Run('compiled,rules/no_match', True, {'openvino': 'openvino 1.0'}, {'iree': 'not there'})
            for precision in ('', 'bf16'):
                kept.add(printed(row_of(precision, {'openvino': {'ms': 4.0}, 'openvino_bf16': {'ms': 5.0}}))[0])
            kept.add({'bench': 'build/net', 'unit': 's', 'fxx': 1.0, 'peer': '', 'peer_value': None, 'ratio': None})
            for number, value in enumerate((0.5, 2.0, None)):
                kept.add({'bench': f'shapes/{number}', 'kind': 'product', 'unit': 'us', 'fxx': 1.0, 'peer': 'x',
                          'peer_value': 1.0, 'ratio': value})
            kept.add({'bench': 'graph/lint', 'unit': 'us/node', 'fxx': 0.2, 'peer': 'torch.fx Graph', 'peer_value': 1.0,
                      'ratio': 0.2})
            if 'the run did not end' not in list(results.problems_of(kept.path)):
                yield 'a run that did not end is taken'
            with contextlib.redirect_stderr(io.StringIO()):
                kept.finish()
            yield from results.problems_of(kept.path)
            paths.append(kept.path)
        if paths[0] == paths[1]:
            yield f'two runs of a day have one file, {paths[0]}'
        text = '\n'.join(line for table in results.tables(paths[0]) for line in table)
        for row in ('| net | 2.00 | openvino (f32) 4.00 | 0.50 | - | 1e-03 | openvino_bf16 5.00 | 0.40 |',
                    '| net | 1.00 | - - | - |', '| product | 3 | 1.00 | 1 | 1 |', 'graph/lint'):
            if row not in text:
                yield f'the tables do not have "{row}":\n{text}'
        said = json.loads(paths[0].read_text())
        del said['run']['versions']
        paths[0].write_text(json.dumps(said))
        if not any('versions' in problem for problem in results.problems_of(paths[0])):
            yield 'a file without versions is taken'


def main():
    passed = failed = 0
    for check in (scripts, peers, precisions, rounds, files):
        problems = list(check())
        for problem in problems:
            print(f'FAILED {check.__name__}: {problem}')
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
