"""Rules by which trials judge: one sentence for what is refused, bounded time and memory, findings written down."""

import argparse
import resource
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager

LONGEST_SENTENCE = 1200
MOST_SECONDS, MOST_CPU_SECONDS = 300, 10  # others may be at work on the same machine
MOST_MEGABYTES = 500


class TooLongError(BaseException):
    """A case took longer than any case may."""


class Judge:
    """Counts what became of cases, and keeps those that broke a rule."""

    def __init__(self):
        self.outcomes, self.findings, self.is_told_to_end = Counter(), [], False
        self.remark = ""  # of a trial, for its report
        self._memory = 0

    def cases(self, n_cases):
        """Count cases; a trial that is told to end reports what it has done so far."""
        self._memory = peak_megabytes()
        for number in range(n_cases):
            if self.is_told_to_end:
                return
            yield number

    def end(self, *_):
        """Let the case at hand be the last."""
        self.is_told_to_end = True

    def note(self, outcome):
        """Count a case that kept the rules."""
        self.outcomes[outcome] += 1

    def find(self, seed, rule, detail):
        """Write down a case that broke one."""
        self.outcomes["FOUND"] += 1
        self.findings.append((seed, rule, detail))
        sys.stderr.write(f"case {seed}: {rule}: {detail}\n")

    def check_sentence(self, seed, text):
        """A refusal is one sentence, or a few on one line, that says what was expected."""
        if "\n" in text.strip() or not text.strip() or len(text) > LONGEST_SENTENCE or "Expected" not in text:
            self.find(seed, "no sentence", repr(text[:300]))

    @contextmanager
    def watch(self, seed):
        """Bound time and memory of a case."""

        def stop(*_):
            raise TooLongError

        start = time.process_time()
        before = signal.signal(signal.SIGALRM, stop)
        signal.alarm(MOST_SECONDS)
        try:
            yield
        except TooLongError:
            self.find(seed, "hangs", f"more than {MOST_SECONDS} s")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        if time.process_time() - start > MOST_CPU_SECONDS:
            self.find(seed, "slow", f"{time.process_time() - start:.1f} s of the processor")
        memory = peak_megabytes()
        if memory - self._memory > MOST_MEGABYTES:
            self.find(seed, "memory", f"{memory - self._memory:.0f} MB more")
            self._memory = memory

    def report(self, seconds):
        """Print what came out; return whether every case kept the rules."""
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.outcomes.items()))
        sys.stdout.write(f"{sum(self.outcomes.values()):,} cases in {seconds:.0f} s: {counts}\n{self.remark}")
        return not self.findings


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run(trial, description):
    """Run a trial from the command line: ``--cases N --seed S``; exits with 1 if it found something."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    start, judge = time.perf_counter(), Judge()
    signal.signal(signal.SIGTERM, judge.end)
    trial(arguments.cases, arguments.seed, judge)
    sys.exit(0 if judge.report(time.perf_counter() - start) else 1)
