"""What the tests of this folder share: how to run a job, and how to look for processes it left behind."""
import os
import signal
import subprocess
import sys
import time
import unittest
import uuid

BUILD = os.environ.get("TERN_BUILD", "build/release")
CLIENT = os.environ.get("TERN_CLIENT", os.path.join(BUILD, "tests/launch/launch_client"))
MPIEXEC = os.path.abspath(os.path.join(BUILD, "bin", "mpiexec"))
# Sanitizers slow every start down.
SANITIZED = os.environ.get("TERN_SANITIZED", "")
SLOW = 5 if SANITIZED else 1
# What a program needs to link with a sanitized library: ASan's own library must be loaded before all others.
SANITIZED_FLAGS = [f"-fsanitize={SANITIZED}"] if SANITIZED else []
# A rank that dies of a signal is to die of that signal, not of the sanitizer's report on it.
SANITIZED_OPTIONS = {name: ":".join(filter(None, [os.environ.get(name), "handle_segv=0:handle_abort=0", more]))
                     for name, more in (("ASAN_OPTIONS", "verify_asan_link_order=0"),  # programs with LD_PRELOAD
                                        ("TSAN_OPTIONS", ""), ("UBSAN_OPTIONS", ""))} if SANITIZED else {}
# What the sanitizers' own runtimes cannot be without: UBSan looks at an object through a pipe, ASan starts a thread at the end.
SANITIZER_NEEDS_FILES = "undefined" in SANITIZED
SANITIZER_NEEDS_THREADS = "address" in SANITIZED


def environment(**changes):
    """This process's environment without what a launcher or a careless shell may have set, plus `changes`."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("PMI_", "PMIX_", "OMPI_COMM_WORLD", "SLURM_", "MPIEXEC_TIMEOUT", "TERN_"))}
    env.update(SANITIZED_OPTIONS)
    env.update({k: v for k, v in changes.items() if v is not None})
    return env


def run(command, stdin=subprocess.DEVNULL, timeout=60, **changes):
    """Runs to the end; the result has returncode, stdout, stderr (text). `input=` gives text to stdin. `timeout`: seconds without
    a sanitizer."""
    options = {"input": changes.pop("input")} if "input" in changes else {"stdin": stdin}
    cwd = changes.pop("cwd", None)
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SLOW * timeout, cwd=cwd,
                          env=environment(**changes), **options)


def mpiexec(*words, **options):
    return run([MPIEXEC, *[str(w) for w in words]], **options)


def marked_processes(mark):
    """Processes whose environment carries the mark, zombies not counted."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() not in file.read():
                    continue
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(int(pid))
        except OSError:
            pass
    return found


def wait_until_gone(mark, seconds):
    """True when within `seconds` no marked process is left."""
    end = time.monotonic() + seconds
    while True:
        if not marked_processes(mark):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.01)


def new_mark():
    return "mark-" + uuid.uuid4().hex


def start(words, mark, **options):
    """mpiexec in the background, in a session of its own, marked. Names in capitals are variables. It does not outlive
    the tests of its file."""
    variables = {name: options.pop(name) for name in list(options) if name.isupper()}
    child = subprocess.Popen([MPIEXEC, *[str(w) for w in words]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True,
                             env=environment(LAUNCH_TEST_MARK=mark, **variables), **options)
    unittest.addModuleCleanup(end, child)
    return child


def end(child):
    """Of start: ends what still runs."""
    if child.poll() is None:
        child.terminate()
        child.communicate(timeout=60)


def main():
    unittest.main()
