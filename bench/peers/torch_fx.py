#!/usr/bin/env python3
"""Times Python's torch.fx on the models of bench/models.hpp and on the graph of bench/graph.cpp.

usage: torch_fx.py FIGURE...    prints a JSON object: figure -> microseconds a node, the best of several turns
Figures: trace/<model>, make_fx/<model> (with fake tensors), interpreter/<model> (over a Python forward), graph/<operation>.
"""
import copy
import json
import sys
import time

import torch
import torch.fx
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

torch.set_num_threads(1)
NODES = 10000


class Deep10k(nn.Module):
    def forward(self, x):
        y = x
        for _ in range(2500):
            y = torch.relu(y)
            y = y + x
            y = torch.sigmoid(y)
            y = y * 0.5
        return y

    @staticmethod
    def input():
        return torch.randn(64)


class BasicBlock(nn.Module):
    def __init__(self, before, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = None
        if stride != 1 or before != out:
            self.shortcut = nn.Conv2d(before, out, 1, stride, bias=False)
            self.shortcut_bn = nn.BatchNorm2d(out)

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.shortcut is None else self.shortcut_bn(self.shortcut(x))))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
        self.blocks = nn.ModuleList(BasicBlock(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:]))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 1000)
        self.eval()

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for block in self.blocks:
            x = block(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))

    @staticmethod
    def input():
        return torch.randn(1, 3, 32, 32)


class EncoderLayer(nn.Module):
    width, heads = 128, 4

    def __init__(self):
        super().__init__()
        w = self.width
        self.query, self.key, self.value, self.out = (nn.Linear(w, w) for _ in range(4))
        self.up, self.down = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)
        self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)

    def forward(self, x):
        def split(t):
            return t.view(x.size(0), x.size(1), self.heads, self.width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        weights = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / (self.width // self.heads) ** 0.5, -1)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(x.size(0), x.size(1), self.width)
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(torch.nn.functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer() for _ in range(6))
        self.eval()

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @staticmethod
    def input():
        return torch.randn(1, 8, EncoderLayer.width)


MODELS = {'deep10k': Deep10k, 'resnet18': ResNet18, 'encoder': Encoder}


def best(work, prepare=lambda: (), turns=3):
    """Seconds of the fastest turn of work(*prepare())."""
    fastest = float('inf')
    for _ in range(turns):
        given = prepare()
        start = time.perf_counter()
        work(*given)
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def chain(dead=False):
    graph = torch.fx.Graph()
    x = value = graph.placeholder('x')
    for _ in range(NODES - 2):
        value = graph.call_function(torch.add, (value, x))
    graph.output(x if dead else value)
    return graph


def replace_uses(graph):
    a = next(iter(graph.nodes))
    b = a.next
    a.replace_all_uses_with(b, lambda user: user is not b)
    b.replace_all_uses_with(a, lambda user: user is not b)


GRAPH = {'build': chain, 'copy': copy.deepcopy, 'lint': torch.fx.Graph.lint, 'print': str,
         'replace_all_uses': replace_uses,
         'eliminate_dead_code': torch.fx.Graph.eliminate_dead_code}


def figure(name):
    kind, what = name.split('/')[:2]
    if kind == 'graph':
        prepare = {'build': lambda: (), 'eliminate_dead_code': lambda: (chain(dead=True),)}.get(what, lambda: (chain(),))
        return best(GRAPH[what], prepare) / NODES
    model = MODELS[what]()
    turns = 3 if what == 'deep10k' else 30
    if kind == 'make_fx':
        trace = make_fx(model, tracing_mode='fake', _allow_non_fake_inputs=True)
        x = model.input()
        with torch.no_grad():
            nodes = len(trace(x).graph.nodes)
            return best(lambda: trace(x), turns=min(turns, 3)) / nodes
    traced = torch.fx.symbolic_trace(model)
    nodes = len(traced.graph.nodes)
    if kind == 'trace':
        return best(lambda: torch.fx.symbolic_trace(model), turns=turns) / nodes
    with torch.no_grad():
        x = model.input()
        interpreter = torch.fx.Interpreter(traced)
        return (best(lambda: interpreter.run(x), turns=turns) - best(lambda: model(x), turns=turns)) / nodes


def main(argv):
    sys.setrecursionlimit(100000)  # deep copies of a chain recurse
    print(json.dumps({name: figure(name) * 1e6 for name in argv[1:]}))


if __name__ == '__main__':
    main(sys.argv)
