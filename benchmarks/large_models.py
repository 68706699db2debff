"""Models of the sizes that people run on one GPU, random weights, from configurations; some in plain torch.

GPT-2, BERT and Llama come from transformers. `decoder_1b` is Llama's shape in plain torch, for where transformers is
missing, and `resnet50` is plain torch anyway: there is always something to measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def gpt2_124m(tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor], Callable[[Any], torch.Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    small = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 200} if tiny else {}
    undropped = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(**small, **undropped, use_cache=False, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(config), _tokens(tiny, 4, config.vocab_size), _loss("logits")


def bert_base(tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor], Callable[[Any], torch.Tensor]]:
    from transformers import BertConfig, BertModel

    small = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    config = BertConfig(
        **(small | {"vocab_size": 200} if tiny else {}), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    inputs = _tokens(tiny, 8, config.vocab_size)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return BertModel(config), inputs, _loss("last_hidden_state")


# Llama 3.2's smallest: 1.24 billion parameters with its tied embedding.
LLAMA = {"hidden_size": 2048, "layers": 16, "heads": 32, "kv_heads": 8, "intermediate_size": 8192, "vocabulary": 128256}
LITTLE = {"hidden_size": 32, "layers": 2, "heads": 4, "kv_heads": 2, "intermediate_size": 64, "vocabulary": 200}


def llama_1b(tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor], Callable[[Any], torch.Tensor]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    size = LITTLE if tiny else LLAMA
    config = LlamaConfig(
        hidden_size=size["hidden_size"],
        intermediate_size=size["intermediate_size"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        num_key_value_heads=size["kv_heads"],
        vocab_size=size["vocabulary"],
        tie_word_embeddings=True,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    return model, _tokens(tiny, 1, config.vocab_size), _loss("logits")


class Block(nn.Module):
    """Attention and a gated feed-forward, each behind an RMS norm; rotary positions; keys shared by heads."""

    def __init__(self, size: dict[str, int]) -> None:
        super().__init__()
        width, self.heads, self.kv_heads = size["hidden_size"], size["heads"], size["kv_heads"]
        self.head = width // self.heads
        self.attention_norm = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * self.kv_heads * self.head, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm = nn.RMSNorm(width)
        self.gate_up = nn.Linear(width, 2 * size["intermediate_size"], bias=False)
        self.down = nn.Linear(size["intermediate_size"], width, bias=False)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        normed = self.attention_norm(x)
        query = self.query(normed).view(rows, length, self.heads, self.head).transpose(1, 2)
        both = self.key_value(normed).view(rows, length, 2 * self.kv_heads, self.head).transpose(1, 2)
        key, value = both.chunk(2, 1)
        seen = nn.functional.scaled_dot_product_attention(
            rotated(query, turn), rotated(key, turn), value, is_causal=True, enable_gqa=True
        )
        x = x + self.out(seen.transpose(1, 2).reshape(x.shape))
        gate, up = self.gate_up(self.norm(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


def rotated(x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """`x` with its two halves turned by the angles whose cosines and sines `turn` holds."""
    one, other = x.chunk(2, -1)
    cos, sin = turn
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)


class Decoder(nn.Module):
    """Llama's shape; logits share the embedding's weights."""

    def __init__(self, size: dict[str, int]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size["vocabulary"], size["hidden_size"])
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(size) for _ in range(size["layers"]))
        self.norm = nn.RMSNorm(size["hidden_size"])
        self.half = size["hidden_size"] // size["heads"] // 2

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(input_ids)
        speeds = 10_000.0 ** (-torch.arange(self.half, device=x.device) / self.half)
        angles = torch.arange(input_ids.shape[1], device=x.device)[:, None] * speeds  # in full precision
        turn = torch.stack((angles.cos(), angles.sin())).to(x.dtype)
        for block in self.blocks:
            x = block(x, turn)
        return nn.functional.linear(self.norm(x), self.embedding.weight)


def decoder_1b(tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor], Callable[[Any], torch.Tensor]]:
    size = LITTLE if tiny else LLAMA
    return Decoder(size).to(torch.bfloat16), _tokens(tiny, 1, size["vocabulary"]), _mean_square


class Bottleneck(nn.Module):
    """ResNet's block of three convolutions; batch norm mutates its buffers when training."""

    def __init__(self, inside: int, width: int, stride: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            [
                nn.Conv2d(inside, width, 1, bias=False),
                nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
                nn.Conv2d(width, 4 * width, 1, bias=False),
            ]
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(conv.out_channels) for conv in self.convs)
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inside != 4 * width:
            self.skip = nn.Sequential(
                nn.Conv2d(inside, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = x
        for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            found = norm(conv(found))
            if number < 2:
                found = torch.relu(found)
        return torch.relu(found + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, depths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(width))
        blocks, inside = [], width
        for stage, depth in enumerate(depths):
            for number in range(depth):
                blocks.append(Bottleneck(inside, width * 2**stage, 2 if number == 0 and stage else 1))
                inside = 4 * width * 2**stage
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inside, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.stem(x)), 3, stride=2, padding=1)
        return self.head(self.blocks(x).mean((2, 3)))


def resnet50(tiny: bool) -> tuple[nn.Module, dict[str, torch.Tensor], Callable[[Any], torch.Tensor]]:
    model = ResNet((1, 1), 8) if tiny else ResNet((3, 4, 6, 3), 64)
    side = 32 if tiny else 224
    return model, {"x": torch.randn(2 if tiny else 16, 3, side, side)}, _mean_square


def _tokens(tiny: bool, rows: int, vocabulary: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(3, vocabulary, (2, 16) if tiny else (rows, 512))}


def _mean_square(output: torch.Tensor) -> torch.Tensor:
    return output.float().square().mean()


def _loss(name: str) -> Callable[[Any], torch.Tensor]:
    return lambda output: _mean_square(getattr(output, name))


LARGE_MODELS = {
    "gpt2_124m": gpt2_124m,
    "bert_base": bert_base,
    "llama_1b": llama_1b,
    "resnet50": resnet50,
    "decoder_1b": decoder_1b,
}
NEED_TRANSFORMERS = ("gpt2_124m", "bert_base", "llama_1b")
