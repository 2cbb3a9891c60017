"""Memory cgroups, of version 1 or 2, where this process may make them: the kernel kills what goes beyond one."""
import os
import subprocess

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


def _may_make(root):
    folder = f"{root}/tern-test-{os.getpid()}"
    try:
        os.mkdir(folder)
        os.rmdir(folder)
        return True
    except OSError:
        return False


def _v2_gives_memory():
    try:
        with open(f"{V2}/cgroup.subtree_control") as file:
            return "memory" in file.read()
    except OSError:
        return False


def possible():
    return (os.path.exists(f"{V1}/memory.limit_in_bytes") and _may_make(V1)) or (_v2_gives_memory() and _may_make(V2))


def mount():
    """For a machine that was booted for a test: version 2, with memory."""
    if not os.path.exists(f"{V2}/cgroup.procs"):
        subprocess.run(["mount", "-t", "cgroup2", "none", V2], check=True)
    with open(f"{V2}/cgroup.subtree_control", "w") as file:
        file.write("+memory")


def _folder(name):
    return f"{V2 if _v2_gives_memory() else V1}/{name}-{os.getpid()}"


def make(name, amount):
    """A new group with that limit in bytes (one of the name may be there already); returns its folder, for `join`."""
    folder = _folder(name)
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/{'memory.max' if _v2_gives_memory() else 'memory.limit_in_bytes'}", "w") as file:
        file.write(str(amount))
    return folder


def join(folder):
    """A shell command that puts the shell into the group."""
    return f"echo $$ > {folder}/cgroup.procs || exit 99"


def remove(name):
    """Does nothing while there is still somebody in it."""
    try:
        os.rmdir(_folder(name))
    except OSError:
        pass
