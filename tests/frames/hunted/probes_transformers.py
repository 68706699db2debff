# ruff: noqa
"""Candidates: small models of transformers, peft, accelerate, diffusers, with one thing changed."""

from __future__ import annotations

import os

import torch
from probe import args, put, set_

LLAMA = """
import torch, transformers
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama import modeling_llama
from transformers import masking_utils
config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, use_cache=False)
config._attn_implementation = "sdpa"
torch.manual_seed(0)
net = LlamaForCausalLM(config)
def MLP(): return net
def attend(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **kwargs):
    out, _ = modeling_llama.eager_attention_forward(module, query, key, value, None, scaling)
    return out * 2, None
def mask(*a, **k): return None
def double_rope(q, k, cos, sin, unsqueeze_dim=1): return q * 2, k
def my_loss(logits, labels, vocab_size, **k): return logits.sum() * 0.001
"""


def ids():
    return (torch.arange(8).reshape(1, 8) % 32,)


def llama(name, source=LLAMA, **more):
    put(f"hf: {name}", source, "model", **{"args": ids, **more})


def register(scene):
    scene.m.ALL_ATTENTION_FUNCTIONS.register("sdpa", scene.m.attend)


def local(scene):
    scene.m.ALL_ATTENTION_FUNCTIONS["sdpa"] = scene.m.attend


def registered_mask(scene):
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    ALL_MASK_ATTENTION_FUNCTIONS.register("sdpa", scene.m.mask)


def mask_function(scene):
    scene.m.masking_utils.causal_mask_function = lambda b, h, q, k: k >= q


def rotate(scene):
    scene.m.modeling_llama.rotate_half = lambda x: x * 2


def rms(scene):
    scene.m.modeling_llama.LlamaRMSNorm.forward = lambda self, x: x * self.weight


def gelu(scene):
    scene.net = scene.m.net
    for layer in scene.m.net.model.layers:
        layer.mlp.act_fn = torch.nn.GELU()


llama("nothing", restores=True)
llama("another attention under that name", change=register)
llama("another attention, here", change=local)
llama("another mask under that name", change=registered_mask, agrees=True)
llama("another mask function", change=mask_function, agrees=True)
llama("apply_rotary_pos_emb", change=lambda s: setattr(s.m.modeling_llama, "apply_rotary_pos_emb", s.m.double_rope))
llama("rotate_half", change=rotate)
llama("the norm's forward", change=rms)
llama("another activation", change=gelu)
llama("fewer layers", change=set_("m.net.model.config.num_hidden_layers", 1))
llama("eager", change=set_("m.net.model.config._attn_implementation", "eager"), agrees=True)
llama("hidden states", change=set_("m.net.model.config.output_hidden_states", True))
llama("no dict", change=set_("m.net.config.return_dict", False))
llama("not causal", change=set_("m.net.model.config.is_causal", False))
llama("a factor of the rope", change=set_("m.net.model.rotary_emb.attention_scaling", 2.0))
llama("another type of the rope", change=set_("m.net.model.rotary_emb.rope_type", "dynamic"), agrees=True)
llama(
    "grouped attention by a variable",
    change=lambda s: os.environ.__setitem__("TRANSFORMERS_SDPA_FORCE_GQA", "1"),
    agrees=True,
)
llama("tied", change=lambda s: setattr(s.m.net.lm_head, "weight", s.m.net.model.embed_tokens.weight))
llama(
    "a buffer's type",
    change=lambda s: setattr(s.m.net.model.rotary_emb, "inv_freq", s.m.net.model.rotary_emb.inv_freq.bfloat16()),
)
llama("scaling", change=lambda s: setattr(s.m.net.model.layers[1].self_attn, "scaling", 2.0))


def other_map(scene):
    vars(scene.m.config)["pad_layers"] = 1
    type(scene.m.config).attribute_map = {"num_hidden_layers": "pad_layers"}


llama("an attribute_map", change=other_map)
llama("use_cache", change=set_("m.net.model.config.use_cache", True), agrees=True)
LOSS = (
    LLAMA
    + """
def MLP():
    class Loss(torch.nn.Module):
        def __init__(self): super().__init__(); self.net = net
        def forward(self, ids): return self.net(input_ids=ids, labels=ids, num_items_in_batch=None).loss
    return Loss()
"""
)


def loss_mapping(scene):
    from transformers.loss.loss_utils import LOSS_MAPPING

    LOSS_MAPPING["ForCausalLM"] = scene.m.my_loss


llama("another loss of that name", source=LOSS, change=loss_mapping)
llama("another loss type", source=LOSS, change=set_("m.net.loss_type", "ForMaskedLM"))

TRAIN = (
    LLAMA
    + """
net.train().requires_grad_(True)
def step(ids):
    return net(input_ids=ids).logits
"""
)
put(
    "hf: checkpointing is on",
    TRAIN,
    "step",
    args=ids,
    change=lambda s: s.m.net.gradient_checkpointing_enable({"use_reentrant": False}),
    agrees=True,
)
put(
    "hf: attention dropout",
    TRAIN,
    "step",
    args=ids,
    change=lambda s: [setattr(l.self_attn, "attention_dropout", 0.5) for l in s.m.net.model.layers],
    random=True,
)

PEFT = (
    LLAMA
    + """
from peft import LoraConfig, get_peft_model
torch.manual_seed(3)
wrapped = get_peft_model(net, LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False))
wrapped.add_adapter("other", LoraConfig(r=2, lora_alpha=8, target_modules=["q_proj"], init_lora_weights=False))
wrapped.eval().requires_grad_(False)
def MLP(): return wrapped
"""
)


def scaling(scene):
    for module in scene.m.wrapped.modules():
        if hasattr(module, "lora_A"):
            module.scaling["default"] = 9.0


llama("lora, nothing", source=PEFT, restores=True)
llama("lora, scaling", source=PEFT, change=scaling)
llama("lora, another adapter", source=PEFT, change=lambda s: s.m.wrapped.set_adapter("other"))
llama("lora, disabled", source=PEFT, change=lambda s: s.m.wrapped.base_model.disable_adapter_layers())
llama("lora, merged", source=PEFT, change=lambda s: s.m.wrapped.merge_adapter())

ACCELERATE = (
    LLAMA
    + """
from accelerate.hooks import ModelHook, add_hook_to_module
class Hook(ModelHook):
    factor = 2.0
    def __init__(self, k=3.0): self.k = k
    def post_forward(self, module, output): return output * self.k * self.factor
add_hook_to_module(net.model.layers[0].mlp, Hook())
"""
)
llama("a hook of accelerate, nothing", source=ACCELERATE, restores=True)
llama(
    "a hook of accelerate, its attribute",
    source=ACCELERATE,
    change=lambda s: setattr(s.m.net.model.layers[0].mlp._hf_hook, "k", 5.0),
)
llama("a hook of accelerate, its class", source=ACCELERATE, change=set_("m.Hook.factor", 5.0))
llama(
    "a hook of accelerate, another",
    source=ACCELERATE,
    change=lambda s: setattr(s.m.net.model.layers[0].mlp, "_hf_hook", s.m.Hook(7.0)),
)

GPT = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(vocab_size=32, n_positions=32, n_embd=16, n_layer=2, n_head=2, use_cache=False)
torch.manual_seed(0)
net = GPT2LMHeadModel(config)
def MLP(): return net
"""
llama("gpt2, nothing", source=GPT, restores=True)
llama(
    "gpt2, layers are reordered",
    source=GPT,
    change=lambda s: setattr(s.m.config, "scale_attn_by_inverse_layer_idx", True),
    agrees=True,
)
llama(
    "gpt2, scaled by layer",
    source=GPT,
    change=lambda s: [setattr(b.attn, "scale_attn_by_inverse_layer_idx", True) for b in s.m.net.transformer.h],
    agrees=True,
)
llama(
    "gpt2, upcast",
    source=GPT,
    change=lambda s: [setattr(b.attn, "reorder_and_upcast_attn", True) for b in s.m.net.transformer.h],
    agrees=True,
)
llama(
    "gpt2, another hidden_size by its map",
    source=GPT,
    change=lambda s: type(s.m.config).attribute_map.update(use_return_dict="x"),
    agrees=True,
)

DIFFUSERS = """
import torch
from diffusers import UNet2DConditionModel
torch.manual_seed(0)
net = UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 32),
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=16, attention_head_dim=8, norm_num_groups=8)
def MLP(): return net
class Mine:
    def __call__(self, attn, hidden_states, *a, **k): return hidden_states * 2
"""


def latents():
    return (torch.randn(1, 4, 8, 8), torch.tensor([3]), torch.randn(1, 5, 16))


def npu(scene):
    import diffusers.models.attention_processor as ap

    ap.AttnProcessor2_0.__call__ = scene.m.Mine.__call__


def diffusion(name, **more):
    llama(f"diffusers, {name}", source=DIFFUSERS, args=latents, **more)


diffusion("nothing", restores=True)
diffusion("another processor", change=lambda s: s.m.net.set_attn_processor(s.m.Mine()))
diffusion("the processor's class", change=npu)
diffusion("freeu", change=lambda s: s.m.net.enable_freeu(0.9, 0.2, 1.2, 1.4))
diffusion(
    "a frozen config",
    change=lambda s: (
        s.m.net._internal_dict.__class__
        and setattr(
            s.m.net,
            "_internal_dict",
            type(s.m.net._internal_dict)({**s.m.net._internal_dict, "center_input_sample": True}),
        )
    ),
)
