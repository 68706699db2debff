"""vLLM, offline, an 8-layer Llama with random weights. Nothing but the backend is said.

VLLM_CPU_KVCACHE_SPACE=1 python examples/programs/vllm_offline.py warmgraph   # or: stock
"""

import json
import os
import sys
from pathlib import Path

import first_call
from vllm import LLM, SamplingParams

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 8,
    "vocab_size": 2048,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def main(backend: str) -> None:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    said = {"compilation_config": {"mode": 2, "backend": backend}} if backend != "stock" else {}
    folder = Path("vllm-llama")  # the same for each start: it is in the name of what vLLM itself keeps
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA))
    first_call.begin()
    engine = LLM(
        str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", max_model_len=256,
        max_num_seqs=8, seed=0, **said,
    )  # fmt: skip
    first_call.done()
    sampling = SamplingParams(max_tokens=12, temperature=0, detokenize=False)
    prompts = [{"prompt_token_ids": [1, 5, 9, 33, 7]}, {"prompt_token_ids": [1, 8]}]
    found = engine.generate(prompts, sampling, use_tqdm=False)
    first_call.report([list(one.outputs[0].token_ids) for one in found])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "warmgraph")
