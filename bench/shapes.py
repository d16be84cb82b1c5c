"""Layers in drawn shapes beside LibTorch's operators (oneDNN), OpenVINO and XNNPACK: a line a shape, then the worst, then
geometric means.

usage: shapes.py BENCH_SHAPES [--count N] [--turns N] [--json yes] [--keep yes]

bench_shapes runs fxx, LibTorch and OpenVINO; XNNPACK is run here, by LiteRT, while that waits. All take turns, and a
figure is the least of a side's turns. Peers come from build/peers and build/peers-litert (bench/run --setup); those that
are absent are named. A result whose error is above 1e-5 of the largest does not count. LiteRT's inputs and results have
their places, the other sides take a tensor and give one. With --json a line is an object: what it has is said in
bench/results/README.md. Each run leaves these lines in a file, which --keep puts among those of the repository.
"""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import results  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / 'build'
LARGEST_ERROR = 1e-5
GOAL = 1.1  # of the best peer


def python_of(environment):
    return BUILD / environment / 'bin/python'


# --- OpenVINO's models, made by its own Python ----------------------------------------------------------------------

MAKE_OPENVINO = '''
import json, pathlib, sys
import numpy, openvino
from openvino import opset13 as ops
folder = pathlib.Path(sys.argv[1])
print(next((pathlib.Path(openvino.__file__).parent / 'libs').glob('libopenvino_c.so*')))
def constant(path, shape):
    return ops.constant(numpy.fromfile(path, numpy.float32).reshape(shape))
for line in (folder / 'shapes').read_text().splitlines():
    s = json.loads(line)
    stem, two = folder / str(s['shape']), s['kind'] == 'conv2d'
    shape = s['input']
    if two:
        shape = [shape[0], shape[2], shape[3], shape[1]]
    x = ops.parameter(shape, numpy.float32)
    y = x
    if s['kind'] == 'reduction':
        reduce = {'amax': ops.reduce_max, 'sum': ops.reduce_sum, 'mean': ops.reduce_mean}[s['function']]
        y = reduce(y, numpy.array(s['dims']), False)
    elif s['kind'] == 'product':
        w = constant(f'{stem}.weight', s['weight'])
        y = ops.add(ops.matmul(y, w, False, True), constant(f'{stem}.bias', [1, s['weight'][0]]))
    else:
        n, g = len(s['weight']) - 2, s['groups']
        sizes = s['weight'] if g == 1 else [g, s['weight'][0] // g, *s['weight'][1:]]
        convolution = ops.convolution if g == 1 else ops.group_convolution
        if two:
            y = ops.transpose(y, numpy.array([0, 3, 1, 2]))
        padding = [s['padding']] * n
        y = convolution(y, constant(f'{stem}.weight', sizes), [s['stride']] * n, padding, padding, [s['dilation']] * n)
        y = ops.add(y, constant(f'{stem}.bias', [1, s['weight'][0]] + [1] * n))
        if two:
            y = ops.transpose(y, numpy.array([0, 2, 3, 1]))
    openvino.save_model(openvino.Model([y], [x]), f'{stem}.xml', compress_to_fp16=False)
'''

# --- LiteRT's models, and their turns -------------------------------------------------------------------------------

RUN_LITERT = '''
import json, pathlib, sys, time
import flatbuffers, numpy
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter
folder = pathlib.Path(sys.argv[1])
shapes = [json.loads(line) for line in (folder / 'shapes').read_text().splitlines()]

class Model:
    """One graph, written as LiteRT's files have it."""
    def __init__(self):
        self.model, self.graph = s.ModelT(), s.SubGraphT()
        self.model.version, self.model.description = 3, 'layer'
        self.model.subgraphs, self.model.buffers, self.model.operatorCodes = [self.graph], [s.BufferT()], []
        self.graph.tensors, self.graph.operators = [], []
    def tensor(self, shape, data=None):
        t = s.TensorT()
        t.shape, t.name, t.buffer = [int(n) for n in shape], f't{len(self.graph.tensors)}', 0
        t.type = s.TensorType.FLOAT32
        if data is not None:
            if data.dtype == numpy.int32:
                t.type = s.TensorType.INT32
            t.buffer = len(self.model.buffers)
            self.model.buffers.append(s.BufferT())
            self.model.buffers[-1].data = numpy.frombuffer(numpy.ascontiguousarray(data).tobytes(), numpy.uint8)
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1
    def call(self, name, inputs, shape, options=None, kind=None):
        code = s.OperatorCodeT()
        code.builtinCode = getattr(s.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = 1
        self.model.operatorCodes.append(code)
        op = s.OperatorT()
        op.opcodeIndex = len(self.model.operatorCodes) - 1
        op.inputs, op.outputs = inputs, [self.tensor(shape)]
        if options is not None:
            op.builtinOptionsType, op.builtinOptions = getattr(s.BuiltinOptions, kind), options
        self.graph.operators.append(op)
        return op.outputs[0]
    def bytes(self, given, result):
        self.graph.inputs, self.graph.outputs = [given], [result]
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(self.model.Pack(builder), b'TFL3')
        return bytes(builder.Output())

def array(path, shape):
    return numpy.fromfile(path, numpy.float32).reshape(shape)

def turned(m, x, shape, order):
    shape = [shape[d] for d in order]
    return m.call('TRANSPOSE', [x, m.tensor([len(order)], numpy.array(order, numpy.int32))], shape, s.TransposeOptionsT(), 'TransposeOptions'), shape

def made(c):
    m, stem = Model(), folder / str(c['shape'])
    if c['kind'] == 'reduction':
        x = m.tensor(c['input'])
        name = {'amax': 'REDUCE_MAX', 'sum': 'SUM', 'mean': 'MEAN'}[c['function']]
        dims = m.tensor([len(c['dims'])], numpy.array(c['dims'], numpy.int32))
        return m.bytes(x, m.call(name, [x, dims], c['output'], s.ReducerOptionsT(), 'ReducerOptions'))
    w, bias = array(f'{stem}.weight', c['weight']), array(f'{stem}.bias', c['weight'][:1])
    if c['kind'] == 'product':
        x = m.tensor(c['input'])
        inputs = [x, m.tensor(w.shape, w), m.tensor(bias.shape, bias)]
        return m.bytes(x, m.call('FULLY_CONNECTED', inputs, c['output'], s.FullyConnectedOptionsT(), 'FullyConnectedOptions'))
    one = c['kind'] == 'conv1d'
    n, channels, *size = c['input']
    if one:
        given = m.tensor(c['input'])
        x, shape = turned(m, given, c['input'], [0, 2, 1])
        rows = m.tensor([4], numpy.array([n, 1, size[0], channels], numpy.int32))
        shape = [n, 1, size[0], channels]
        x = m.call('RESHAPE', [x, rows], shape, s.ReshapeOptionsT(), 'ReshapeOptions')
        w = w[:, :, None, :]
    else:
        shape = [n, *size, channels]
        given = x = m.tensor(shape)
    p, d, stride = c['padding'], c['dilation'], c['stride']
    if p:
        pads = numpy.array([[0, 0], [0, 0] if one else [p, p], [p, p], [0, 0]], numpy.int32)
        shape = [a + int(b.sum()) for a, b in zip(shape, pads)]
        x = m.call('PAD', [x, m.tensor([4, 2], pads)], shape, s.PadOptionsT(), 'PadOptions')
    result = c['output']
    result = [result[0], 1, result[2], result[1]] if one else [result[0], result[2], result[3], result[1]]
    depthwise = c['groups'] > 1 and w.shape[1] == 1
    options = s.DepthwiseConv2DOptionsT() if depthwise else s.Conv2DOptionsT()
    options.padding = s.Padding.VALID
    options.strideW, options.strideH = stride, 1 if one else stride
    options.dilationWFactor, options.dilationHFactor = d, 1 if one else d
    if depthwise:
        options.depthMultiplier = 1
        w = w.transpose(1, 2, 3, 0)
    else:
        w = w.transpose(0, 2, 3, 1)
    w = numpy.ascontiguousarray(w)
    inputs = [x, m.tensor(w.shape, w), m.tensor(bias.shape, bias)]
    y = m.call('DEPTHWISE_CONV_2D' if depthwise else 'CONV_2D', inputs, result, options,
               'DepthwiseConv2DOptions' if depthwise else 'Conv2DOptions')
    if one:
        flat = [result[0], result[2], result[3]]
        y = m.call('RESHAPE', [y, m.tensor([3], numpy.array(flat, numpy.int32))], flat, s.ReshapeOptionsT(), 'ReshapeOptions')
        y, _ = turned(m, y, flat, [0, 2, 1])
    return m.bytes(given, y)

def microseconds(call):
    clock = time.perf_counter
    def turn(calls):
        start = clock()
        for _ in calls:
            call()
        return (clock() - start) * 1e6
    least = turn((0,))
    n = 1 if least > 20 else int(20 / max(least, 0.1)) + 1
    calls, all_, i = (0,) * n, 0, 0
    while i < 5 or (all_ < 10000 and i < 2000):
        took = turn(calls)
        all_ += took
        least = min(least, took / n)
        i += 1
    return least

number, call = -1, None
for line in sys.stdin:
    try:
        if int(line) != number:
            number = int(line)
            net = Interpreter(model_content=made(shapes[number]), num_threads=1)
            net.allocate_tensors()
            where = net.get_input_details()[0]
            net.set_tensor(where['index'], array(folder / 'input', where['shape']))
            call = getattr(getattr(net, '_interpreter', None), 'Invoke', net.invoke)
            call()
            result = net.get_tensor(net.get_output_details()[0]['index'])
            exact = array(folder / 'exact', result.shape)
            error = float(numpy.abs(result - exact).max() / numpy.abs(exact).max())
        print(json.dumps({'us': microseconds(call), 'error': error}), flush=True)
    except Exception as error:
        call, number = None, -1
        print(json.dumps({'why': str(error)[:200]}), flush=True)
'''


def say(text):
    print(f'bench: {text}', file=sys.stderr, flush=True)


class Program:
    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def turn(self, number):
        if self.process.poll() is not None:
            return {'why': f'ended with {self.process.returncode}'}
        try:
            self.process.stdin.write(f'{number}\n')
            self.process.stdin.flush()
        except BrokenPipeError:
            return {'why': f'ended with {self.process.wait()}'}
        while line := self.process.stdout.readline():
            if line.startswith('{'):
                return json.loads(line)
        return {'why': f'ended with {self.process.wait()}'}


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def rounded(x):
    return float(f'{x:.5g}') if math.isfinite(x) else None


def main():
    program, options = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2]))
    as_json = '--json' in options
    turns, count = int(options.get('--turns', 5)), options.get('--count', '200')
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        listed = subprocess.run([program, '--list', name, '--count', count], check=True, capture_output=True, text=True)
        (folder / 'shapes').write_text(listed.stdout)
        shapes = [json.loads(line) for line in listed.stdout.splitlines()]

        absent, serve = {}, [program, '--serve', name, '--count', count]
        made = subprocess.run([str(python_of('peers')), '-c', MAKE_OPENVINO, name], capture_output=True, text=True) \
            if python_of('peers').exists() else None
        if made is not None and made.returncode == 0:
            serve += ['--openvino', made.stdout.splitlines()[0]]
        else:
            absent['OpenVINO'] = made.stderr.strip()[-200:] if made else f'{python_of("peers")} is not there'
        litert = None
        if python_of('peers-litert').exists():
            litert = Program(python_of('peers-litert'), '-c', RUN_LITERT, name)
        else:
            absent['XNNPACK (LiteRT)'] = f'{python_of("peers-litert")} is not there'
        for peer, why in absent.items():
            say(f'PEER ABSENT: {peer}: {why}')
        versions = {'LibTorch': os.environ.get('FXX_TORCH_VERSION', '')}
        for peer, environment, package in (('OpenVINO', 'peers', 'openvino'),
                                           ('XNNPACK (LiteRT)', 'peers-litert', 'ai-edge-litert')):
            if peer not in absent:
                versions.update({peer: f'{name} {version}' for name, version in
                                 results.versions_of(python_of(environment), [package]).items()})
        kept = results.Run('shapes', '--keep' in options, versions, absent)
        kept.run.update(count=int(count), turns=turns)
        if not as_json:
            print(results.peers_line(kept.run))

        ours = Program(*serve)
        ratios, by_kind, without = [], {}, {}
        if not as_json:
            print(f'{"shape":58} {"fxx us":>10} {"best peer":>20} {"us":>10} {"ratio":>7}')
        for shape in shapes:
            number, best, errors, reasons, times = shape['shape'], {}, {}, {}, {}
            for _ in range(turns):
                line = ours.turn(number)
                if 'why' in line:
                    say(f'{shape["name"]}: {line["why"]}')
                    reasons['fxx'] = line['why']
                    if line['why'].startswith('ended'):
                        ours = Program(*serve)
                    break
                errors.update(line.get('error', {}))
                for side, us in line['us'].items():
                    best[side] = min(us, best.get(side, us))
                    times.setdefault(side, []).append(us)
                if litert:
                    line = litert.turn(number)
                    if 'us' in line:
                        best['xnnpack'] = min(line['us'], best.get('xnnpack', line['us']))
                        errors['xnnpack'] = line['error']
                        times.setdefault('xnnpack', []).append(line['us'])
                    else:
                        without[shape['name']] = reasons['xnnpack'] = line['why']
                        if line['why'].startswith('ended'):
                            litert = Program(python_of('peers-litert'), '-c', RUN_LITERT, name)
            wrong = [side for side, error in errors.items() if not error <= LARGEST_ERROR]
            failed = 'fxx' not in best or 'fxx' in wrong
            peers = {side: us for side, us in best.items() if side != 'fxx' and side not in wrong}
            peer = min(peers, key=peers.get, default='')
            ratio = best['fxx'] / peers[peer] if peer and not failed else math.inf
            ratios.append((ratio, shape['name'], peer))
            line = {'bench': f'shapes/{number}', 'shape': shape['name'], 'kind': shape['kind'], 'unit': 'us',
                    'fxx': None if failed else rounded(best['fxx']), 'peer': peer,
                    'peer_value': rounded(peers[peer]) if peer else None, 'ratio': rounded(ratio),
                    'turns': {side: [rounded(us) for us in of_side] for side, of_side in times.items()},
                    'errors': {side: rounded(error) for side, error in errors.items()}, 'not_counted': wrong,
                    'why': reasons, 'versions': versions}
            kept.add(line)
            if not failed and peer:
                by_kind.setdefault(shape['kind'], []).append(ratio)
            if as_json:
                print(json.dumps(line), flush=True)
            elif failed:
                print(f'{shape["name"]:58} {"FAILED":>10} {errors}', flush=True)
            else:
                print(f'{shape["name"]:58} {best["fxx"]:10.2f} {peer:>20} {peers.get(peer, math.nan):10.2f} {ratio:7.3f}',
                      flush=True)
        for program_ in filter(None, (ours, litert)):
            program_.process.stdin.close()
            program_.process.wait()

        kept.finish()
        if as_json:
            return
        above = sorted((r for r in ratios if r[0] > GOAL), reverse=True)
        print(f'\n{len(above)} of {len(ratios)} shapes take more than {GOAL} of the best peer'
              + (f' (without {", ".join(absent)})' if absent else ''))
        for ratio, name_, peer in above:
            print(f'  {ratio:6.3f} {name_} ({peer})')
        if without:
            say(f'XNNPACK has not {len(without)} of the shapes: {next(iter(without.items()))}')
        for kind, values in by_kind.items():
            print(f'geometric mean of {len(values)} {kind}: {geometric_mean(values):.3f}')
        print(f'geometric mean of all: {geometric_mean([r for values in by_kind.values() for r in values]):.3f}')


if __name__ == '__main__':
    main()
