"""Work in forked children: a child may crash or hang, and the parent knows at what.

The parent runs no operator on several threads and starts none, so that a child can.
"""

import contextlib
import faulthandler
import os
import pickle
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

MEMORY = 8 << 30   # bytes of addresses: a program that asks for more gets torch's exception
SILENCE = 180.0   # seconds without a word: it hangs. On a busy machine a program of many compiles takes more than a minute


class Ended(Exception):
    """How a child ended that did not finish: `text` has what it said last."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


def child(work, *args):
    """Yields what `work(*args)` yields, run in a child. Raises Ended."""
    reader, writer = os.pipe()
    log = tempfile.TemporaryFile()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)   # what it forks itself ends with it
        os.close(reader)
        os.dup2(log.fileno(), 2)
        os.dup2(log.fileno(), 1)
        faulthandler.enable()
        run(work, args, writer)
    os.close(writer)
    try:
        yield from messages(reader, pid, log)
    finally:
        os.close(reader)
        end(pid)
        log.close()


def run(work, args, writer):
    status = 1
    if "LD_PRELOAD" not in os.environ:   # sanitizers map terabytes
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        for message in work(*args):
            data = pickle.dumps(message)
            os.write(writer, struct.pack("Q", len(data)) + data)
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def end(pid):
    for stop in (lambda: os.killpg(pid, signal.SIGKILL), lambda: os.waitpid(pid, 0)):
        with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
            stop()


def messages(reader, pid, log):
    while True:
        head = exactly(reader, 8, pid, log)
        if head is None:
            _, status = os.waitpid(pid, 0)
            if status:
                raise Ended("crash" if os.WIFSIGNALED(status) or status else "ended", last_words(log, status))
            return
        yield pickle.loads(exactly(reader, struct.unpack("Q", head)[0], pid, log))


def exactly(reader, count, pid, log):
    data = b""
    while len(data) < count:
        ready, _, _ = select.select([reader], [], [], SILENCE)
        if not ready:
            stacks = write_stacks(pid)
            os.kill(pid, signal.SIGABRT)
            time.sleep(0.5)
            raise Ended("hang", f"{where(log)}{stacks}")
        more = os.read(reader, count - len(data))
        if not more:
            return None
        data += more
    return data


def where(log):
    """The innermost Python frames of the thread that was waited for."""
    log.seek(0)
    stack = log.read()[-20000:].decode(errors="replace").partition("Current thread")[2]
    return " < ".join(f"{os.path.basename(file)}:{line} {name}" for file, line, name in re.findall(r'File "([^"]*)", line (\d+) in (\S+)', stack)[:6])


def write_stacks(pid):
    """Of the child and of what it forked, by gdb where there is one: a file's name, for who looks at the finding."""
    if not shutil.which("gdb"):
        return ""
    with tempfile.NamedTemporaryFile("w", prefix="fuzz-hang-", suffix=".txt", delete=False) as file:
        for one in members(pid):
            file.write(f"--- process {one}\n")
            file.flush()
            subprocess.run(["gdb", "-p", str(one), "-batch", "-ex", "thread apply all bt 40"], stdout=file, stderr=subprocess.STDOUT, timeout=120)
    return f" (stacks: {file.name})"


def members(group):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.getpgid(int(entry)) == group:
                found.append(int(entry))
    return found


def last_words(log, status):
    """What tells one crash from another: an assertion, an exception that nobody caught, else the signal."""
    log.seek(0)
    text = log.read()[-20000:].decode(errors="replace")
    for pattern in (r"Assertion '[^']*'.*", r"what\(\):.*", r"terminate called.*", r"std::\w+<.*operator\[\].*", r"LLVM ERROR.*", r"\w*Error: .*"):
        found = re.search(pattern, text)
        if found:
            return found[0][:300]
    place = re.search(r"(Fatal Python error.*|Current thread.*\n.*)", text)
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    return f"{name} {place[0][:200] if place else text[-300:]}"
