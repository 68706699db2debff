"""`generate` of transformers with a static key-value cache, which compiles the decoding step.

warmgraph run examples/programs/generate_static.py
"""

import first_call
import torch
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=64,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.pad_token_id = 0
    # Transformers compiles on accelerators by itself; on a CPU it is told to.
    compiling = CompileConfig(fullgraph=False, mode="default")
    compiling._compile_all_devices = True
    ids = torch.randint(1, 512, (2, 8))
    first_call.begin()
    tokens = model.generate(
        ids, max_new_tokens=8, do_sample=False, cache_implementation="static", compile_config=compiling
    )
    first_call.done()
    first_call.report([tokens])


if __name__ == "__main__":
    main()
