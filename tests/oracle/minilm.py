"""Writes minilm.json: token ids and embeddings of some sentences by all-MiniLM-L6-v2, to compare the C++ example with.

An implementation of its own, in float64, of the published architecture (Devlin et al., 2018; Reimers and Gurevych,
2019): plain functions on the tensors of model.safetensors, one sentence at a time, no padding, no modules. The token
ids come from the `tokenizers` package.

Needs Python 3.9 or newer, torch 2.13.0, numpy 2.4.6, tokenizers 0.23.3 (other versions should do), and a folder with
the model's model.safetensors, config.json and vocab.txt (tools/setup --model makes it).
Run: python3 tests/oracle/minilm.py [--model build/models/all-MiniLM-L6-v2] [--digits 12] [--output FILE]
"""

import argparse
import json
import math
import struct
from pathlib import Path

import numpy
import torch
from tokenizers import BertWordPieceTokenizer

ROOT = Path(__file__).resolve().parents[2]
MAX_TOKENS = 256

LONG = " ".join(
    f"On day {day} the caravan crossed {place}, where the guide pointed out {thing} and told us, not for the first "
    "time, how his grandfather had lost a camel there."
    for day, place, thing in [
        (1, "a dry riverbed", "the tracks of foxes"), (2, "the salt flats", "a mirage of palm trees"),
        (3, "a field of black stones", "the nest of an eagle"), (4, "the ruins of an inn", "a well without water"),
        (5, "a pass between two hills", "the first clouds for weeks"), (6, "the last dunes", "a half-buried wheel"),
        (7, "a village of mud brick", "the house of his cousin"), (8, "an orchard", "the old water channels"),
        (9, "the stone bridge", "the lights of the city")])

TEXTS = [
    "Hi!",
    "A cat is asleep on the warm windowsill.",
    "The kitten naps by the window in the sun.",
    "Bring the water to a boil, add a pinch of salt, and cook the noodles for about eight minutes.",
    "Crème brûlée, jalapeño and Žižkov's smørrebrød cost 12,50 € at the café “Ångström”.",
    "In 1905, E=mc² wasn't yet famous; by 1919 (after the eclipse) it was -- worldwide!",
    "她住在東京，喜欢喝绿茶。",
    "Сёстры читают книгу, а ΑΘΉΝΑ και η Σπάρτη είναι πόλεις.",
    "Great game last night 🎉🏀, we won 101-99 in overtime 😄!!!",
    "  Tabs\tand\nline  breaks, a soft\u00adhyphen, a zero\u200bwidth space and a no-break\u00a0space.  ",
    "Supercalifragilisticexpialidocious antidisestablishmentarianism, " + "z" * 101 + " and " + "no" * 50 + ".",
    "std::vector<int> v{1, 2, 3}; for (auto& x : v) x *= 2;  // doubles every element",
    LONG,
]


def read_safetensors(path):
    """The tensors of a safetensors file: a length, a JSON header with types, shapes and offsets, then the bytes."""
    types = {"F32": numpy.dtype("<f4"), "I64": numpy.dtype("<i8")}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            array = numpy.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = torch.from_numpy(array.astype(numpy.float64))
    return tensors


def affine(x, w, name):
    return torch.einsum("ti,oi->to", x, w[name + ".weight"]) + w[name + ".bias"]


def normalise(x, w, name, epsilon):
    centred = x - x.mean(1, keepdim=True)
    variance = centred.square().mean(1, keepdim=True)
    return centred * (variance + epsilon).rsqrt() * w[name + ".weight"] + w[name + ".bias"]


def gelu(x):
    return x * torch.special.ndtr(x)


def attention(x, w, name, heads):
    """Head by head, so that no reshaping of heads can go wrong."""
    size = x.shape[1] // heads
    query, key, value = (affine(x, w, f"{name}.{part}") for part in ("query", "key", "value"))
    outputs = []
    for head in range(heads):
        columns = slice(head * size, (head + 1) * size)
        scores = torch.einsum("ts,us->tu", query[:, columns], key[:, columns]) * size**-0.5
        weights = torch.exp(scores - torch.logsumexp(scores, 1, keepdim=True))
        outputs.append(torch.einsum("tu,us->ts", weights, value[:, columns]))
    return torch.cat(outputs, 1)


def layer(x, w, name, config):
    epsilon = config["layer_norm_eps"]
    attended = attention(x, w, f"{name}.attention.self", config["num_attention_heads"])
    x = normalise(x + affine(attended, w, f"{name}.attention.output.dense"), w, f"{name}.attention.output.LayerNorm",
                  epsilon)
    widened = gelu(affine(x, w, f"{name}.intermediate.dense"))
    return normalise(x + affine(widened, w, f"{name}.output.dense"), w, f"{name}.output.LayerNorm", epsilon)


def embed(ids, w, config):
    """The sentence of these token ids as a vector of length 1."""
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)] + w["embeddings.token_type_embeddings.weight"][0]
    x = normalise(x, w, "embeddings.LayerNorm", config["layer_norm_eps"])
    for i in range(config["num_hidden_layers"]):
        x = layer(x, w, f"encoder.layer.{i}", config)
    mean = x.mean(0)
    return mean / math.sqrt(mean.square().sum())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=ROOT / "build/models/all-MiniLM-L6-v2")
    parser.add_argument("--digits", type=int, default=12, help="significant digits of each number")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()

    config = json.loads((options.model / "config.json").read_text())
    weights = read_safetensors(options.model / "model.safetensors")
    tokenizer = BertWordPieceTokenizer(str(options.model / "vocab.txt"), lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)

    cases = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        embedding = [float(f"{x:.{options.digits}g}") for x in embed(ids, weights, config).tolist()]
        fields = [f'"{key}": {json.dumps(value, ensure_ascii=False)}'
                  for key, value in (("text", text), ("ids", ids), ("embedding", embedding))]
        cases.append("{" + ",\n ".join(fields) + "}")
    head = json.dumps({"model": "all-MiniLM-L6-v2", "max_tokens": MAX_TOKENS})
    options.output.write_text(head[:-1] + ', "cases": [\n' + ",\n".join(cases) + "\n]}\n", encoding="utf-8")
    print(f"{len(cases)} sentences, {options.output.stat().st_size} bytes: {options.output}")


if __name__ == "__main__":
    main()
