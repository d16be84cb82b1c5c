"""Reads back what bench/traced.hpp writes: traces of fxx with their tensors, as torch.fx graphs.

Main names: read(stem), tensors_of(path), spell_out_bags(module).
"""
import builtins
import json
import math
import operator
import pathlib
import re

import numpy
import torch
import torch.fx

LINE = re.compile(r'    %(\w+) : .*?\[num_users=\d+\] = (\w+)\[target=([^]]*)\]'
                  r'(?:\(args = (.*), kwargs = \{(.*)\}\))?$')
DTYPES = {'F32': numpy.float32, 'F64': numpy.float64, 'I32': numpy.int32, 'I64': numpy.int64, 'BOOL': numpy.bool_}


def tensors_of(path):
    """The tensors of a safetensors file by name. Their memory is the file's, as long as nobody writes to them."""
    data = numpy.memmap(path, mode='c')
    size = int(data[:8].view(numpy.uint64)[0])
    header = json.loads(data[8:8 + size].tobytes())
    header.pop('__metadata__', None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry['data_offsets'])
        found[name] = torch.from_numpy(data[begin:end].view(DTYPES[entry['dtype']]).reshape(entry['shape']))
    return found


def function_of(target):
    if target.startswith('torch.ops.'):
        value = torch.ops
        for part in target[len('torch.ops.'):].split('.'):
            value = getattr(value, part)
        return value
    space, name = target.split('.')
    return getattr({'operator': operator, 'math': math, 'builtins': builtins}[space], name)


def in_full(function, values):
    """Arguments as Python gives them: of sizes that are all the same, C++ may give one."""
    schema = getattr(function, '_schema', None)
    if not schema:
        return values
    return tuple(value * argument.N if isinstance(value, list) and len(value) == 1 and argument.N else value
                 for argument, value in zip(schema.arguments, values))


def module_of(text, tensors):
    """What fxx prints: torch.fx's notation, with strings in quotes."""
    graph, values, root = torch.fx.Graph(), {}, torch.nn.Module()
    names = {'torch': torch, 'inf': float('inf'), 'nan': float('nan'), 'v': values,
             'device': lambda type, index=None: torch.device(type)}

    def value_of(words):
        return eval(re.sub(r'%(\w+)', r"v['\1']", words), names)  # noqa: S307: our own text

    for line in text.splitlines()[1:]:
        if line.startswith('    return '):
            graph.output(eval(re.sub(r'^    return | : [^:]*$', '', line), dict(values, **names)))  # noqa: S307
            continue
        name, opcode, target, args, kwargs = LINE.match(line).groups()
        if opcode == 'placeholder':
            values[name] = graph.placeholder(name)
        elif opcode == 'get_attr':
            attribute = 'p_' + re.sub(r'\W', '_', target)
            if not hasattr(root, attribute):
                if target.rsplit('.')[-1].startswith('running_') or not tensors[target].is_floating_point():
                    root.register_buffer(attribute, tensors[target])
                else:
                    root.register_parameter(attribute, torch.nn.Parameter(tensors[target]))
            values[name] = graph.get_attr(attribute)
        else:
            keywords = {}
            for key, words in re.findall(r'(\w+): ((?:[^,\[\](){}\']|\[[^]]*\]|\([^)]*\)|\'[^\']*\')+)', kwargs or ''):
                keywords[key] = value_of(words)
            function = function_of(target)
            values[name] = graph.call_function(function, in_full(function, value_of(args)), keywords)
    return torch.fx.GraphModule(root, graph).eval()


def read(stem, double=False):
    """(module, inputs) of STEM.graph and STEM.safetensors; in double precision those of STEM.double.graph, since a graph
    names the dtypes that follow its inputs' and those that do not."""
    tensors = tensors_of(f'{stem}.safetensors')
    if double:
        tensors = {name: t.double() if t.is_floating_point() else t for name, t in tensors.items()}
    inputs = tuple(tensors[key] for key in sorted(tensors) if key.startswith('input '))
    graph = pathlib.Path(f'{stem}.double.graph' if double else f'{stem}.graph')
    return module_of(graph.read_text(), tensors), inputs


def sums_of_bags(weight, indices, offsets):
    """What embedding_bag gives first, as a product: which index belongs to which bag, times the rows."""
    ends = torch.cat([offsets[1:], torch.full((1,), indices.shape[0])])
    positions = torch.arange(indices.shape[0])
    belongs = (positions >= offsets[:, None]) & (positions < ends[:, None])
    return (belongs.to(weight.dtype) @ torch.nn.functional.embedding(indices, weight),)


def spell_out_bags(module):
    """For ONNX, which has no operator for bags of embeddings; its exporter writes a loop over them."""
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.embedding_bag.padding_idx:
            assert node.args[3:] == (False, 0, False, None, False, None), node.args  # plain sums
            node.target, node.args = sums_of_bags, node.args[:3]
    module.recompile()
