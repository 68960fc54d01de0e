#!/usr/bin/env python3
"""PyTorch's own pipeline on the CPU, for bench/pipeline_run: the same equal layers, the same micro-batches.

    bench/pipeline_peer.py --devices K --micro-batches M [M ...] [--schedule gpipe|1f1b] ...

PyTorch 2.x: torch.distributed.pipelining, one process per stage over Gloo, one thread each. PyTorch 1.13:
torch.distributed.pipeline.sync.Pipe, which cuts by device and so makes one partition of a CPU's layers; it gets
the K threads inside its operations instead. Prints one JSON document with a result for each M: starting the
processes takes longer than the steps.
"""
import argparse
import json
import os
import socket
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def layers_of(a):
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(a.width, a.width), nn.Tanh()) for _ in range(a.layers)]


def timed(steps, step):
    times = []
    for i in range(steps + 2):
        start = time.perf_counter()
        step()
        if i >= 2:
            times.append(time.perf_counter() - start)
    return times


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def stage(rank, a, port, results):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=a.devices)
    layers = layers_of(a)
    begin, end = a.layers * rank // a.devices, a.layers * (rank + 1) // a.devices
    module = nn.Sequential(*layers[begin:end])
    x, y = torch.randn(a.batch, a.width), torch.randn(a.batch, a.width)
    schedule = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[a.schedule]
    run = None

    def step():
        module.zero_grad()
        if rank == 0 and a.devices == 1:
            run.step(x, target=y)
        elif rank == 0:
            run.step(x)
        elif rank == a.devices - 1:
            run.step(target=y)
        else:
            run.step()
        dist.barrier()  # the step ends when the last stage is done

    by_pieces = {}
    for pieces in a.micro_batches:
        part = PipelineStage(module, rank, a.devices, torch.device("cpu"))
        run = schedule(part, pieces, loss_fn=nn.functional.mse_loss)
        by_pieces[pieces] = timed(a.steps, step)
    if rank == 0:
        results.put(by_pieces)
    dist.destroy_process_group()


def pipelining(a):
    context = mp.get_context("spawn")
    results, port = context.Queue(), free_port()
    workers = [context.Process(target=stage, args=(r, a, port, results)) for r in range(a.devices)]
    for w in workers:
        w.start()
    by_pieces = results.get(timeout=300)
    for w in workers:
        w.join()
    return "torch.distributed.pipelining", by_pieces


def pipe(a):
    from torch.distributed import rpc
    from torch.distributed.pipeline.sync import Pipe
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    torch.set_num_threads(a.devices)
    rpc.init_rpc("worker", rank=0, world_size=1)
    model = None
    x, y = torch.randn(a.batch, a.width), torch.randn(a.batch, a.width)

    def step():
        model.zero_grad()
        nn.functional.mse_loss(model(x).local_value(), y).backward()

    by_pieces = {}
    for pieces in a.micro_batches:
        model = Pipe(nn.Sequential(*layers_of(a)), chunks=pieces, checkpoint="never")
        by_pieces[pieces] = timed(a.steps, step)
    rpc.shutdown()
    return "torch.distributed.pipeline.sync.Pipe (one partition)", by_pieces


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--devices", type=int, default=2)
    p.add_argument("--micro-batches", type=int, nargs="+", default=[8])
    p.add_argument("--layers", type=int, default=16)
    p.add_argument("--width", type=int, default=512)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--schedule", default="gpipe", choices=["gpipe", "1f1b"])
    a = p.parse_args()
    new = int(torch.__version__.split(".")[0]) >= 2
    name, by_pieces = pipelining(a) if new else pipe(a)
    step_s = {pieces: statistics.median(times) for pieces, times in by_pieces.items()}
    json.dump({"peer": name, "torch": torch.__version__, "times_s": by_pieces, "step_s": step_s}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
