#!/usr/bin/env python3
"""Searches by mpps and by the PyPI package MLRsearch on the same simulated devices, side by side.

    bench/peers/mlrsearch/run.sh [SEEDS]

A line per device: median number and duration of trials, and the width of both bounds, of each program.
"""
import math
import statistics
import subprocess
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

TRUTH = 1e6
MASK = (1 << 64) - 1


class Random:
    """splitmix64, as in crates/methods/examples/simulate/device.rs."""

    def __init__(self, seed):
        self.state = seed

    def share(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) / (1 << 53)


class Device(AbstractMeasurer):
    def __init__(self, kind, seed):
        self.kind, self.random, self.took = kind, Random(seed), []

    def measure(self, intended_duration, intended_load):
        seconds = intended_duration
        due = math.ceil(intended_load * seconds)
        rate, burst = TRUTH, 0
        if self.kind == "jittered":
            rate = TRUTH * (0.99 + 0.02 * self.random.share())
        elif self.kind == "bursty":
            burst = 50 * sum(self.random.share() < 0.02 for _ in range(math.ceil(seconds)))
        elif self.kind == "bimodal":
            rate = TRUTH * (0.95 if self.random.share() < 0.2 else 1.0)
        forwarded = min(max(0, due - burst), int(rate * seconds))
        self.took.append(seconds)
        return MeasurementResult(
            intended_duration=seconds, intended_load=intended_load, intended_count=due, offered_count=due,
            loss_count=due - forwarded, offered_duration=seconds, duration_with_overheads=seconds,
        )


def theirs(kind, seeds):
    for seed in range(seeds):
        goals = [SearchGoal(loss_ratio=ratio, exceed_ratio=0.5, relative_width=0.005, initial_trial_duration=1.0,
                            final_trial_duration=1.0, duration_sum=21.0, preceding_targets=2,
                            expansion_coefficient=2, fail_fast=True) for ratio in (0.0, 0.005)]
        config = Config(goals=goals, min_load=1e3, max_load=1e7, search_duration_max=1e9, warmup_duration=None)
        device = Device(kind, seed)
        results = MultipleLossRatioSearch(config).search(device, debug=lambda _: None)
        bounds = []
        for goal in goals:
            result = results[goal]
            bounds += [float(result.relevant_lower_bound), float(result.relevant_upper_bound)]
        yield [len(device.took), sum(device.took), *bounds]


def ours(program, kind, seeds):
    said = subprocess.run([program, kind, str(seeds)], check=True, capture_output=True, text=True).stdout
    return [[float(word) for word in line.split()] for line in said.splitlines()]


def main():
    program, seeds = sys.argv[1], int(sys.argv[2])
    print(f"{'device':10} {'program':10} {'trials':>7} {'s':>7}  {'no loss':>22}  {'0.5 %':>22}  widths, %")
    for kind in ("hard", "jittered", "bursty", "bimodal"):
        times = {}
        for name, rows in (("mpps", ours(program, kind, seeds)), ("MLRsearch", list(theirs(kind, seeds)))):
            number, took, *bounds = (statistics.median(column) for column in zip(*rows))
            times[name] = took
            widths = [100 * statistics.median((row[i + 1] - row[i]) / row[i + 1] for row in rows) for i in (2, 4)]
            pairs = [f"{bounds[i]:10.0f} {bounds[i + 1]:11.0f}" for i in (0, 2)]
            print(f"{kind:10} {name:10} {number:7.0f} {took:7.0f}  {pairs[0]}  {pairs[1]}  "
                  f"{widths[0]:.3f} {widths[1]:.3f}")
        print(f"{kind:10} time of mpps / MLRsearch: {times['mpps'] / times['MLRsearch']:.2f}")


main()
