#!/usr/bin/env python3
"""A training step in bf16 and in fp8 on one GPU: tokens/s, J/token and loss after equal tokens.

    fp8_probe.py [--seconds S] [--out FILE.json]

Two copies of baseline_pipelining.py's Llama (1.36 billion parameters) with equal weights train on the same sequences in
the same order: bf16 with AdamW in fp32, blocks and loss compiled. In the fp8 copy the linear layers of all blocks but
the first and the last compute in fp8: activations and weights in e4m3, gradients in e5m2, each tensor scaled by its
present largest element (nothing is remembered between steps), output in bf16. Embedding, norms, attention and output
matrix are the same in both.

They take turns of some steps, A B, B A, until the time is over. Energy is that of the GPU's own counter, which is only
read, between the moments at which turns begin and end. A difference is that of the geometric means of pairs of turns,
with Student's 95 % interval; the first pair does not count.
"""

import argparse
import copy
import json
import math
import pathlib
import statistics
import threading
import time

START_S = time.perf_counter()

import torch
import torch.nn.functional as F
from torch import nn

import baseline_pipelining as job

E4M3, E5M2 = getattr(torch, "float8_e4m3fn", None), getattr(torch, "float8_e5m2", None)
LEAST_CAPABILITY = (8, 9)
MICROBATCHES, STEPS_A_TURN, WARM_UP_STEPS = 8, 4, 10
LEARNING_RATE, HELD_OUT_SEQUENCES = 3e-4, 32
WORDS, SUCCESSORS = 4096, (8, 4, 2, 1)
RESERVE_S = 12  # for the held-out loss and the end


def missing_fp8():
    """Why fp8 cannot be used here; empty: it can."""
    if E4M3 is None or not hasattr(torch, "_scaled_mm"):
        return f"PyTorch {torch.__version__} has no fp8"
    if not torch.cuda.is_available():
        return "there is no GPU"
    capability = torch.cuda.get_device_capability()
    if capability < LEAST_CAPABILITY:
        return "{} has compute capability {}.{}, and fp8 needs {}.{}".format(
            torch.cuda.get_device_name(), *capability, *LEAST_CAPABILITY)
    return ""


def quantized(tensor, type_):
    """The tensor in fp8, and what to multiply it with (fp32, one element)."""
    largest = torch.finfo(type_).max
    scale = largest / tensor.abs().amax().float().clamp(min=1e-12)
    return (tensor.float() * scale).clamp(-largest, largest).to(type_), scale.reciprocal()


def by_columns(matrix):
    """The same matrix, column by column in memory, as the second factor of `_scaled_mm` has to be."""
    return matrix.t().contiguous().t()


def product(a, b, fast):
    """(m, k) by (k, n) in fp8, each with its scale: (m, n) in bf16."""
    return torch._scaled_mm(a[0], b[0], scale_a=a[1], scale_b=b[1], out_dtype=torch.bfloat16, use_fast_accum=fast)


class Fp8Product(torch.autograd.Function):
    """x (m, k) by the transpose of weight (n, k); all three products of training in fp8."""

    @staticmethod
    def forward(context, x, weight):
        context.save_for_backward(x, weight)
        x8, weight8 = quantized(x, E4M3), quantized(weight, E4M3)
        return product(x8, (weight8[0].t(), weight8[1]), fast=True)

    @staticmethod
    def backward(context, gradient):
        x, weight = context.saved_tensors
        gradient8 = quantized(gradient, E5M2)
        x8, weight8 = quantized(x, E4M3), quantized(weight, E4M3)
        of_x = product(gradient8, (by_columns(weight8[0]), weight8[1]), fast=False)
        of_weight = product((gradient8[0].t().contiguous(), gradient8[1]), (by_columns(x8[0]), x8[1]), fast=False)
        return of_x, of_weight


if hasattr(torch, "_dynamo"):
    torch._dynamo.allow_in_graph(Fp8Product)


class Fp8Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight = linear.weight

    def forward(self, x):
        return Fp8Product.apply(x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


def use_fp8(model):
    """In all blocks but the first and the last, which are sensitive."""
    for block in model.blocks[1:-1]:
        for name, child in list(block.named_children()):
            if isinstance(child, nn.Linear):
                setattr(block, name, Fp8Linear(child))


class Copy:
    """A model in bf16 with what it needs to train: fp32 weights and moments."""

    def __init__(self, name, model, loss_of):
        self.name, self.model, self.loss_of = name, model, loss_of
        self.parameters = list(model.parameters())
        self.masters = [nn.Parameter(p.detach().float()) for p in self.parameters]
        for master in self.masters:
            master.grad = torch.zeros_like(master)
        on_gpu = self.parameters[0].is_cuda
        self.optimizer = torch.optim.AdamW(self.masters, lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1,
                                           **({"fused": True} if on_gpu else {}))
        self.losses = []  # tensors, by step

    def loss(self, sequences):
        return self.loss_of(self.model(sequences[:, :-1]), sequences[:, 1:])

    def step(self, sequences):
        """Of all the step's sequences, in microbatches."""
        total = 0
        for part in sequences.chunk(MICROBATCHES):
            loss = self.loss(part) / MICROBATCHES
            loss.backward()
            total = total + loss.detach()
        self.optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (len(self.losses) + 1) / WARM_UP_STEPS)
        self.losses.append(total)
        with torch.no_grad():
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.parameters])
            nn.utils.clip_grad_norm_(self.masters, 1.0)
            self.optimizer.step()
            torch._foreach_copy_(self.parameters, self.masters)
            torch._foreach_zero_([p.grad for p in self.parameters])


class EnergyTrack:
    """The GPU's energy at any moment: a thread notes when the counter changes, some ten times a second."""

    def __init__(self, read_j):
        self.read_j = read_j
        self.points = []  # (s, J)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        last = None
        while not self.stopping.wait(0.005):
            energy_j = self.read_j()
            if energy_j != last:
                self.points.append((time.perf_counter(), energy_j))
                last = energy_j

    def stop(self):
        """After the counter has changed once more."""
        time.sleep(0.3)
        self.stopping.set()
        self.thread.join()

    def at(self, time_s):
        """In J, between the changes around that time; nan outside of what was noted."""
        for (s0, j0), (s1, j1) in zip(self.points, self.points[1:]):
            if s0 <= time_s <= s1:
                return j0 + (j1 - j0) * (time_s - s0) / (s1 - s0)
        return math.nan


def make_sequences(count, device):
    """Sequences of words, each followed by one of four others with chances of 8, 4, 2 and 1 in 15: 1.1 nats a word."""
    generator = torch.Generator().manual_seed(7)
    words = min(WORDS, job.VOCABULARY)
    followers = torch.randint(0, words, (words, len(SUCCESSORS)), generator=generator).to(device)
    draws = torch.multinomial(torch.tensor(SUCCESSORS, dtype=torch.float), count * job.TIME, replacement=True,
                              generator=generator).view(job.TIME, count).to(device)
    rows = [torch.randint(0, words, (count,), generator=generator).to(device)]
    for draw in draws:
        rows.append(followers[rows[-1], draw])
    return torch.stack(rows, 1)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def turn(copy_, sequences, device):
    """Some steps of one copy, on the next sequences of its own; when they began and ended."""
    per_step = MICROBATCHES * job.MICROBATCH
    synchronize(device)
    begin_s = time.perf_counter()
    for _ in range(STEPS_A_TURN):
        first = len(copy_.losses) * per_step
        copy_.step(sequences[first:first + per_step])
    synchronize(device)
    return {"arm": copy_.name, "begin_s": begin_s, "end_s": time.perf_counter()}


def take_turns(copies, sequences, device, until_s):
    """Turns in the order A B, B A until the time or the text is over. Throws no error for too little of either."""
    turns, longest_s, pair = [], 0.0, 0
    per_turn = STEPS_A_TURN * MICROBATCHES * job.MICROBATCH
    while (pair + 1) * per_turn <= len(sequences) and time.perf_counter() + longest_s < until_s:
        began_s = time.perf_counter()
        for copy_ in copies if pair % 2 == 0 else reversed(copies):
            turns.append({**turn(copy_, sequences, device), "pair": pair})
        if pair > 0:
            longest_s = max(longest_s, time.perf_counter() - began_s)
        pair += 1
        print(f"{time.perf_counter() - START_S:6.1f} s  pair {pair}: " + ", ".join(
            f"{t['arm']} {t['end_s'] - t['begin_s']:.2f} s, loss {c.losses[-1].item():.4f}"
            for t in turns[-2:] for c in copies if c.name == t["arm"]), flush=True)
    return turns


STUDENT_95 = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
              2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
              2.045, 2.042]


def difference_pct(values, baseline):
    """Of the geometric means, in per cent, with the ends of its 95 % interval; None without values."""
    logs = [math.log(a / b) for a, b in zip(values, baseline) if math.isfinite(a / b)]
    if not logs:
        return None
    mean = statistics.fmean(logs)
    half = math.nan
    if len(logs) > 1:
        half = STUDENT_95[min(len(logs) - 1, len(STUDENT_95) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return [100 * math.expm1(x) for x in (mean, mean - half, mean + half)]


def summary(turns, track):
    """Times and energies of the pairs that count, by arm, and their differences."""
    tokens = STEPS_A_TURN * MICROBATCHES * job.MICROBATCH * job.TIME
    rates, joules = {"bf16": [], "fp8": []}, {"bf16": [], "fp8": []}
    for t in turns:
        t["energy_j"] = track.at(t["end_s"]) - track.at(t["begin_s"]) if track else math.nan
        if t["pair"] == 0:
            continue
        rates[t["arm"]].append(tokens / (t["end_s"] - t["begin_s"]))
        joules[t["arm"]].append(t["energy_j"] / tokens)
    result = {"pairs": len(rates["bf16"]), "tokens_a_turn": tokens}
    for arm in rates:
        result[arm] = {"tokens_per_s": statistics.fmean(rates[arm]), "j_per_token": statistics.fmean(joules[arm])}
    result["fp8_tokens_per_s_pct"] = difference_pct(rates["fp8"], rates["bf16"])
    result["fp8_j_per_token_pct"] = difference_pct(joules["fp8"], joules["bf16"])
    return result


def mean_loss(loss_of, sequences):
    return statistics.fmean(loss_of(part).item() for part in sequences.chunk(MICROBATCHES))


@torch.no_grad()
def eager_loss(copy_, sequences):
    """Without what was compiled."""
    x = copy_.model.embedding(sequences[:, :-1])
    for block in copy_.model.blocks:
        x = type(block).forward(block, x)
    return job.loss_of(copy_.model.head(copy_.model.norm(x)), sequences[:, 1:])


def add_losses(result, copies, sequences, held_out):
    """Over the last steps, and on sequences that none was trained on; of both after equal tokens. `checks` say where the
    fault is when a held-out loss contradicts the training: in the evaluation, if the last step's own sequences have such
    a loss, too; in the compiled code, if the eager one has another."""
    per_step = MICROBATCHES * job.MICROBATCH
    for copy_ in copies:
        losses = [loss.item() for loss in copy_.losses]
        last = losses[-max(1, len(losses) // 10):]
        trained = sequences[(len(losses) - 1) * per_step:len(losses) * per_step]
        eager = lambda part, copy_=copy_: eager_loss(copy_, part)
        result[copy_.name].update(
            steps=len(losses), loss=statistics.fmean(last), held_out_loss=mean_loss(copy_.loss, held_out), losses=losses,
            checks={"last_step_again": mean_loss(copy_.loss, trained), "last_step_eager": mean_loss(eager, trained),
                    "held_out_eager": mean_loss(eager, held_out),
                    "held_out_parts": [copy_.loss(part).item() for part in held_out.chunk(MICROBATCHES)]})
        print(f"{copy_.name}: {result[copy_.name]['checks']}")
    for name in ("loss", "held_out_loss"):
        result[f"fp8_{name}_pct"] = 100 * (result["fp8"][name] / result["bf16"][name] - 1)


def table(result):
    print(f"{'':22}{'bf16':>12}{'fp8':>12}   difference, 95 % interval over {result['pairs']} pairs")
    for name, digits in (("tokens_per_s", 0), ("j_per_token", 5), ("loss", 4), ("held_out_loss", 4)):
        difference = result[f"fp8_{name}_pct"]
        if difference is None:
            text = "not measured"
        elif isinstance(difference, float):
            text = f"{difference:+.2f} %, one run"
        else:
            text = "{:+.2f} %  ({:+.2f} to {:+.2f})".format(*difference)
        print(f"{name:22}{result['bf16'][name]:12.{digits}f}{result['fp8'][name]:12.{digits}f}   {text}")


def make_copies(device, how):
    torch.manual_seed(1)
    torch.set_default_device(device)
    model = job.Part(0, 1).to(torch.bfloat16)
    torch.set_default_device("cpu")
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    other = copy.deepcopy(model)
    use_fp8(other)
    return [Copy(name, *job.compiled(part, how)) for name, part in (("bf16", model), ("fp8", other))]


def shrink():
    """To try the program itself on a CPU."""
    job.LAYERS, job.HIDDEN, job.INTERMEDIATE, job.HEADS, job.VOCABULARY, job.TIME = 4, 64, 176, 4, 256, 32


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=190, help="for all of it, from the start of the program on")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--compile", choices=("none", "block"), default="block")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: tries the program alone")
    return parser.parse_args()


def probe(asked):
    reason = "" if asked.tiny else missing_fp8()
    if reason:
        print(f"no fp8: {reason}")
        return {"fp8": reason}
    device = "cpu" if asked.tiny else "cuda"
    if asked.tiny:
        shrink()
    copies = make_copies(device, asked.compile)
    sequences = make_sequences(HELD_OUT_SEQUENCES + 80 * MICROBATCHES * job.MICROBATCH, device)
    print(f"{time.perf_counter() - START_S:6.1f} s  models and text are ready", flush=True)
    track = None if asked.tiny else EnergyTrack(job.Energy(torch.cuda.current_device()).read_j)
    turns = take_turns(copies, sequences[HELD_OUT_SEQUENCES:], device, START_S + asked.seconds - RESERVE_S)
    if track:
        track.stop()
    if len(turns) < 4:
        print("the time is over before two pairs of turns: give more --seconds")
        return {"fp8": "not measured: too little time"}
    result = {"device": "cpu" if asked.tiny else torch.cuda.get_device_name(), "torch": torch.__version__,
              "energy": "none" if asked.tiny else "measured", **summary(turns, track)}
    add_losses(result, copies, sequences[HELD_OUT_SEQUENCES:], sequences[:HELD_OUT_SEQUENCES])
    table(result)
    return {**result, "turns": turns}


def main():
    asked = arguments()
    result = probe(asked)
    if asked.out:
        asked.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{time.perf_counter() - START_S:.0f} s in all")


if __name__ == "__main__":
    main()
