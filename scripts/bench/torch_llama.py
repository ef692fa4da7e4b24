# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the model of inputs/bench/cpu_llama.yaml with PyTorch on the CPU and prints one JSON line.

Same shapes, FP32, AdamW with decay on matrices only, clipping, causal scaled_dot_product_attention,
a batch of random tokens a step. With --compile, through torch.compile.
"""
import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

HIDDEN, FFN, LAYERS, HEADS, VOCAB, SEQ, BATCH = 512, 1408, 4, 8, 4096, 256, 8
WIDTH = HIDDEN // HEADS


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.rms_norm(x, (HIDDEN,), self.weight, 1e-5)


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=0.02)
    return layer


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.qkv, self.proj = linear(HIDDEN, 3 * HIDDEN), linear(HIDDEN, HIDDEN)
        self.gate_up, self.down = linear(HIDDEN, 2 * FFN), linear(FFN, HIDDEN)

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm1(x)).view(BATCH, SEQ, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.proj(o.transpose(1, 2).reshape(BATCH, SEQ, HIDDEN))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, HIDDEN)
        nn.init.normal_(self.table.weight, std=0.02)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(), linear(HIDDEN, VOCAB)

    def forward(self, tokens, cos, sin):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--skip", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--settings", action="store_true", help="print version and parallel settings only")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.settings:
        print(f"PyTorch {torch.__version__}")
        print(torch.__config__.parallel_info())
        return
    torch.manual_seed(1)
    model = Llama()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.95), foreach=True)
    angles = torch.arange(SEQ)[:, None] * 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    cos, sin = angles.cos(), angles.sin()
    step_model = torch.compile(model) if args.compile else model
    times = []
    for _ in range(args.skip + args.steps):
        tokens = torch.randint(0, VOCAB, (BATCH, SEQ + 1))
        start = time.perf_counter()
        logits = step_model(tokens[:, :-1], cos, sin)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.perf_counter() - start)
    step = statistics.mean(times[args.skip:])
    print(json.dumps({"tokens_per_s": BATCH * SEQ / step, "step_s": step, "loss": float(loss.detach())}))


if __name__ == "__main__":
    main()
