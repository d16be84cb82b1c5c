#!/usr/bin/env python3
"""Other compilers and engines on the models of compiled_models.py, and on those of the zoo that bench_compiled left in
FOLDER, each at its best settings.

usage: compiled.py list                                    the peers, and what each is or why it is absent
       compiled.py prepare FOLDER PEER THREADS MODEL...    exports and compiles into FOLDER, once: later calls only look
       compiled.py time FOLDER PEER THREADS MODEL...       runs what lies there
       compiled.py build THREADS MODEL...                  AOTInductor's seconds from a graph to a loaded module, its
                                                           cache empty; what it is to import counts for neither side
Prints a JSON object a line: model, peer, threads and ms (the least of at least ten calls), error (largest, relative to
the largest value of each result, against PyTorch in double precision), seconds; or why there are none. Short calls are
timed several at once, with as little of Python in between as each peer offers; of AOTInductor's and TorchScript's files
none, since bench_compiled runs them. A peer that chooses its precision says which it took. Copying inputs and results counts for no peer that takes its inputs beforehand.
One process has one setting of threads: most peers read it once.
"""
import hashlib
import importlib.metadata
import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
PATIENCE = 600  # seconds for a converter that is a program of its own


def stem_of(folder, model):
    return str(pathlib.Path(folder) / model.replace('/', '_'))


def arrays(path):
    import numpy
    with numpy.load(path) as file:
        return [file[key] for key in file.files]


def inputs_of(stem):
    import numpy
    return [numpy.ascontiguousarray(a) for a in arrays(stem + '.inputs.npz')]


def run(*command, log):
    """A converter; what it says goes to a file."""
    with open(log, 'w') as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=PATIENCE)
    if done.returncode != 0:
        text = pathlib.Path(log).read_text(errors='replace')
        lines = [line for line in text.splitlines() if 'rror' in line] or text.splitlines()[-1:]
        raise RuntimeError(f'{pathlib.Path(command[0]).name} failed: {" ".join(lines)[:300]}')


# --- the peers -------------------------------------------------------------------------------------------------------
# prepare(stem, model, threads) leaves files; load(stem, threads) returns what is called and what then gives results.

class Export:
    """What the others start from: no peer."""
    packages = ('torch', 'onnx', 'onnxscript')

    @staticmethod
    def prepare(stem, model, threads):
        import numpy
        import torch

        import compiled_models
        import traced_models
        with torch.no_grad():
            module, inputs = compiled_models.make(model, stem, double=True)
            exact = torch.utils._pytree.tree_leaves(module(*inputs))
            numpy.savez(stem + '.exact.npz', *[t.numpy() for t in exact])
            module, inputs = compiled_models.make(model, stem)
            numpy.savez(stem + '.inputs.npz', *[t.numpy() for t in inputs])
            torch.jit.trace(module, inputs).save(stem + '.pt')
            if isinstance(module, torch.fx.GraphModule):
                traced_models.spell_out_bags(module)
            # A file of the format holds 2 GB; weights of more lie beside it.
            size = sum(p.nbytes for p in module.parameters())
            torch.onnx.export(module, inputs, stem + '.onnx', dynamo=True, verbose=False, external_data=size > 1.9e9)


class Aoti:
    packages = ('torch',)
    by_threads = True
    settings = {'freezing': True}

    @classmethod
    def changed(cls, module, inputs):
        """What is compiled in the module's place."""
        return module

    @classmethod
    def prepare(cls, stem, model, threads):
        import torch

        import compiled_models
        torch.set_num_threads(threads)
        module, inputs = compiled_models.make(model, stem)
        name = next(key for key, peer in PEERS.items() if peer is cls)
        with torch.no_grad():
            module = cls.changed(module, inputs)
            torch._inductor.aoti_compile_and_package(torch.export.export(module, inputs), inductor_configs=cls.settings,
                                                     package_path=f'{stem}.{name}.{threads}t.pt2')


class AotiMax(Aoti):
    settings = {'freezing': True, 'max_autotune': True, 'max_autotune_gemm_backends': 'CPP,ATEN'}


class InBfloat16:
    """Products and convolutions in bfloat16, where autocast has them so, from floats to floats as fxx's `fast`."""

    @classmethod
    def changed(cls, module, inputs):
        import torch

        class Cast(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = module

            def forward(self, *given):
                with torch.autocast('cpu', torch.bfloat16):
                    found = self.inner(*given)
                return torch.utils._pytree.tree_map(lambda t: t.float() if t.is_floating_point() else t, found)

        return Cast().eval()


class AotiBfloat16(InBfloat16, Aoti):
    pass


class AotiMaxBfloat16(InBfloat16, AotiMax):
    pass


def quantised_pt2e(module, inputs, quantizer, strict=False):
    """The module with 8-bit integers, ranges being those of its input, by PyTorch's quantisation of exported graphs.
    `strict`: exported so that each operator knows its call in the source, which the quantizer for x86 wants."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    prepared = prepare_pt2e(torch.export.export(module, inputs, strict=strict).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


class AotiInt8(Aoti):
    packages = ('torch', 'torchao')

    @classmethod
    def changed(cls, module, inputs):
        import torchao.quantization.pt2e.quantizer.x86_inductor_quantizer as x86
        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
        return quantised_pt2e(module, inputs, quantizer, strict=True)


class TorchScript:
    """Frozen and optimised where it is loaded."""
    packages = ('torch',)

    @staticmethod
    def prepare(stem, model, threads):
        pass


class OnnxRuntime:
    packages = ('onnxruntime',)
    file = '.onnx'

    @staticmethod
    def prepare(stem, model, threads):
        pass

    @classmethod
    def load(cls, stem, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(stem + cls.file, options, providers=['CPUExecutionProvider'])
        binding = session.io_binding()
        for i, a in zip(session.get_inputs(), inputs_of(stem)):
            binding.bind_ortvalue_input(i.name, onnxruntime.OrtValue.ortvalue_from_numpy(a))
        for o in session.get_outputs():
            shape = [int(n) for n in o.shape]
            import numpy
            value = onnxruntime.OrtValue.ortvalue_from_numpy(numpy.empty(shape, numpy.float32))
            binding.bind_ortvalue_output(o.name, value)
        inner, bound = session._sess.run_with_iobinding, binding._iobinding
        return lambda: inner(bound, None), binding.copy_outputs_to_cpu


class OpenVino:
    """Through its C interface."""
    packages = ('openvino',)
    precision = 'f32'
    took = ''  # the precision in its lines, where that is not what its name says
    file = '.onnx'

    @staticmethod
    def prepare(stem, model, threads):
        pass

    @classmethod
    def load(cls, stem, threads):
        import ctypes

        import numpy
        import openvino
        library = next((pathlib.Path(openvino.__file__).parent / 'libs').glob('libopenvino_c.so*'))
        ov = ctypes.CDLL(str(library))

        def call(function, *arguments):
            if status := getattr(ov, function)(*arguments):
                raise RuntimeError(f'{function} returns {status}')

        def made(function, *arguments):
            value = ctypes.c_void_p()
            call(function, *arguments, ctypes.byref(value))
            return value

        core, compiled = made('ov_core_create'), ctypes.c_void_p()
        settings = ['PERFORMANCE_HINT', 'LATENCY', 'INFERENCE_NUM_THREADS', str(threads)]
        if cls.precision:
            settings += ['INFERENCE_PRECISION_HINT', cls.precision]
        call('ov_core_compile_model_from_file', core, (stem + cls.file).encode(), b'CPU', ctypes.c_size_t(len(settings)),
             ctypes.byref(compiled), *[ctypes.c_char_p(word.encode()) for word in settings])
        request = made('ov_compiled_model_create_infer_request', compiled)

        def tensor(kind, index):
            value = made(f'ov_infer_request_get_{kind}_tensor_by_index', request, ctypes.c_size_t(index))
            size = ctypes.c_size_t()
            call('ov_tensor_get_byte_size', value, ctypes.byref(size))
            return made('ov_tensor_data', value).value, size.value

        for index, a in enumerate(inputs_of(stem)):
            data, size = tensor('input', index)
            if size != a.nbytes:
                raise RuntimeError(f'input {index} has {size} bytes, not {a.nbytes}')
            ctypes.memmove(data, a.ctypes.data, size)

        def results():
            found = []
            for index in range(len(arrays(stem + '.exact.npz'))):
                data, size = tensor('output', index)
                found.append(numpy.frombuffer(ctypes.string_at(data, size), numpy.float32))
            return found

        if cls.precision != 'f32':  # which it took, since not every processor has bfloat16
            said = ctypes.c_char_p()
            call('ov_compiled_model_get_property', compiled, b'INFERENCE_PRECISION_HINT', ctypes.byref(said))
            cls.took = cls.took or said.value.decode()

        infer = ov.ov_infer_request_infer
        infer.argtypes = [ctypes.c_void_p]
        infer.restype = ctypes.c_int
        keep = core, compiled, request
        handle = request.value
        if infer(handle) != 0:
            raise RuntimeError('ov_infer_request_infer fails')
        return lambda: infer(handle), lambda: (keep, results())[1]


class OpenVinoTorch(OpenVino):
    """From TorchScript: it has operators that an ONNX model spells out, such as bags of embeddings."""
    packages = ('openvino', 'torch')
    file = '.xml'

    @classmethod
    def prepare(cls, stem, model, threads):
        import openvino
        import torch
        given = [torch.from_numpy(a) for a in inputs_of(stem)]
        converted = openvino.convert_model(torch.jit.load(stem + '.pt'), example_input=tuple(given),
                                           input=[list(t.shape) for t in given])
        openvino.save_model(converted, stem + cls.file, compress_to_fp16=False)


class OpenVinoDefault(OpenVino):
    """With the precision that it takes by itself: bfloat16 where the processor has it."""
    precision = ''


class OpenVinoBfloat16(OpenVino):
    precision = 'bf16'


def quantise(stem):
    """The exported model with 8-bit integers, ranges being those of its input: ONNX Runtime's own tool, as its
    documentation says for x86-64 with VNNI."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Examples(quantization.CalibrationDataReader):
        def __init__(self, names):
            self.left = iter([dict(zip(names, inputs_of(stem)))])

        def get_next(self):
            return next(self.left, None)

    import onnx
    prepared = stem + '.prepared.onnx'
    quant_pre_process(stem + '.onnx', prepared)
    names = [i.name for i in onnx.load(prepared).graph.input]
    quantization.quantize_static(prepared, stem + Int8.file, Examples(names), per_channel=True,
                                 quant_format=quantization.QuantFormat.QDQ,
                                 activation_type=quantization.QuantType.QUInt8,
                                 weight_type=quantization.QuantType.QInt8)
    pathlib.Path(prepared).unlink()


class Int8:
    file = '.int8.onnx'

    @staticmethod
    def prepare(stem, model, threads):
        quantise(stem)


class OnnxRuntimeInt8(Int8, OnnxRuntime):
    packages = ('onnxruntime', 'onnx')


class OnnxRuntimeDynamic(OnnxRuntime):
    """Weights in 8-bit integers, activations rounded to such in each call: what its documentation says of transformers."""
    packages = ('onnxruntime', 'onnx')
    file = '.dynamic.onnx'

    @classmethod
    def prepare(cls, stem, model, threads):
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
        prepared = stem + '.prepared.onnx'
        quant_pre_process(stem + '.onnx', prepared)
        quantization.quantize_dynamic(prepared, stem + cls.file, per_channel=True,
                                      weight_type=quantization.QuantType.QInt8)
        pathlib.Path(prepared).unlink()


class OpenVinoInt8(Int8, OpenVinoDefault):
    packages = ('openvino', 'onnxruntime', 'onnx')
    took = 'int8'


class OpenVinoNncf(OpenVinoDefault):
    """Quantised by its own tool, as its documentation says; ranges are those of the model's input."""
    packages = ('openvino', 'nncf')
    took = 'int8'
    file = '.nncf.xml'

    @classmethod
    def prepare(cls, stem, model, threads):
        import nncf
        import openvino
        given = inputs_of(stem)
        network = openvino.Core().read_model(stem + '.onnx')
        names = [i.any_name for i in network.inputs]
        kind = nncf.ModelType.TRANSFORMER if model in ('encoder', 'minilm', 'gpt_decode') else None
        quantised = nncf.quantize(network, nncf.Dataset([dict(zip(names, given))]), subset_size=1, model_type=kind,
                                  preset=nncf.QuantizationPreset.MIXED)
        openvino.save_model(quantised, stem + cls.file, compress_to_fp16=False)


class Ncnn:
    packages = ('ncnn', 'pnnx')

    @staticmethod
    def given(stem):
        """Its matrices have no batch: a batch is run one after the other. An MLP's rows are one matrix. It has no
        layer that converts a mask of whole numbers, so that comes as floats."""
        name, given = pathlib.Path(stem).name, inputs_of(stem)
        if name == 'minilm':
            given[1] = given[1].astype('float32')
        return [a[None] for a in given] if name == 'mlp_b8' else [a[:1] if name.endswith('_b8') else a for a in given]

    @classmethod
    def prepare(cls, stem, model, threads):
        import torch

        import compiled_models
        module, inputs = compiled_models.make(model, stem)
        if model.startswith('zoo/') and inputs[0].shape[0] > 1:
            raise RuntimeError('the trace is of a whole batch, which its matrices do not have')
        given = [torch.from_numpy(a) for a in cls.given(stem)]
        shapes = [str(list(t.shape)).replace(' ', '') + ('' if t.is_floating_point() else 'i64') for t in given]
        folder = pathlib.Path(stem + '.ncnn')
        folder.mkdir(exist_ok=True)
        with torch.no_grad():
            torch.jit.trace(module, given).save(str(folder / 'net.pt'))
        try:
            run(BIN / 'pnnx', folder / 'net.pt', 'inputshape=' + ','.join(shapes), 'fp16=0', log=folder / 'log')
        finally:
            (folder / 'net.pt').unlink()
            for made in folder.glob('*.pnnx.*'):
                made.unlink()
        if not (folder / 'net.ncnn.bin').exists():
            raise RuntimeError('pnnx left no ncnn.bin')

    @classmethod
    def load(cls, stem, threads):
        import ncnn
        import numpy
        net = ncnn.Net()
        net.opt.num_threads = threads
        net.opt.use_vulkan_compute = False
        for flag in ('fp16_packed', 'fp16_storage', 'fp16_arithmetic', 'bf16_storage', 'bf16_packed', 'int8_inference'):
            if hasattr(net.opt, 'use_' + flag):
                setattr(net.opt, 'use_' + flag, False)
        if net.load_param(f'{stem}.ncnn/net.ncnn.param') or net.load_model(f'{stem}.ncnn/net.ncnn.bin'):
            raise RuntimeError('ncnn cannot load what pnnx made')
        given = [a.astype(numpy.int32) if a.dtype.kind == 'i' else a for a in cls.given(stem)]
        rows = [list(a) if a.ndim > 1 else [a] for a in given]  # one image or sentence after the other
        turns = [[ncnn.Mat(a).clone() for a in turn] for turn in zip(*rows)]
        ins, outs = net.input_names(), net.output_names()

        def call():
            found = []
            for turn in turns:
                extractor = net.create_extractor()
                for name, matrix in zip(ins, turn):
                    extractor.input(name, matrix)
                found.append([extractor.extract(name)[1] for name in outs])
            return found

        def results():
            return [numpy.stack([numpy.array(m) for m in of_turns]) for of_turns in zip(*call())]

        return call, results


class Mnn:
    packages = ('MNN',)

    @staticmethod
    def prepare(stem, model, threads):
        # Its command mnnconvert installs packages; what it calls does not.
        command = [sys.executable, '-c', 'import MNN, _tools, sys; _tools.mnnconvert(sys.argv)', '-f', 'ONNX',
                   '--modelFile', stem + '.onnx', '--MNNModel', stem + '.mnn', '--bizCode', 'MNN']
        try:
            run(*command, log=stem + '.mnn.log')
        except RuntimeError:  # a crash where it unrolls an LSTM
            run(*command, '--useOriginRNNImpl', log=stem + '.mnn.log')
        if not os.path.exists(stem + '.mnn'):
            raise RuntimeError('mnnconvert made no model')

    @staticmethod
    def load(stem, threads):
        import MNN
        import numpy
        import onnx
        graph = onnx.load(stem + '.onnx', load_external_data=False).graph
        given, exact = inputs_of(stem), arrays(stem + '.exact.npz')
        net = MNN.Interpreter(stem + '.mnn')
        session = net.createSession({'precision': 'high', 'numThread': threads, 'backend': 'CPU'})
        ins, outs = net.getSessionInputAll(session), net.getSessionOutputAll(session)
        ins = [ins[i.name] for i in graph.input] if all(i.name in ins for i in graph.input) else list(ins.values())
        for tensor, a in zip(ins, given):
            net.resizeTensor(tensor, a.shape)
        net.resizeSession(session)

        def fill():
            for tensor, a in zip(ins, given):
                whole = a.dtype.kind == 'i'
                kind = MNN.Halide_Type_Int if whole else MNN.Halide_Type_Float
                data = a.astype(numpy.int32) if whole else a
                tensor.copyFrom(MNN.Tensor(a.shape, kind, data, MNN.Tensor_DimensionType_Caffe))

        def results():
            fill()  # a run may have overwritten them
            net.runSession(session)
            found = []
            for o, y in zip(graph.output, exact):
                host = MNN.Tensor(y.shape, MNN.Halide_Type_Float, numpy.zeros(y.shape, numpy.float32),
                                  MNN.Tensor_DimensionType_Caffe)
                outs[o.name].copyToHostTensor(host)
                found.append(numpy.array(host.getNumpyData()).copy())
            return found

        fill()
        return lambda: net.runSession(session), results


class LiteRt:
    packages = ('ai-edge-litert', 'litert-torch')
    own_environment = True
    file = '.tflite'

    @classmethod
    def prepare(cls, stem, model, threads):
        import litert_torch

        import compiled_models
        module, inputs = compiled_models.make(model, stem)
        litert_torch.convert(module, inputs).export(stem + cls.file)

    @classmethod
    def load(cls, stem, threads):
        from ai_edge_litert.interpreter import Interpreter
        net = Interpreter(model_path=stem + cls.file, num_threads=threads)
        net.allocate_tensors()
        for detail, a in zip(sorted(net.get_input_details(), key=lambda d: d['name']), inputs_of(stem)):
            net.set_tensor(detail['index'], a.astype(detail['dtype']))
        invoke = getattr(getattr(net, '_interpreter', None), 'Invoke', net.invoke)
        return invoke, lambda: [net.get_tensor(d['index']) for d in net.get_output_details()]


class LiteRtInt8(LiteRt):
    """Quantised by its own tool, weights and activations; ranges are those of the model's input."""
    packages = ('ai-edge-litert', 'litert-torch', 'ai-edge-quantizer')
    file = '.int8.tflite'

    @classmethod
    def prepare(cls, stem, model, threads):
        from ai_edge_litert.interpreter import Interpreter
        from ai_edge_quantizer import quantizer, recipe
        floats = stem + '.floats.tflite'
        try:
            import litert_torch

            import compiled_models
            module, inputs = compiled_models.make(model, stem)
            litert_torch.convert(module, inputs).export(floats)
            signatures = Interpreter(model_path=floats).get_signature_list()
            key = next(iter(signatures))
            made = quantizer.Quantizer(floats)
            made.load_quantization_recipe(recipe.static_wi8_ai8())
            for end in ('INPUT', 'OUTPUT'):  # of the model: they stay floats
                made.update_quantization_recipe(regex='.*', operation_name=end, algorithm_key='no_quantize')
            ranges = made.calibrate({key: [dict(zip(sorted(signatures[key]['inputs']), inputs_of(stem)))]}, num_threads=1)
            pathlib.Path(stem + cls.file).unlink(missing_ok=True)
            made.quantize(ranges).export_model(stem + cls.file)
        finally:
            pathlib.Path(floats).unlink(missing_ok=True)


class ExecuTorch:
    packages = ('executorch',)
    file = '.pte'

    @classmethod
    def changed(cls, module, inputs):
        """What is exported in the module's place."""
        return module

    @classmethod
    def prepare(cls, stem, model, threads):
        import torch
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower

        import compiled_models
        module, inputs = compiled_models.make(model, stem)
        with torch.no_grad():
            module = cls.changed(module, inputs)
            program = to_edge_transform_and_lower(torch.export.export(module, inputs),
                                                  partitioner=[XnnpackPartitioner()]).to_executorch()
        pathlib.Path(stem + cls.file).write_bytes(program.buffer)

    @classmethod
    def load(cls, stem, threads):
        import executorch.extension.pybindings.portable_lib as library
        import torch
        from executorch.runtime import Runtime
        torch.set_num_threads(threads)
        if hasattr(library, '_unsafe_reset_threadpool'):
            library._unsafe_reset_threadpool(threads)
        method = Runtime.get().load_program(stem + cls.file).load_method('forward')
        given = [torch.from_numpy(a) for a in inputs_of(stem)]
        return lambda: method.execute(given), lambda: [y.numpy() for y in method.execute(given)]


class ExecuTorchInt8(ExecuTorch):
    """XNNPACK's own scheme: weights in 8-bit integers with a scale a channel, activations with one a tensor, or one a row
    that each call finds, where all is linear layers."""
    packages = ('executorch', 'torchao')
    file = '.int8.pte'

    @classmethod
    def changed(cls, module, inputs):
        import executorch.backends.xnnpack.quantizer.xnnpack_quantizer as xnnpack
        import torch
        quantizer = xnnpack.XNNPACKQuantizer()
        images = any(isinstance(part, torch.nn.Conv2d) for part in module.modules())
        quantizer.set_global(xnnpack.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=not images))
        return quantised_pt2e(module, inputs, quantizer)


class Iree:
    packages = ('iree-base-compiler', 'iree-base-runtime')

    @staticmethod
    def prepare(stem, model, threads):
        try:
            run(BIN / 'iree-import-onnx', stem + '.onnx', '--opset-version', '20', '-o', stem + '.mlir',
                log=stem + '.iree.log')
            run(BIN / 'iree-compile', stem + '.mlir', '-o', stem + '.vmfb', '--iree-hal-target-device=local',
                '--iree-hal-local-target-device-backends=llvm-cpu', '--iree-llvmcpu-target-cpu=host',
                '--iree-opt-level=O3', '--iree-opt-data-tiling', '--iree-llvmcpu-stack-allocation-limit=131072',
                log=stem + '.iree.log')
        finally:
            pathlib.Path(stem + '.mlir').unlink(missing_ok=True)

    @staticmethod
    def load(stem, threads):
        import iree.runtime as runtime
        if threads > 1:
            runtime.flags.parse_flags(f'--task_topology_group_count={threads}')
        config = runtime.Config('local-sync' if threads == 1 else 'local-task')
        context = runtime.SystemContext(config=config)
        context.add_vm_module(runtime.VmModule.mmap(context.instance, stem + '.vmfb'))
        module = next(m for name, m in context.modules.items() if name != 'hal')
        name = next(n for n in module.vm_module.function_names if '$' not in n and not n.startswith('__'))
        function = module[name]
        given = [runtime.asdevicearray(config.device, a) for a in inputs_of(stem)]

        def results():
            found = function(*given)
            return [y.to_host() for y in (found if isinstance(found, (list, tuple)) else [found])]

        # What `function` does, without looking at its arguments' types each time.
        inputs = runtime.VmVariantList(len(given))
        for a in given:
            inputs.push_ref(a._buffer_view)
        vm, entry = context.vm_context, module.vm_module.lookup_function(name)

        def call():
            vm.invoke(entry, inputs, runtime.VmVariantList(1))

        return call, results


PEERS = {'export': Export, 'aoti': Aoti, 'aoti_max': AotiMax, 'aoti_bf16': AotiBfloat16,
         'aoti_max_bf16': AotiMaxBfloat16, 'aoti_int8': AotiInt8, 'torchscript': TorchScript, 'onnxruntime': OnnxRuntime,
         'onnxruntime_int8': OnnxRuntimeInt8, 'onnxruntime_dynamic': OnnxRuntimeDynamic, 'openvino': OpenVino,
         'openvino_torch': OpenVinoTorch, 'openvino_default': OpenVinoDefault, 'openvino_bf16': OpenVinoBfloat16,
         'openvino_int8': OpenVinoInt8, 'openvino_nncf': OpenVinoNncf, 'ncnn': Ncnn, 'mnn': Mnn, 'litert': LiteRt,
         'litert_int8': LiteRtInt8, 'executorch': ExecuTorch, 'executorch_int8': ExecuTorchInt8, 'iree': Iree}


def version_of(peer):
    """The versions of its packages; raises PackageNotFoundError."""
    return ' '.join(f'{name} {importlib.metadata.version(name)}' for name in peer.packages)


# --- commands --------------------------------------------------------------------------------------------------------

class Failed(RuntimeError):
    """Says all by itself."""


def reason(error):
    if isinstance(error, Failed):
        return str(error)
    return f'{type(error).__name__}: {error}'.replace('\n', ' ')[:400]


def emit(**line):
    print(json.dumps(line), flush=True)


def origin_of(model, stem):
    """What changes when the model does."""
    if not model.startswith('zoo/'):
        return (HERE / 'compiled_models.py').read_text()
    return (HERE / 'traced_models.py').read_text() + str(os.stat(stem + '.graph').st_mtime_ns)


def prepare(folder, name, threads, model):
    """Seconds that it took, now or when it was done; raises Failed with what it said then."""
    peer, stem = PEERS[name], stem_of(folder, model)
    threads = threads if getattr(peer, 'by_threads', False) else 0
    done = pathlib.Path(f'{stem}.{name}.{threads}.json')
    source = ''.join(inspect.getsource(base) for base in peer.__mro__[:-1])
    texts = [source, str(getattr(peer, 'settings', '')), version_of(peer), version_of(Export)
             if not getattr(peer, 'own_environment', False) else '', origin_of(model, stem)]
    key = hashlib.sha256('\0'.join(texts).encode()).hexdigest()
    state = json.loads(done.read_text()) if done.exists() else {}
    if state.get('key') != key:
        state = {'key': key}
        start = time.perf_counter()
        try:
            peer.prepare(stem, model, threads)
        except Exception as error:  # noqa: BLE001: of any of them
            state['why'] = reason(error)
        state['seconds'] = time.perf_counter() - start
        done.write_text(json.dumps(state))
    if 'why' in state:
        raise Failed(state['why'])
    return state['seconds']


def least_milliseconds(call):
    """As bench/compiled.cpp times."""
    clock = time.perf_counter

    def turn(calls):
        start = clock()
        for _ in calls:
            call()
        return clock() - start

    least = turn((0,))
    slow = least > 1
    for _ in range(0 if slow else 2):
        least = turn((0,))
    n = 1 if least > 20e-6 else int(20e-6 / max(least, 1e-8)) + 1
    calls = (0,) * n
    start, i = clock(), 0
    while i < (3 if slow else 10) or (clock() - start < 0.5 and i < 20000):
        least = min(least, turn(calls) / n)
        i += 1
    return least * 1e3


def error_of(got, exact):
    import numpy
    if len(got) != len(exact):
        raise RuntimeError(f'{len(got)} results, not {len(exact)}')
    worst = 0.0
    for y, e in zip(got, exact):
        error = float(numpy.abs(numpy.asarray(y).astype(numpy.float64).reshape(e.shape) - e).max() / numpy.abs(e).max())
        worst = error if not error <= worst else worst
    return worst


def time_one(folder, name, threads, model):
    import numpy
    stem = stem_of(folder, model)
    call, results = PEERS[name].load(stem, threads)
    exact = arrays(stem + '.exact.npz')
    call()
    error = error_of(results(), exact)
    line = {'error': error, 'ms': least_milliseconds(call), 'reference': [float(numpy.abs(e).mean()) for e in exact]}
    if took := getattr(PEERS[name], 'took', ''):
        line['precision'] = took
    return line


def build(threads, models):
    import torch

    import compiled_models
    torch.set_num_threads(threads)

    def seconds(model):
        module, inputs = compiled_models.make(model)
        with tempfile.TemporaryDirectory() as scratch, torch.no_grad():
            os.environ['TORCHINDUCTOR_CACHE_DIR'] = scratch
            exported = torch.export.export(module, inputs)
            start = time.perf_counter()
            package = torch._inductor.aoti_compile_and_package(exported, inductor_configs={'freezing': True},
                                                               package_path=f'{scratch}/net.pt2')
            torch._inductor.aoti_load_package(package)
            return time.perf_counter() - start

    seconds('pointwise_64')  # imports the compiler
    for model in models:
        try:
            emit(model=model, peer='aoti', threads=threads, seconds=seconds(model))
        except Exception as error:  # noqa: BLE001
            emit(model=model, peer='aoti', threads=threads, why=reason(error))


def main(argv):
    command, *rest = argv[1:] or ['']
    if command == 'list':
        for name, peer in PEERS.items():
            try:
                emit(peer=name, version=version_of(peer))
            except importlib.metadata.PackageNotFoundError as missing:
                emit(peer=name, why=f'{missing.name} is not installed')
    elif command == 'build' and len(rest) > 1:
        build(int(rest[0]), rest[1:])
    elif command in ('prepare', 'time') and len(rest) > 3:
        folder, name, threads, models = rest[0], rest[1], int(rest[2]), rest[3:]
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        for model in models:
            line = {'model': model, 'peer': name, 'threads': threads}
            try:
                if command == 'prepare':
                    line['seconds'] = prepare(folder, name, threads, model)
                else:
                    line.update(time_one(folder, name, threads, model))
            except Exception as error:  # noqa: BLE001
                line['why'] = reason(error)
            emit(**line)
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main(sys.argv)
