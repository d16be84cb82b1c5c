#!/usr/bin/env python3
"""Times what other compilers make of tanh(x) * sigmoid(y) on 65,536 elements, one thread, as bench/fused.cpp does.

usage: fused.py FIGURE...    prints a JSON object: figure -> microseconds a call, of those that are installed
Figures: rules/fused_64k/aoti (AOTInductor, a compiled package called without Python's argument handling),
rules/fused_64k/openvino (an infer request with its tensors set before).
"""
import json
import os
import sys
import tempfile
import time

SHAPE = (64, 1024)


def best(call):
    for _ in range(100):
        call()
    least = float('inf')
    for _ in range(3000):
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return least * 1e6


def aoti():
    import torch

    class Gate(torch.nn.Module):
        def forward(self, x, y):
            return torch.tanh(x) * torch.sigmoid(y)

    torch.set_num_threads(1)
    inputs = torch.rand(SHAPE) * 8 - 4, torch.rand(SHAPE) * 8 - 4
    with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
        os.environ['TORCHINDUCTOR_CACHE_DIR'] = scratch
        package = torch._inductor.aoti_compile_and_package(torch.export.export(Gate(), inputs),
                                                           package_path=f'{scratch}/gate.pt2')
        loaded = torch._inductor.aoti_load_package(package)
        given, expected = loaded.loader.run(list(inputs))[0], Gate()(*inputs)
        assert torch.allclose(given, expected, 1e-5, 1e-6), 'the results are wrong'
        return best(lambda: loaded.loader.run(list(inputs)))


def openvino():
    import numpy
    import openvino
    from openvino import opset13 as ops
    x, y = (ops.parameter(SHAPE, numpy.float32) for _ in range(2))
    model = openvino.Model([ops.multiply(ops.tanh(x), ops.sigmoid(y))], [x, y])
    compiled = openvino.Core().compile_model(model, 'CPU', {'INFERENCE_NUM_THREADS': 1, 'PERFORMANCE_HINT': 'LATENCY',
                                                            'INFERENCE_PRECISION_HINT': 'f32'})
    request = compiled.create_infer_request()
    given = [(numpy.random.rand(*SHAPE) * 8 - 4).astype(numpy.float32) for _ in range(2)]
    for i in range(2):
        request.set_input_tensor(i, openvino.Tensor(given[i]))
    request.infer()
    expected = numpy.tanh(given[0]) / (1 + numpy.exp(-given[1]))
    assert numpy.allclose(request.get_output_tensor(0).data, expected, 1e-5, 1e-6), 'the results are wrong'
    return best(request.infer)


def main(argv):
    found = {}
    for figure in argv[1:]:
        try:
            found[figure] = {'rules/fused_64k/aoti': aoti, 'rules/fused_64k/openvino': openvino}[figure]()
        except ImportError as missing:
            print(f'{figure}: {missing}', file=sys.stderr)
    print(json.dumps(found))


if __name__ == '__main__':
    main(sys.argv)
