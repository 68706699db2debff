"""QLoRA: a small Llama in 4 bits by bitsandbytes, with adapters by peft that get the gradients.

warmgraph run examples/programs/qlora.py
"""

import tempfile

import first_call
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
        max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    bits = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16,
        bnb_4bit_use_double_quant=True,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, quantization_config=bits, device_map={"": "cpu"})
    adapters = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(prepare_model_for_kbit_training(model), adapters)
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
