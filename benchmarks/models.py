"""Real models with random weights, made from configurations alone: for tests and benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SEED = 1234


@dataclass(frozen=True)
class Case:
    """A model, its keyword inputs, and how to read one loss from its output."""

    model: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    loss: Callable[[Any], torch.Tensor]


def _tokens(rows: int, columns: int, vocabulary: int) -> torch.Tensor:
    return torch.randint(3, vocabulary, (rows, columns))


def _sum_of_squares(name: str) -> Callable[[Any], torch.Tensor]:
    return lambda output: getattr(output, name).float().square().mean()


def gpt2(tiny: bool) -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2 if tiny else 12,
        n_embd=32 if tiny else 128,
        n_head=4,
        vocab_size=200 if tiny else 1000,
        n_positions=128,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Case(GPT2LMHeadModel(config), {"input_ids": _tokens(2, 16, config.vocab_size)}, _sum_of_squares("logits"))


def bert(tiny: bool) -> Case:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        num_hidden_layers=1 if tiny else 6,
        hidden_size=32 if tiny else 128,
        intermediate_size=64 if tiny else 512,
        num_attention_heads=4,
        vocab_size=200 if tiny else 1000,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    tokens = _tokens(2, 16, config.vocab_size)
    inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    return Case(BertModel(config), inputs, _sum_of_squares("last_hidden_state"))


def vit(tiny: bool) -> Case:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        num_hidden_layers=1 if tiny else 6,
        hidden_size=32 if tiny else 128,
        intermediate_size=64 if tiny else 512,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Case(ViTModel(config), {"pixel_values": torch.randn(2, 3, 32, 32)}, _sum_of_squares("last_hidden_state"))


def llama(tiny: bool, layers: int = 6) -> Case:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=1 if tiny else layers,
        hidden_size=32 if tiny else 128,
        intermediate_size=64 if tiny else 384,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=200 if tiny else 1000,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    inputs = {"input_ids": _tokens(2, 16, config.vocab_size)}
    return Case(LlamaForCausalLM(config), inputs, _sum_of_squares("logits"))


def llama32(tiny: bool) -> Case:
    return llama(tiny, layers=32)


def t5(tiny: bool) -> Case:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        num_layers=1 if tiny else 4,
        d_model=32 if tiny else 128,
        d_ff=64 if tiny else 256,
        d_kv=8 if tiny else 32,
        num_heads=4,
        vocab_size=200 if tiny else 1000,
        dropout_rate=0.0,
        use_cache=False,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    inputs = {
        "input_ids": _tokens(2, 12, config.vocab_size),
        "decoder_input_ids": _tokens(2, 8, config.vocab_size),
    }
    return Case(T5ForConditionalGeneration(config), inputs, _sum_of_squares("logits"))


class _Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(width)
        self.second = torch.nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(x + self.second(torch.relu(self.norm(self.first(x)))))


class ConvNet(torch.nn.Module):
    """A small residual network; batch norm mutates its buffers when training."""

    def __init__(self, depth: int, width: int) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = torch.nn.ModuleList(_Residual(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.max_pool2d(self.stem(x), 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def conv(tiny: bool) -> Case:
    model = ConvNet(1 if tiny else 6, 8 if tiny else 32)
    return Case(model, {"x": torch.randn(2, 3, 32, 32)}, lambda output: output.square().mean())


def whisper(tiny: bool) -> Case:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        encoder_layers=1 if tiny else 4,
        decoder_layers=1 if tiny else 4,
        d_model=32 if tiny else 128,
        encoder_ffn_dim=64 if tiny else 256,
        decoder_ffn_dim=64 if tiny else 256,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        num_mel_bins=16,
        max_source_positions=32,
        max_target_positions=32,
        vocab_size=200 if tiny else 1000,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    inputs = {"input_features": torch.randn(2, 16, 64), "decoder_input_ids": _tokens(2, 12, config.vocab_size)}
    return Case(WhisperForConditionalGeneration(config), inputs, _sum_of_squares("logits"))


class Stages(torch.nn.Module):
    """Blocks that each have a width and a size of their own, so that no two share a kernel: much to compile."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        widths = [16 + 3 * number for number in range(blocks + 1)]
        self.mixes = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for width in widths[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for mix, norm in zip(self.mixes, self.norms, strict=True):
            x = torch.nn.functional.gelu(norm(mix(x)))[:, 1:].softmax(1)
        return x


def stages(tiny: bool) -> Case:
    blocks = 3 if tiny else 70
    return Case(Stages(blocks), {"x": torch.randn(2, 64, 16)}, lambda output: output.square().mean())


MODELS: dict[str, Callable[[bool], Case]] = {
    "gpt2": gpt2,
    "bert": bert,
    "vit": vit,
    "llama": llama,
    "llama32": llama32,
    "t5": t5,
    "whisper": whisper,
    "conv": conv,
    "stages": stages,
}


def make(name: str, *, tiny: bool) -> Case:
    """The same model and inputs in every process: one of MODELS, or of LARGE_MODELS (which are for a GPU)."""
    torch.manual_seed(SEED)
    if name in MODELS:
        return MODELS[name](tiny)
    from large_models import LARGE_MODELS  # beside the worker, which is run as a script

    return Case(*LARGE_MODELS[name](tiny))
