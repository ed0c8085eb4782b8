"""Samples of alternating runs: medians, spreads and paired ratios. Pure."""

import statistics


class Samples:
    """Per program the metrics of each round (None where the run failed), in the order of the rounds."""

    def __init__(self, labels):
        self.rounds = {label: [] for label in labels}
        self.failures = {}

    def add(self, label, metrics):
        self.rounds[label].append(metrics)

    def fail(self, label, reason):
        self.rounds[label].append(None)
        self.failures[label] = reason

    def values(self, label, metric="rate"):
        return [m[metric] for m in self.rounds.get(label, []) if m is not None and m.get(metric) is not None]

    def median(self, label, metric="rate"):
        values = self.values(label, metric)
        return statistics.median(values) if values else None

    def spread(self, label, metric="rate"):
        """Largest over smallest."""
        values = self.values(label, metric)
        return max(values) / min(values) if values and min(values) > 0 else None

    def ratio(self, over, under, metric="rate", under_metric=None):
        """Ratio of the medians, and the smallest and largest ratio of the rounds in which both ran. None: unknown."""
        under_metric = under_metric or metric
        pairs = [(a[metric], b[under_metric]) for a, b in zip(self.rounds.get(over, []), self.rounds.get(under, []))
                 if a and b and a.get(metric) is not None and b.get(under_metric)]
        if not pairs:
            return None
        middle = statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)
        each = [a / b for a, b in pairs]
        return middle, min(each), max(each)

    def why_not(self, *labels):
        """Why a ratio of these is missing."""
        return "; ".join(f"{label}: {self.failures.get(label, 'not run')}" for label in labels
                         if not self.values(label)) or "no round in which both ran"


def rate(pps):
    """1234567 → '1.235 Mpps'."""
    if pps is None:
        return "–"
    for unit, size in (("Mpps", 1e6), ("kpps", 1e3)):
        if pps >= size:
            return f"{pps / size:.4g} {unit}"
    return f"{pps:.3g} pps"


def times(value):
    return "–" if value is None else f"{value:.3g}×"


def percent(ratio):
    if ratio is None:
        return "–"
    return "0" if ratio == 0 else f"{ratio * 100:.3g} %"
