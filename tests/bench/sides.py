"""Programs of several ranks that are timed alternately, with the protocol of tests/bench/distributed.h."""
import collections
import json
import queue
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from energy import Meter

READY, REPEAT, END = 150, 60, 10  # seconds to wait for a side
problems = []  # messages about failed sides and doubtful results


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Failed(Exception):
    pass


class Side:
    """All ranks of one program. Records rank 0's lines of JSON with the times when they arrived."""

    def __init__(self, label, command, ranks, env, by_mpi=False):
        self.label, self.start, self.ready = label, time.perf_counter(), None
        self.meter, self.watts = Meter(ranks), []
        self.log, self.scratch = tempfile.TemporaryFile("w+"), tempfile.TemporaryDirectory()
        self.lines = queue.Queue()
        # Concurrent launchers of Open MPI must not share a folder.
        shared = {**env, "NCCL_NVLS_ENABLE": "0", "OMPI_MCA_orte_tmpdir_base": self.scratch.name}
        environments = [shared]
        if by_mpi and ranks > 1:
            command = ["mpirun", "--oversubscribe", "-n", str(ranks), *command]
        elif ranks > 1:
            port = str(free_port())
            environments = [{**shared, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": str(ranks),
                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} for r in range(ranks)]
        self.processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stderr=self.log, text=True, env=e,
                             stdout=subprocess.DEVNULL if i else subprocess.PIPE)
            for i, e in enumerate(environments)]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.processes[0].stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # not a line of the protocol
            if isinstance(said, dict):
                self.lines.put((said, time.perf_counter() - self.start))
        self.lines.put((None, 0))

    def read(self, key, seconds):
        """Returns the next line with a key, and its time. Raises Failed with the errors of the log."""
        end = time.perf_counter() + seconds
        while True:
            try:
                said, at = self.lines.get(timeout=max(end - time.perf_counter(), 0.01))
            except queue.Empty:
                raise Failed(self.fail(f"no {key!r} within {seconds:.0f} s"))
            if said is None:
                raise Failed(self.fail("ended"))
            if key in said:
                return said, at

    def fail(self, why):
        self.kill()
        self.log.seek(0)
        said = [line for line in self.log.read().splitlines() if line.strip()]
        return "\n    ".join([f"{self.label}: {why}", *([s for s in said if "rror:" in s] or said)[-4:]])

    def tell(self, word):
        for process in self.processes:
            try:
                process.stdin.write(word + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass  # read() reports it

    def repeat(self):
        self.tell("go")
        said, watts = self.meter.watts_of(lambda: self.read("us", REPEAT)[0]["us"])
        if watts:
            self.watts.append(watts)
        return said

    def finish(self):
        """Raises Failed if a rank does not end successfully in time."""
        self.tell("end")
        end = time.perf_counter() + END
        for process in self.processes:
            try:
                process.stdin.close()
                process.wait(max(end - time.perf_counter(), 0.01))
            except (BrokenPipeError, subprocess.TimeoutExpired):
                pass
        codes = [process.poll() for process in self.processes]
        if any(code != 0 for code in codes):
            raise Failed(self.fail(f"did not end well within {END} s: {codes}"))
        self.kill()

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()
        self.scratch.cleanup()


def summary(times):
    times = sorted(times)
    return {"median": statistics.median(times), "low": times[0], "high": times[-1]}


class Sides:
    """The sides of one item: they are started together, warmed up together, and timed alternately."""

    def __init__(self):
        self.all = []

    def add(self, *args, **kwargs):
        self.all.append(Side(*args, **kwargs))

    def drop_failed(self, call):
        """Calls call(side) for each side. Sides that fail are reported and removed."""
        alive = []
        for side in self.all:
            try:
                call(side)
                alive.append(side)
            except Failed as failure:
                problems.append(str(failure))
        self.all = alive

    def warm_up(self, end):
        """Waits until all sides are ready, at most until `end` (a time of time.perf_counter())."""
        def ready(side):
            side.ready, _ = side.read("ready", max(end - time.perf_counter(), 1))
        self.drop_failed(ready)

    def run(self, rounds):
        """Returns by label the side's ready line, with a summary of the microseconds of each variant.

        "watts" is the median power of all its GPUs during the repeats, with all variants.
        """
        times = {side.label: collections.defaultdict(list) for side in self.all}
        for i in range(rounds + 1):  # the first repeat determines the number of calls
            def repeat(side):
                for variant, us in side.repeat().items():
                    if i:
                        times[side.label][variant].append(us)
            self.drop_failed(repeat)
        found = {side.label: {**side.ready, "us": {k: summary(v) for k, v in times[side.label].items()},
                              "watts": statistics.median(side.watts) if side.watts else None}
                 for side in self.all}
        self.finish()
        return found

    def finish(self):
        self.drop_failed(Side.finish)
