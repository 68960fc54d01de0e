#!/usr/bin/python3
"""The peer of `make bench`: PyTorch DistributedDataParallel over Gloo, one thread per rank.

Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, so it runs in a lab with
    entrain lab run --cluster lab:4x1gbit -- bench/ddp_peer.py --model vgg16-32 --batch-size 2
(Debian's python3-torch belongs to /usr/bin/python3, whatever else is in PATH.)
Rank 0 prints one JSON line. --allreduce-bytes N times Gloo's all_reduce of N bytes instead.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from peer_models import MODELS

HOOKS = {"none": None, "fp16": default_hooks.fp16_compress_hook}


def timed(step, warmup, steps, together):
    """Seconds of each step. `together`: all ranks start each one at once; else they follow on one
    another as in training, and a step's time is the period."""
    times = []
    for i in range(warmup + steps):
        if together or i == warmup:
            dist.barrier()
        start = time.perf_counter()
        step()
        if i >= warmup:
            times.append(time.perf_counter() - start)
    return times


def summary(times):
    ordered = sorted(times)
    at = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]
    return {"step_time_median_s": statistics.median(ordered), "step_time_p10_s": at(0.1),
            "step_time_p90_s": at(0.9)}


def training_step(model, raw, optimizer, batch):
    inputs, targets = raw.inputs(batch), raw.targets(batch)

    def step():
        optimizer.zero_grad()
        raw.loss(model(*inputs), targets).backward()
        optimizer.step()

    return step


def bench_training(args):
    """Each hook with a model of its own, one after the other; the first one's figures also stand alone."""
    results = {}
    for hook in args.hook:
        torch.manual_seed(args.seed)
        raw = MODELS[args.model]()
        optimizer = torch.optim.SGD(raw.parameters(), lr=0.01)
        torch.manual_seed(args.seed + 1 + dist.get_rank())  # its own data
        if not results:
            alone = timed(training_step(raw, raw, optimizer, args.batch_size), 1, max(2, args.steps // 2),
                          together=True)
        model = nn.parallel.DistributedDataParallel(raw)
        if HOOKS[hook]:
            model.register_comm_hook(None, HOOKS[hook])
        step = training_step(model, raw, optimizer, args.batch_size)
        results[hook] = summary(timed(step, args.warmup, args.steps, together=False))
    return {"model": args.model, "parameters": sum(p.numel() for p in raw.parameters()),
            "batch_size": args.batch_size, **results[args.hook[0]], "hooks": results,
            "compute_time_s": statistics.median(alone)}


def bench_all_reduce(args):
    tensor = torch.zeros(args.allreduce_bytes // 4)
    result = summary(timed(lambda: dist.all_reduce(tensor), args.warmup, args.steps, together=True))
    return {"allreduce_bytes": tensor.numel() * 4, **result}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="vgg16-32")
    parser.add_argument("--batch-size", type=int, default=2, help="per rank")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hook", choices=HOOKS, nargs="+", default=["none"], help="what DDP does with gradients")
    parser.add_argument("--allreduce-bytes", type=int, default=0)
    args = parser.parse_args()

    torch.set_num_threads(1)
    # The host's own link in a lab; elsewhere Gloo takes the one that the host name resolves to.
    if os.environ.get("MASTER_ADDR", "").startswith("198.18."):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "eth0")
    dist.init_process_group("gloo")
    result = bench_all_reduce(args) if args.allreduce_bytes else bench_training(args)
    if dist.get_rank() == 0:
        print(json.dumps({"peer": "pytorch-ddp", "torch": torch.__version__, "world": dist.get_world_size(),
                          **result}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
