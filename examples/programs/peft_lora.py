"""LoRA with peft on a small Llama: only the adapters get gradients.

warmgraph run examples/programs/peft_lora.py
"""

import first_call
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    adapters = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.0, task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM(config), adapters)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    ids = torch.randint(512, (2, 32))
    losses = []
    first_call.begin()
    for _ in range(2):
        loss = compiled(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        first_call.done()
    first_call.report([*losses, *[p for p in model.parameters() if p.requires_grad]])


if __name__ == "__main__":
    main()
