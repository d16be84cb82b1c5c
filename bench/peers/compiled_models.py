"""The models of bench/compiled_models.hpp in PyTorch, with the same weights and inputs: both sides draw the same
numbers in the same order. Those of the zoo are read as fxx traces them.

make(name, stem) returns (module, inputs). MiniLM's weights are read from $FXX_MODEL_DIR.
"""
import math
import os

import torch
import torch.nn.functional as F
import traced_models
from torch import nn


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(o)
        same = stride == 1 and i == o
        self.downsample = None if same else nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)

        def layer(i, o, stride):
            return nn.Sequential(Block(i, o, stride), Block(o, o, 1))

        self.layer1, self.layer2 = layer(64, 64, 1), layer(64, 128, 2)
        self.layer3, self.layer4 = layer(128, 256, 2), layer(256, 512, 2)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Pointwise(nn.Module):
    def forward(self, x, y):
        a = torch.sigmoid(x) * y + torch.tanh(x - y)
        b = torch.relu(a) * 0.5 + torch.exp(-a * a)
        return torch.sqrt(torch.abs(b) + 1e-3) / (1 + torch.abs(a)) + x.clamp(-1, 1) * y


def split(y, heads):
    b, t, d = y.shape
    return y.view(b, t, heads, d // heads).transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, d=256, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        y = self.n1(x)
        a = F.scaled_dot_product_attention(*(split(f(y), self.heads) for f in (self.q, self.k, self.v)))
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.f2(F.gelu(self.f1(self.n2(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[EncoderLayer() for _ in range(4)])

    def forward(self, x):
        return self.layers(x)


class InvertedResidual(nn.Module):
    def __init__(self, i, o, stride, expand):
        super().__init__()
        h = i * expand
        self.residual = stride == 1 and i == o
        self.conv = nn.Sequential(
            nn.Conv2d(i, h, 1, bias=False), nn.BatchNorm2d(h), nn.ReLU6(inplace=True),
            nn.Conv2d(h, h, 3, stride, 1, groups=h, bias=False), nn.BatchNorm2d(h), nn.ReLU6(inplace=True),
            nn.Conv2d(h, o, 1, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        rows = [(32, 16, 1, 1), (16, 24, 2, 6), (24, 24, 1, 6), (24, 32, 2, 6), (32, 32, 1, 6), (32, 64, 2, 6),
                (64, 64, 1, 6), (64, 96, 1, 6), (96, 96, 1, 6), (96, 160, 2, 6), (160, 160, 1, 6), (160, 320, 1, 6)]
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(inplace=True))
        self.blocks = nn.Sequential(*[InvertedResidual(*row) for row in rows])
        self.head = nn.Sequential(nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(inplace=True))
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x):
        return self.fc(self.head(self.blocks(self.stem(x))).mean((2, 3)))


class LstmTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(128, 128, num_layers=2, batch_first=True)
        self.out = nn.Linear(128, 20)

    def forward(self, x):
        return F.log_softmax(self.out(self.lstm(x)[0]), dim=-1)


class DoubleConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(i, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.c2, self.n2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)

    def forward(self, x):
        return torch.relu(self.n2(self.c2(torch.relu(self.n1(self.c1(x))))))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.e1, self.e2, self.mid = DoubleConv(3, 64), DoubleConv(64, 128), DoubleConv(128, 256)
        self.u2, self.d2 = nn.ConvTranspose2d(256, 128, 2, 2), DoubleConv(256, 128)
        self.u1, self.d1 = nn.ConvTranspose2d(128, 64, 2, 2), DoubleConv(128, 64)
        self.out = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        d = self.d2(torch.cat([b, self.u2(c)], 1))
        return self.out(self.d1(torch.cat([a, self.u1(d)], 1)))


class DecodeLayer(nn.Module):
    def __init__(self, d=768, heads=12):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.f1, self.f2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, k, v):
        b, t, d = x.shape
        parts = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, new_k, new_v = parts.unbind(0)
        k, v = torch.cat([k, new_k], 2), torch.cat([v, new_v], 2)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.o(a.transpose(1, 2).reshape(b, t, d))
        return x + self.f2(F.gelu(self.f1(self.n2(x)))), k, v


class GptDecode(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(DecodeLayer() for _ in range(12))

    def forward(self, x, keys, values):
        ks, vs = [], []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, keys[i], values[i])
            ks.append(k)
            vs.append(v)
        return x, torch.stack(ks), torch.stack(vs)


def holder(**modules):
    """Modules under a name, as the checkpoint nests them."""
    module = nn.Module()
    for name, value in modules.items():
        setattr(module, name, value)
    return module


class MiniLM(nn.Module):
    """all-MiniLM-L6-v2 with its sentence head, names as in the checkpoint. Attention and GELU as Hugging Face's BERT
    calls them, which the peers know; examples/sentence_search/bert.hpp spells them out."""

    def __init__(self, d=384, layers=6):
        super().__init__()

        def norm():
            return nn.LayerNorm(d, 1e-12)

        self.embeddings = holder(word_embeddings=nn.Embedding(30522, d), position_embeddings=nn.Embedding(512, d),
                                 token_type_embeddings=nn.Embedding(2, d), LayerNorm=norm())
        self.encoder = holder(layer=nn.ModuleList(holder(
            attention=holder(self=holder(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)),
                             output=holder(dense=nn.Linear(d, d), LayerNorm=norm())),
            intermediate=holder(dense=nn.Linear(d, 4 * d)),
            output=holder(dense=nn.Linear(4 * d, d), LayerNorm=norm())) for _ in range(layers)))

    def forward(self, ids, mask):
        e = self.embeddings
        b, t = ids.shape
        x = e.word_embeddings(ids) + e.token_type_embeddings.weight[0] + e.position_embeddings.weight[:t]
        x = e.LayerNorm(x)
        real = mask.to(x.dtype)
        added = (1.0 - real[:, None, None, :]) * -10000.0
        for layer in self.encoder.layer:
            a = layer.attention
            q, k, v = (split(f(x), 12) for f in (a.self.query, a.self.key, a.self.value))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=added).transpose(1, 2).reshape(x.shape)
            x = a.output.LayerNorm(a.output.dense(y) + x)
            x = layer.output.LayerNorm(layer.output.dense(F.gelu(layer.intermediate.dense(x))) + x)
        weights = real[:, :, None]
        return F.normalize((x * weights).sum(1) / weights.sum(1).clamp(min=1e-9), dim=1)


def load_minilm(module):
    """The weights of the published file, by name; what belongs to another head stays out."""
    wanted = dict(module.state_dict())
    for name, tensor in traced_models.tensors_of(f'{os.environ["FXX_MODEL_DIR"]}/model.safetensors').items():
        if name in wanted:
            wanted.pop(name).copy_(tensor)
    assert not wanted, f'the file lacks {sorted(wanted)}'


def normal(*shapes):
    return lambda: tuple(torch.randn(shape) for shape in shapes)


def tokens():
    return torch.randint(1000, 30000, (1, 128)), torch.ones(1, 128, dtype=torch.long)


MODELS = {
    'resnet18': (ResNet18, normal((1, 3, 224, 224))),
    'resnet18/b8': (ResNet18, normal((8, 3, 224, 224))),
    'mobilenet': (MobileNet, normal((1, 3, 224, 224))),
    'unet': (UNet, normal((1, 3, 128, 128))),
    'encoder': (Encoder, normal((1, 128, 256))),
    'minilm': (MiniLM, tokens),
    'gpt_decode': (GptDecode, normal((1, 1, 768), (12, 1, 12, 255, 64), (12, 1, 12, 255, 64))),
    'lstm': (LstmTagger, normal((1, 32, 128))),
    'mlp': (Mlp, normal((1, 256))),
    'mlp/b8': (Mlp, normal((8, 256))),
    'pointwise_64k': (Pointwise, normal((1 << 16,), (1 << 16,))),
    'pointwise_64': (Pointwise, normal((64,), (64,))),
}


@torch.no_grad()
def make(name, stem='', double=False):
    """`stem`: where the trace of a model of the zoo lies (zoo/resnet50), without its ending."""
    if name.startswith('zoo/'):
        return traced_models.read(stem, double)
    kind, inputs = MODELS[name]
    module = kind().eval()
    torch.manual_seed(0)
    for key, p in module.named_parameters():
        if p.dim() == 1 and key.endswith('weight'):
            p.uniform_(0.5, 1.5)
        else:
            reach = math.sqrt(3.0 * p.size(0) / p.numel()) if p.dim() > 1 else 0.1
            p.uniform_(-reach, reach)
    for key, b in module.named_buffers():
        if key.endswith('running_mean'):
            b.uniform_(-0.1, 0.1)
        if key.endswith('running_var'):
            b.uniform_(0.5, 1.5)
    given = inputs()
    if name == 'minilm':
        load_minilm(module)
    if double:
        return module.double(), tuple(t.double() if t.is_floating_point() else t for t in given)
    return module, given
