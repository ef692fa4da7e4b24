# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""usage: huggingface_loss.py MODEL TEXT SEQ

Prints the mean loss of Hugging Face Transformers' model in the folder MODEL over all samples of TEXT: sample i is the
bytes i*SEQ to i*SEQ + SEQ, both included. Exit code 77, with the reason, if torch or transformers cannot be imported.
"""
import sys

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}: install torch and transformers, and set SHARD8_PYTHON to their python3")
    sys.exit(77)

folder, text, seq = sys.argv[1], sys.argv[2], int(sys.argv[3])
model, info = transformers.AutoModelForCausalLM.from_pretrained(
    folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"], info
tokens = torch.frombuffer(bytearray(open(text, "rb").read()), dtype=torch.uint8).long()
samples = (len(tokens) - 1) // seq
inputs = tokens[: samples * seq].view(samples, seq)
targets = tokens[1 : samples * seq + 1].view(samples, seq)
with torch.no_grad():
    logits = model.eval()(inputs).logits
print(torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), targets.flatten()).item())
