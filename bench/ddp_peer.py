#!/usr/bin/python3
"""The peer of `make bench`: PyTorch DistributedDataParallel over Gloo, one thread a rank.

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

# MovieLens-20M, as in NeuMF.
USERS, ITEMS = 138493, 26744


class Vgg16(nn.Module):
    """VGG16 for 32x32 images: 13 convolutions, 512-4096-4096-10, 33.6 M parameters."""

    inputs = staticmethod(lambda batch: (torch.randn(batch, 3, 32, 32),))
    targets = staticmethod(lambda batch: torch.randint(10, (batch,)))
    loss = staticmethod(nn.functional.cross_entropy)

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(512, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 10))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class NeuMF(nn.Module):
    """NCF: a generalised factorisation of width 64 beside an MLP 256-256-128-64: 31.8 M parameters."""

    inputs = staticmethod(lambda batch: (torch.randint(USERS, (batch,)), torch.randint(ITEMS, (batch,))))
    targets = staticmethod(lambda batch: torch.randint(2, (batch,)).float())
    loss = staticmethod(nn.functional.binary_cross_entropy_with_logits)

    def __init__(self, sparse):
        super().__init__()
        self.mf_user = nn.Embedding(USERS, 64, sparse=sparse)
        self.mf_item = nn.Embedding(ITEMS, 64, sparse=sparse)
        self.mlp_user = nn.Embedding(USERS, 128, sparse=sparse)
        self.mlp_item = nn.Embedding(ITEMS, 128, sparse=sparse)
        self.mlp = nn.Sequential(
            nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.out = nn.Linear(128, 1)

    def forward(self, user, item):
        mf = self.mf_user(user) * self.mf_item(item)
        mlp = self.mlp(torch.cat([self.mlp_user(user), self.mlp_item(item)], 1))
        return self.out(torch.cat([mf, mlp], 1)).squeeze(1)


MODELS = {
    "vgg16-32": Vgg16,
    "ncf": lambda: NeuMF(sparse=False),
    "ncf-sparse": lambda: NeuMF(sparse=True),
}


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
    torch.manual_seed(args.seed)
    raw = MODELS[args.model]()
    optimizer = torch.optim.SGD(raw.parameters(), lr=0.01)
    torch.manual_seed(args.seed + 1 + dist.get_rank())  # its own data
    alone = timed(training_step(raw, raw, optimizer, args.batch_size), 2, max(3, args.steps // 2),
                  together=True)
    model = nn.parallel.DistributedDataParallel(raw)
    step = training_step(model, raw, optimizer, args.batch_size)
    result = summary(timed(step, args.warmup, args.steps, together=False))
    return {"model": args.model, "parameters": sum(p.numel() for p in raw.parameters()),
            "batch_size": args.batch_size, **result, "compute_time_s": statistics.median(alone)}


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
