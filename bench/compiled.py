"""The figures of whole compiled models: runs bench_compiled and the peers in turns, and pairs what they print.

Main names: names(), run(). A row is fxx beside the fastest of all peers whose results are as right as ours have to be;
the others are listed. A row of `fast` or of int8 says in which precision each peer computes, and has the fastest of its
own precision as well; one that has no such peer says so. fxx is called with tensors and gives tensors; in a row that ends
in /raw it is called with places for inputs and results that are made once, beside the peers that are called so. What
peers/compiled.py prepares is kept in build/peers-compiled.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

ROUNDS = 3
NEAR = 1.5  # peers that took this many times as long as the best in the first round take no part in the later ones
# A model that runs has its weights and its workspace, a tenth more at most, and these megabytes for the graph and code.
TIMES_OWN, BESIDE = 1.1, 1
TIMES_EAGER = 5  # the error of a model in float32 beside that of the same model run eagerly
LARGEST_ERROR = {'': 1e-5, 'avx2': 1e-5, 'bf16': 5e-2, 'int8': 0.1}  # relative to the largest value of a result
MODELS = ['resnet18', 'mobilenet', 'unet', 'encoder', 'minilm', 'gpt_decode', 'lstm', 'mlp', 'pointwise_64k',
          'pointwise_64', 'resnet18/b8', 'mlp/b8']
# Of tests/models at their published sizes, the largest last.
ZOO = ['zoo/' + name for name in (
    'resnet50', 'mobilenet_v3_large', 'densenet121', 'unet', 'vit_b_16', 'swin_t', 'mlp_mixer', 'bert', 'gpt2_prefill',
    'gpt2_decode', 't5', 'lstm_tagger', 'gru_tagger', 'transformer_lm', 'translator', 'dcgan', 'gcn', 'gat', 'dlrm',
    'diffusion_unet')]
# Models with rows in reduced precision.
REDUCED = {'bf16': ['resnet18', 'encoder', 'minilm', 'gpt_decode'], 'int8': ['resnet18', 'encoder']}
THREADS = (1, 2)
# What a reduced one is called here; what bench_compiled is told.
ACCURACY = {'': 'standard', 'avx2': 'standard', 'bf16': 'fast', 'int8': 'int8'}
CPP_PEERS = ('aoti', 'aoti_max', 'aoti_bf16', 'aoti_max_bf16', 'aoti_int8', 'torchscript')  # bench_compiled runs them
# Rows as on a processor that has AVX2 and no AVX-512: what fxx compiles for, and the peers that do as these variables
# say. The linear layers of OpenVINO do not, and use AVX-512 all the same; nor would any other peer.
AVX2 = {'march': 'haswell', 'peers': ('openvino', 'torchscript'), 'environment': {
    'ONEDNN_MAX_CPU_ISA': 'AVX2', 'ATEN_CPU_CAPABILITY': 'avx2', 'MKL_ENABLE_INSTRUCTIONS': 'AVX2'}}
# Peers whose inputs and results have their places, as they have in a row of raw calls. The others take and give tensors.
RAW_PEERS = ('onnxruntime', 'onnxruntime_int8', 'onnxruntime_dynamic', 'openvino', 'openvino_torch', 'openvino_default',
             'openvino_bf16', 'openvino_int8', 'openvino_nncf', 'mnn', 'litert', 'litert_int8')
# Peers of reduced precision, and the rows that have them beside those of floats. A peer that chooses its precision by the
# processor says which it took.
REDUCED_PEERS = {'bf16': ('openvino_default', 'openvino_bf16', 'aoti_bf16', 'aoti_max_bf16'),
                 'int8': ('openvino_default', 'openvino_int8', 'openvino_nncf', 'onnxruntime_int8', 'onnxruntime_dynamic',
                          'aoti_int8', 'executorch_int8', 'litert_int8')}
PRECISION = {**{peer: precision for precision, peers in REDUCED_PEERS.items() for peer in peers},
             'openvino_default': 'its own'}

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / 'build'
SCRIPT = HERE / 'peers/compiled.py'
PYTHONS = {peer: BUILD / 'peers-litert/bin/python' for peer in ('litert', 'litert_int8')}  # the others share one
KEPT = BUILD / 'peers-compiled'


@dataclass
class Row:
    name: str
    model: str
    threads: int = 1
    precision: str = ''  # or 'avx2'
    build: bool = False
    raw: bool = False
    fxx: dict = field(default_factory=dict)    # the fastest line of bench_compiled
    peers: dict = field(default_factory=dict)  # peer -> its fastest line, or the one that says why there is none


def rows():
    for precision, models in {'': MODELS + ZOO, **REDUCED}.items():
        for model in models:
            base, batch = re.fullmatch(r'(.*?)(?:/(b\d+))?', model).groups()
            for threads in THREADS:
                name = '/'.join(filter(None, ('compiled', base, f'{threads}t', batch, precision)))
                yield Row(name, model, threads, precision)
                yield Row(name + '/raw', model, threads, precision, raw=True)
    for model in MODELS + ZOO:
        if not model.endswith('/b8'):
            for threads in THREADS:
                yield Row(f'avx2/{model}/{threads}t', model, threads, 'avx2')
    for model in MODELS:
        if '/' not in model:
            yield Row(f'build/{model}', model, build=True)


def names():
    return [row.name for row in rows()]


def say(text):
    print(f'bench: {text}', file=sys.stderr, flush=True)


# --- programs --------------------------------------------------------------------------------------------------------

def environment(threads, precision=''):
    # Nobody's own cache may answer for a compiler that is timed.
    return {**os.environ, **(AVX2['environment'] if precision == 'avx2' else {}), 'OMP_NUM_THREADS': str(threads),
            'CCACHE_DISABLE': '1', 'PYTHONWARNINGS': 'ignore', 'TORCHINDUCTOR_CACHE_DIR': str(KEPT / 'inductor'),
            'FXX_INCLUDE': os.environ.get('FXX_INCLUDE', str(HERE.parent / 'include'))}  # of the kernels


def lines_of(command, threads=1, patience=600, precision=''):
    """The JSON objects that a program prints, and what is to be said when it does not end well."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment(threads, precision), timeout=patience)
        out, why = done.stdout, ''
        if done.returncode < 0:
            why = f'ended by signal {-done.returncode}'
        elif done.returncode:
            why = f'ended with {done.returncode}: {done.stderr.decode(errors="replace").strip()[-300:]}'
    except subprocess.TimeoutExpired as late:
        out, why = late.stdout or b'', f'not done in {patience} s'
    except OSError as error:
        out, why = b'', str(error)
    found = []
    for line in out.decode(errors='replace').splitlines():
        if line.startswith('{'):
            try:
                said = json.loads(line)
            except ValueError:
                continue  # cut off, or another's
            if 'error' in said and not (said['error'] is not None and said['error'] < math.inf):
                said['error'] = math.inf  # nan has several spellings
            found.append(said)
    return found, why


def each(command, models, threads, patience, precision=''):
    """model -> line. A program that dies on a model is started again for those after it. `command` is given models."""
    found, left = {}, list(models)
    while left:
        lines, why = lines_of(command(left), threads, patience * len(left), precision)
        for line in lines:
            if line.get('model') in left:
                found[line['model']] = line
                left.remove(line['model'])
        if left:
            found[left[0]] = {'model': left[0], 'why': why or 'it said nothing'}
            left.pop(0)
    return found


def python_of(peer):
    return PYTHONS.get(peer, BUILD / 'peers/bin/python')


def installed():
    """Peers with their versions; those that are absent with why."""
    present, absent = {}, {}
    for python in dict.fromkeys([python_of(''), *PYTHONS.values()]):
        lines, why = lines_of([python, SCRIPT, 'list']) if python.exists() else ([], f'{python} is not there')
        said = {line['peer']: line for line in lines}
        for peer in PEERS:
            if python_of(peer) != python:
                continue
            line = said.get(peer, {'why': why})
            if 'version' in line:
                present[peer] = line['version']
            else:
                absent[peer] = line['why']
    return present, absent


PEERS = ['export', *CPP_PEERS, 'onnxruntime', 'onnxruntime_int8', 'onnxruntime_dynamic', 'openvino', 'openvino_torch',
         'openvino_default', 'openvino_bf16', 'openvino_int8', 'openvino_nncf', 'ncnn', 'mnn', 'litert', 'litert_int8',
         'executorch', 'executorch_int8', 'iree']


def trace_zoo(program, chosen):
    """Leaves the traces of models of the zoo where peers find them, unless they are newer than the models."""
    newest = max(path.stat().st_mtime for path in (HERE.parent / 'tests/models').iterdir())
    KEPT.mkdir(parents=True, exist_ok=True)
    models = []
    for model in dict.fromkeys(row.model for row in chosen if row.model in ZOO):
        graph = KEPT / f'{model.replace("/", "_")}.graph'
        if not graph.exists() or graph.stat().st_mtime < newest:
            models.append(model)
    if models:
        say('tracing models of the zoo for the peers')
        found = each(lambda left: [program, '--traces', KEPT, '--only', ','.join(left)], models, 1, patience=600)
        for model, line in found.items():
            if 'why' in line:
                say(f'{model}: {line["why"]}')


def prepare(peers, chosen):
    """Why a peer cannot have a model: (peer, model, threads) -> a sentence."""
    failed = {}
    models = list(dict.fromkeys(row.model for row in chosen))
    threads = sorted({row.threads for row in chosen})
    for peer in peers:
        for count in threads if peer in CPP_PEERS else threads[:1]:
            say(f'preparing {peer}, {count}t, where that is not done yet')
            found = each(lambda left: [python_of(peer), SCRIPT, 'prepare', KEPT, peer, count, *left],  # noqa: B023
                         models, count, patience=1800)
            for model, line in found.items():
                for n in [count] if peer in CPP_PEERS else threads:
                    if 'why' in line:
                        failed[peer, model, n] = line['why']
    return failed


# --- rounds ----------------------------------------------------------------------------------------------------------

def keep_fastest(kept, line, failures_count=False):
    """Of two lines with figures the faster, but the larger error; else the one with, or where failures count without.
    The result has the milliseconds of all rounds."""
    line = {**line, 'rounds': [*kept.get('rounds', []), *([line['ms']] if 'ms' in line else [])]}
    if not kept:
        return line
    if 'why' in line or 'why' in kept:
        return {**(line if ('why' in line) == failures_count else kept), 'rounds': line['rounds']}
    worst = max(kept['error'], line['error'])
    return {**min(kept, line, key=lambda l: l['ms']), 'error': worst, 'rounds': line['rounds']}


def takes_part(peer, row, round_):
    if not counts_in(peer, row.precision) or (row.raw and peer not in RAW_PEERS):
        return False
    if round_ == 0:
        return 'why' not in row.peers.get(peer, {})
    mine = row.peers.get(peer, {})
    figures = [line['ms'] for line in row.peers.values() if 'ms' in line and line['error'] <= limit(row)]
    return 'ms' in mine and mine['ms'] <= NEAR * min(figures, default=mine['ms'])


def counts_in(peer, precision):
    """Does a row of this precision have the peer? One of floats has those of floats alone."""
    if precision == 'avx2':
        return peer in AVX2['peers']
    return not any(peer in peers for peers in REDUCED_PEERS.values()) or peer in REDUCED_PEERS.get(precision, ())


def limit(row):
    return LARGEST_ERROR[row.precision]


def time_rows(program, peers, chosen):
    """Fills the rows; returns (threads, march) -> the processor's peak."""
    peak = {}
    groups = sorted({(row.threads, row.precision, row.raw) for row in chosen})
    twins = {(row.model, row.threads, row.precision): row for row in chosen if not row.raw}
    for round_ in range(ROUNDS):
        say(f'round {round_ + 1} of {ROUNDS}')
        for threads, precision, raw in groups:
            group = {row.model: row for row in chosen
                     if (row.threads, row.precision, row.raw) == (threads, precision, raw)}
            march = AVX2['march'] if precision == 'avx2' else 'native'
            lines, _ = lines_of([program, '--peak', '--threads', threads, '--march', march], threads)
            for line in lines:
                if line['peak_gflops'] > peak.get((threads, march), {}).get('peak_gflops', 0):
                    peak[threads, march] = line

            ours = each(lambda left: [program, '--threads', threads, '--march', march, '--accuracy',  # noqa: B023
                                      ACCURACY[precision], '--entry', 'raw' if raw else 'tensors',  # noqa: B023
                                      '--only', ','.join(left)],
                        group, threads, patience=300)
            for model, line in ours.items():
                group[model].fxx = keep_fastest(group[model].fxx, line, failures_count=True)
            for peer in peers:
                models = [model for model, row in group.items() if takes_part(peer, row, round_) and
                          not (raw and (model, threads, precision) in twins)]  # timed for the row with tensors
                if not models:
                    continue
                if peer in CPP_PEERS:
                    def command(left, peer=peer, threads=threads):
                        return [program, '--threads', threads, '--peer', peer, '--folder', KEPT, '--only',
                                ','.join(left)]
                else:
                    def command(left, peer=peer, threads=threads):
                        return [python_of(peer), SCRIPT, 'time', KEPT, peer, threads, *left]
                for model, line in each(command, models, threads, 120, precision).items():
                    row = group[model]
                    row.peers[peer] = keep_fastest(row.peers.get(peer, {}), line)
    for row in chosen:
        twin = twins.get((row.model, row.threads, row.precision))
        if row.raw and twin:
            row.peers = {peer: line for peer, line in twin.peers.items() if peer in RAW_PEERS}
    return peak


def build_rows(program, peers, chosen):
    for row in chosen:
        say(f'building {row.model} with an empty cache')
        with tempfile.TemporaryDirectory() as folder:
            found = each(lambda left: [program, '--build', folder, '--only', ','.join(left)],  # noqa: B023
                         [row.model], 1, patience=900)
        row.fxx = found[row.model]
        if row.fxx.get('cached'):
            row.fxx = {'why': 'an empty cache had it'}
        if 'aoti' in peers:
            found = each(lambda left: [python_of('aoti'), SCRIPT, 'build', 1, *left], [row.model], 1, patience=1800)
            row.peers['aoti'] = found[row.model]


# --- printing --------------------------------------------------------------------------------------------------------

def counted(row):
    """Peer -> its figure, of those whose results are right."""
    return {peer: line['seconds' if row.build else 'ms'] for peer, line in row.peers.items()
            if 'why' not in line and (row.build or line['error'] <= limit(row))}


def precision_of(peer, line):
    """What a peer computes with: f32, bf16 or int8."""
    return line.get('precision') or PRECISION.get(peer, 'f32')


def figure_of(row):
    """fxx's figure; the fastest peer and its own."""
    figures = counted(row)
    best = min(figures, key=figures.get, default='')
    return row.fxx.get('build_s' if row.build else 'ms'), best, figures.get(best)


def best_of_precision(row):
    """The fastest of the peers that compute with what the row is named after; ('', None) where none does."""
    figures = {peer: ms for peer, ms in counted(row).items() if precision_of(peer, row.peers[peer]) == row.precision}
    best = min(figures, key=figures.get, default='')
    return best, figures.get(best)


def is_reduced(row):
    return row.precision in REDUCED


def describe(peer, line, row):
    value = line.get('seconds' if row.build else 'ms')
    if value is None:
        return f'{peer}: {line["why"]}'
    wrong = not row.build and not line['error'] <= limit(row)
    precision = f' in {precision_of(peer, line)}' if is_reduced(row) else ''
    return f'{peer} {value:.4g}{precision}' + (f' (error {line["error"]:.1e}: not counted)' if wrong else '')


def rounded(x):
    return None if x is None or math.isinf(x) else float(f'{x:.5g}')


def line_of(row, peak, present, absent):
    """A row as it is printed with --json and kept in files."""
    value, best, peer_value = figure_of(row)
    machine = peak.get((row.threads, AVX2['march'] if row.precision == 'avx2' else 'native'), {})
    unit = 's' if row.build else ', '.join(filter(None, ('ms', machine.get('instructions'))))
    of_peak = None
    if value and row.fxx.get('flops') and machine:
        of_peak = row.fxx['flops'] / (value * 1e-3) / (machine['peak_gflops'] * 1e9)
    line = {'bench': row.name, 'unit': unit, 'fxx': rounded(value), 'peer': best, 'peer_value': rounded(peer_value),
            'ratio': rounded(value / peer_value if value and peer_value else None)}
    if not row.build:
        line.update(of_peak=rounded(of_peak), peak_gflops=rounded(machine.get('peak_gflops')),
                    **{key: rounded(row.fxx.get(key))
                       for key in ('error', 'eager_error', 'weights_mb', 'workspace_mb', 'memory_mb')},
                    rounds=[rounded(ms) for ms in row.fxx.get('rounds', [])])
    if is_reduced(row):
        same, ms = best_of_precision(row)
        line['precision'] = row.precision
        line['peer_precision'] = precision_of(best, row.peers[best]) if best else None
        line['same_precision'] = {'peer': same, 'value': rounded(ms),
                                  'ratio': rounded(value / ms if value else None)} if same else None
    line['peers'] = {peer: {**{key: rounded(said[key]) if key != 'why' else said[key]
                               for key in ('ms', 'seconds', 'error', 'why') if key in said},
                            **({'precision': precision_of(peer, said), 'rounds': [rounded(ms) for ms in said['rounds']]}
                               if 'ms' in said else {})}
                     for peer, said in row.peers.items()}
    line['versions'] = {peer: present[peer] for peer in row.peers if peer in present}
    if absent:
        line['absent'] = absent
    if 'why' in row.fxx:
        line['why'] = row.fxx['why']
    return line


def print_row(row, line):
    def number(x, form):
        return '-' if x is None else format(x, form)

    shown = (f'{row.name:34} {line["unit"]:10} {number(line["fxx"], "9.4f"):>9}   {line["peer"] or "-":16} '
             f'{number(line["peer_value"], ".4f"):>9} {number(line["ratio"], ".3f"):>7}')
    if not row.build:
        shown += f'  {number(line["of_peak"], ".0%"):>5} of peak, error {number(line["error"], ".1e")}'
    print(shown)
    if is_reduced(row):
        same = line['same_precision']
        if not same:
            print(f'    NO PEER IN {row.precision}: the ratio is to one in {line["peer_precision"] or "none"}')
        elif line['peer_precision'] != row.precision:
            print(f'    the peer computes in {line["peer_precision"]}; in {row.precision} the best is {same["peer"]} '
                  f'{same["value"]:.4g}, {number(same["ratio"], ".3f")}')
    if 'why' in row.fxx:
        print(f'    fxx: {row.fxx["why"]}')
    others = [describe(peer, said, row) for peer, said in row.peers.items() if peer != line['peer']]
    if others:
        print('    ' + '; '.join(others), flush=True)


def problems_of(row):
    """What makes the run fail."""
    if 'why' in row.fxx:
        yield f'{row.name}: {row.fxx["why"]}'
    if row.build:
        return
    if 'error' in row.fxx and not row.fxx['error'] <= limit(row):
        yield f'{row.name}: the results have an error of {row.fxx["error"]:.1e}; at most {limit(row):.0e} is right'
    # What is promised of float32; errors of so few units are chance.
    most = max(TIMES_EAGER * row.fxx.get('eager_error', math.inf), 1e-6)
    if row.precision in ('', 'avx2') and row.fxx.get('error', 0) > most:
        yield (f'{row.name}: the error of {row.fxx["error"]:.1e} is more than {TIMES_EAGER} times that of eager, '
               f'{row.fxx["eager_error"]:.1e}')
    own = row.fxx.get('weights_mb', 0) + row.fxx.get('workspace_mb', 0)
    if row.fxx.get('memory_mb', 0) > TIMES_OWN * own + BESIDE:
        yield f'{row.name}: while it runs it has {row.fxx["memory_mb"]:.4g} MB; weights and workspace are {own:.4g} MB'
    ours = row.fxx.get('reference')
    for peer, line in row.peers.items():
        if peer in CPP_PEERS and line.get('error', 0) > 0.5:
            yield f'{row.name}: {peer} was given another model than fxx: its error is {line["error"]:.1e}'
        theirs = line.get('reference')
        if ours and theirs and not (len(ours) == len(theirs) and
                                    all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(ours, theirs))):
            yield f'{row.name}: {peer} was given another model than fxx: {theirs}, not {ours}'


def run(wanted, folder, as_json, kept):
    """Times the rows of these names, prints them, adds them to `kept` (results.Run), and tells whether all is right."""
    chosen = [row for row in rows() if row.name in wanted]
    program = pathlib.Path(folder) / 'bench_compiled'
    present, absent = installed()
    for peer, version in present.items():
        say(f'peer {peer}: {version}')
    for peer, why in absent.items():
        say(f'PEER ABSENT: {peer}: {why}; bench/run --setup installs it')
    timed = [row for row in chosen if not row.build]
    peers = [peer for peer in PEERS if peer in present and peer != 'export']
    if 'export' not in present:
        absent.update({peer: f'models cannot be exported: {absent["export"]}' for peer in peers})
        peers = []
    precisions = {row.precision for row in chosen}

    def is_wanted(peer):
        return any(counts_in(peer, precision) for precision in precisions)
    peers = [peer for peer in peers if is_wanted(peer)]
    absent = {peer: why for peer, why in absent.items() if is_wanted(peer)}
    absent.pop('export', None)
    if timed and peers:
        trace_zoo(program, timed)
        without = {}
        for peer in ['export', *peers]:
            without.update(prepare([peer], [row for row in timed if counts_in(peer, row.precision)]))
        for (peer, model, threads), why in without.items():
            for row in timed:
                if (row.model, row.threads) == (model, threads):
                    for name in peers if peer == 'export' else [peer]:
                        row.peers[name] = {'why': why}
    peak = time_rows(program, peers, timed) if timed else {}
    build_rows(program, peers, [row for row in chosen if row.build])
    run_now = {peer: present[peer] for peer in peers}
    kept.run['versions'].update(run_now)
    kept.run['absent'].update(absent)
    if not as_json:
        print('peers: ' + ('; '.join(f'{peer}: {version}' for peer, version in run_now.items()) or 'none'))
        print('not run: ' + ('; '.join(f'{peer}: {why}' for peer, why in absent.items()) or 'none'))
    for row in chosen:
        line = line_of(row, peak, present, absent)
        kept.add(line)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print_row(row, line)
    problems = [problem for row in chosen for problem in problems_of(row)]
    for problem in problems:
        say('FAILED: ' + problem)
    return not problems
