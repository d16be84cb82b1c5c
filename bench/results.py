#!/usr/bin/env python3
"""Raw figures of runs of the benchmarks: where they are kept, what a file says, and the tables that are made of one.

usage: results.py table FILE        prints the tables of a run, as docs/performance.md shows them
       results.py check [FILE...]   says what is wrong with files, all of bench/results without names; exit status 1 then
Main names: Run, tables(), problems_of(). bench/results/README.md says what is in a file. Every run leaves one in
build/results; with `bench/run --keep` it is in bench/results, where the repository keeps it.
"""

import datetime
import json
import math
import os
import pathlib
import platform
import re
import subprocess
import sys

SCHEMA = 1
ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / 'bench/results'
BY_THE_WAY = ROOT / 'build/results'
# What each kind of object has; more may stand beside it.
KEYS = {'run': ('suite', 'command', 'date', 'finished', 'processor', 'commit', 'changed', 'compiler', 'load', 'versions',
                'absent'),
        'processor': ('name', 'family', 'model', 'cores', 'instructions'),
        'figure': ('bench', 'unit', 'fxx', 'peer', 'peer_value', 'ratio')}
INSTRUCTIONS = ('avx2', 'fma', 'avx_vnni', 'avx512f', 'avx512_bf16', 'avx512_vnni', 'amx_bf16', 'amx_int8', 'asimd')


# --- what is known of the machine and of the peers ------------------------------------------------------------------

def processor():
    """What /proc/cpuinfo says of the processor."""
    said = {}
    try:
        for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
            key, _, value = line.partition(':')
            said.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    flags = set(said.get('flags', said.get('Features', '')).split())
    return {'name': said.get('model name', platform.machine()), 'family': said.get('cpu family', ''),
            'model': said.get('model', ''), 'cores': len(os.sched_getaffinity(0)),
            'instructions': [name for name in INSTRUCTIONS if name in flags]}


def folder_of(machine):
    """The name of a processor's folder: amd-epyc-family25-model17."""
    name = re.sub(r'\W+', '-', re.sub(r'\((R|TM)\)|@.*', '', machine['name']).lower()).strip('-')
    return '-'.join(filter(None, (name, machine['family'] and f'family{machine["family"]}',
                                  machine['model'] and f'model{machine["model"]}')))


def said_by(*command):
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=ROOT)
    except OSError:
        return ''
    return done.stdout.strip() if done.returncode == 0 else ''


def versions_of(python, packages):
    """Package -> version of those that are installed for a Python."""
    script = ('import importlib.metadata as m, json, sys\nfound = {}\nfor name in sys.argv[1:]:\n'
              '    try: found[name] = m.version(name)\n    except m.PackageNotFoundError: pass\nprint(json.dumps(found))')
    return json.loads(said_by(python, '-c', script, *packages) or '{}')


def suite_of(only):
    """The suite's name in a file's name: what was asked for, cut off where it is long."""
    return re.sub(r'[^\w+]+', '_', only.replace(',', '+')).strip('_')[:60] or 'all'


# --- files -----------------------------------------------------------------------------------------------------------

class Run:
    """A run of the benchmarks, whose file is written anew after each figure."""

    def __init__(self, only, keep, versions=None, absent=None):
        machine = processor()
        self.run = {'suite': suite_of(only), 'command': 'bench/run' + (f' --only {only}' if only else ''), 'date': now(),
                    'finished': False, 'processor': machine, 'commit': said_by('git', 'rev-parse', 'HEAD'),
                    'changed': bool(said_by('git', 'status', '--porcelain', '--', 'include', 'bench', 'meson.build',
                                            ':!bench/results')),
                    'compiler': (said_by(*(os.environ.get('CXX') or 'g++').split(), '--version').splitlines() or [''])[0],
                    'load': [load()], 'versions': versions or {}, 'absent': absent or {}}
        self.figures = []
        folder = (KEPT if keep else BY_THE_WAY) / folder_of(machine)
        stem, number = f'{self.run["suite"]}-{self.run["date"][:10]}', 1
        while (path := folder / f'{stem}{f"-{number}" if number > 1 else ""}.json').exists():
            number += 1
        self.path = path

    def add(self, figure):
        self.figures.append(figure)
        self.write()

    def finish(self):
        """Says on the error stream where the file is. Without it the file says that the run did not end."""
        self.run['finished'] = True
        self.run['load'].append(load())
        self.write()
        print(f'bench: raw figures are in {self.path.relative_to(ROOT)}', file=sys.stderr)

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        figures = ',\n'.join(json.dumps(figure) for figure in self.figures)
        text = f'{{"schema": {SCHEMA},\n"run": {json.dumps(self.run)},\n"figures": [\n{figures}\n]}}\n'
        aside = self.path.with_suffix('.new')
        aside.write_text(text)
        aside.replace(self.path)


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def load():
    """How many programs ran or waited in the last minute: above one where something else was running."""
    return round(os.getloadavg()[0], 2)


def problems_of(path):
    """What is not as bench/results/README.md says."""
    try:
        said = json.loads(pathlib.Path(path).read_text())
    except (OSError, ValueError) as error:
        yield f'it cannot be read: {error}'
        return
    if not isinstance(said, dict) or said.get('schema') != SCHEMA:
        yield f'its schema is not {SCHEMA}'
        return
    run, figures = said.get('run', {}), said.get('figures', [])
    for kind, found in [('run', run), ('processor', run.get('processor', {})), *(('figure', f) for f in figures)]:
        if missing := [key for key in KEYS[kind] if key not in found]:
            yield f'the {kind} {found.get("bench", "")} lacks {", ".join(missing)}'
    if not figures:
        yield 'it has no figures'
    if not run.get('finished'):
        yield 'the run did not end'
    if run.get('processor') and pathlib.Path(path).parent.name != folder_of(run['processor']):
        yield f'it belongs into the folder {folder_of(run["processor"])}'


# --- tables ----------------------------------------------------------------------------------------------------------

def number(x):
    """Three digits, as tables show times and ratios."""
    if x is None or not math.isfinite(x):
        return '-'
    if x == 0:
        return '0'
    digits = 2 - math.floor(math.log10(abs(x)))
    return f'{x:.2e}' if digits > 6 else f'{x:.{max(digits, 0)}f}'


def ratio(x):
    return '-' if x is None else f'{x:.2f}'


def compiled_tables(figures):
    """Rows of models: one and two threads beside each other, a table for each precision and way to call."""
    groups = {}
    for figure in figures:
        parts = figure['bench'].split('/')
        raw = parts[-1] == 'raw'
        parts = parts[:-1] if raw else parts
        threads = next((p for p in parts if re.fullmatch(r'\dt', p)), '')
        precision = next((p for p in parts[1:] if p in ('bf16', 'int8')), '')
        kind = 'avx2' if parts[0] == 'avx2' else precision
        model = '/'.join(p for p in parts[1:] if p not in (threads, precision))
        groups.setdefault((kind, raw), {}).setdefault(model, {})[threads] = figure
    titles = {'': '', 'avx2': ', for AVX2 alone', 'bf16': ', `fast`', 'int8': ', int8'}
    for (kind, raw), models in groups.items():
        counts = sorted({threads for of_model in models.values() for threads in of_model})
        heads = [f'model{titles[kind]}{", raw calls" if raw else ""}']
        for threads in counts:
            heads += [f'fxx, {threads}', 'best peer', 'ratio', 'of peak', 'error']
            if kind in ('bf16', 'int8'):
                heads += [f'best of {kind}', 'ratio']
        lines = ['| ' + ' | '.join(heads) + ' |', '|' + '---|' * len(heads)]
        for model, of_model in models.items():
            cells = [model]
            for threads in counts:
                f = of_model.get(threads, {})
                of_peak, error = f.get('of_peak'), f.get('error')
                precision = f.get('peer_precision')
                marked = f' ({precision})' if precision and kind in ('bf16', 'int8') else ''
                cells += [number(f.get('fxx')), f'{f.get("peer") or "-"}{marked} {number(f.get("peer_value"))}',
                          ratio(f.get('ratio')), '-' if of_peak is None else f'{of_peak:.0%}',
                          '-' if error is None else f'{error:.0e}']
                if kind in ('bf16', 'int8'):
                    same = f.get('same_precision') or {}
                    cells += [f'{same.get("peer") or "none took part"} {number(same.get("value"))}',
                              ratio(same.get('ratio'))]
            lines.append('| ' + ' | '.join(cells) + ' |')
        yield lines


def build_table(figures):
    lines = ['| built, s | fxx | peer | ratio |', '|---|---|---|---|']
    for f in figures:
        lines.append(f'| {f["bench"].split("/", 1)[1]} | {number(f["fxx"])} | {f["peer"] or "-"} '
                     f'{number(f["peer_value"])} | {ratio(f["ratio"])} |')
    yield lines


def shapes_table(figures):
    kinds = {}
    for f in figures:
        kinds.setdefault(f['kind'], []).append(f)
    lines = ['| layers | shapes | geometric mean of the ratios | above 1.1 | without fxx or a peer |', '|---|---|---|---|---|']
    for kind, of_kind in [*kinds.items(), ('all', figures)]:
        values = [f['ratio'] for f in of_kind if f['ratio'] is not None]
        mean = math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan
        lines.append(f'| {kind} | {len(of_kind)} | {number(mean)} | {sum(v > 1.1 for v in values)} | '
                     f'{len(of_kind) - len(values)} |')
    yield lines


def other_table(figures):
    lines = [f'{"figure":34} {"unit":10} {"fxx":>8}   {"peer":26} {"value":>9} {"ratio":>8}']
    for f in figures:
        value, of = f['peer_value'], f['ratio']
        lines.append(f'{f["bench"]:34} {f["unit"]:10} {f["fxx"]:8.3f}   {f["peer"]:26} '
                     f'{"-" if value is None else f"{value:.3f}":>9} {"-" if of is None else f"{of:.4f}":>8}')
    yield ['```', *lines, '```']


def tables(path):
    """The tables of a run, each a list of lines."""
    figures = json.loads(pathlib.Path(path).read_text())['figures']
    kinds = {}
    for figure in figures:
        start = figure['bench'].split('/')[0]
        kinds.setdefault(start if start in ('compiled', 'avx2', 'build', 'shapes') else '', []).append(figure)
    makers = {'compiled': compiled_tables, 'avx2': compiled_tables, 'build': build_table, 'shapes': shapes_table,
              '': other_table}
    return [table for kind, of_kind in kinds.items() for table in makers[kind](of_kind)]


def peers_line(run):
    """Which peers took part, in which versions, and which did not: a sentence for below a table."""
    present = '; '.join(f'{peer}: {version}' for peer, version in run['versions'].items()) or 'none'
    absent = '; '.join(f'{peer} ({why})' for peer, why in run['absent'].items()) or 'none'
    return f'Peers: {present}. Not run: {absent}.'


def main(argv):
    command, *files = argv[1:] or ['']
    if command == 'table' and len(files) == 1:
        run = json.loads(pathlib.Path(files[0]).read_text())['run']
        for table in tables(files[0]):
            print(*table, '', sep='\n')
        path = pathlib.Path(os.path.relpath(pathlib.Path(files[0]).resolve(), ROOT / 'docs')).as_posix()
        print(f'Raw figures: [{run["suite"]}, {run["date"][:10]}]({path}). {peers_line(run)}')
    elif command == 'check':
        problems = [f'{path}: {problem}' for path in files or sorted(KEPT.rglob('*.json')) for problem in problems_of(path)]
        print(*problems, sep='\n', end='\n' if problems else '')
        return 1 if problems else 0
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    sys.exit(main(sys.argv))
