"""One fresh process of the demo: GPT-2, one training step, timed. Writes JSON and tensors; shows nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path


def main(backend: str, out: str) -> int:
    import torch
    import torch._dynamo  # what torch.compile imports at its first call; not part of the first call here
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    torch.set_num_threads(1)  # parallel atomics round differently from run to run; this demo compares bits
    config = GPT2Config(
        n_layer=12,
        n_embd=128,
        n_head=4,
        vocab_size=1000,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = GPT2LMHeadModel(config)
    tokens = torch.randint(0, 1000, (2, 64))
    step = model if backend == "eager" else torch.compile(model, backend=backend)

    begin = time.perf_counter()
    logits = step(input_ids=tokens).logits
    logits.square().mean().backward()
    first = time.perf_counter() - begin

    torch.save([logits.detach(), *[p.grad for p in model.parameters()]], out + ".pt")
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    facts = {"pid": os.getpid(), "first_call": first, "compiler": compiler}
    Path(out + ".json").write_text(json.dumps(facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
