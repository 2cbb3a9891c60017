"""A network and a /dev/shm of a test's own (namespaces), so that every socket and file there is its job's; and a look at
what is left of a job."""
import ctypes
import fcntl
import glob
import os
import socket
import struct

from common import marked_processes

LISTEN = "0A"  # /proc/net/tcp's code of the state

# <sched.h>, <sys/mount.h>, <net/if.h>
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1


def move_to_own_namespaces(shared_memory="size=50%"):
    """Leaves this process in a network and a mount namespace of its own, with a /dev/shm of its own (an option of mount for
    its size); None, or why that is impossible here."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNET | CLONE_NEWNS | (0 if uid == 0 else CLONE_NEWUSER)
    if libc.unshare(flags) != 0:
        return f"no namespaces of our own here: {os.strerror(ctypes.get_errno())}"
    if uid != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    if (libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0
            or libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, shared_memory.encode()) != 0):
        return f"no /dev/shm of our own here: {os.strerror(ctypes.get_errno())}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    return None


def sockets():
    """The lines of /proc/net for TCP sockets that listen and UDP sockets that are bound, each with its protocol before it."""
    found = []
    for name in ("tcp", "tcp6", "udp", "udp6"):
        try:
            with open(f"/proc/net/{name}") as file:
                lines = file.read().split("\n")[1:]
        except OSError:  # a kernel without IPv6
            continue
        found += [(name, *words) for words in map(str.split, lines)
                  if words and (words[3] == LISTEN or name.startswith("udp"))]
    return found


def network_sockets():
    """TCP sockets that listen, UDP sockets that are bound, as text."""
    return [f"{name} {local}" for name, _, local, *_ in sockets()]


def network_addresses():
    """The same as (protocol, address, port) with the address as sockets take it."""
    found = []
    for name, _, local, *_ in sockets():
        address, port = local.split(":")
        raw = bytes.fromhex(address)
        raw = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
        found.append((name, socket.inet_ntop(socket.AF_INET6 if len(raw) > 4 else socket.AF_INET, raw), int(port, 16)))
    return found


def unix_sockets():
    """All of them, with or without a name: none of this process's own belongs to this namespace."""
    with open("/proc/net/unix") as file:
        return [line for line in file.read().split("\n")[1:] if line]


def remains(mark):
    """What is left of the job, as text; empty when nothing is."""
    return ([f"process {pid}" for pid in marked_processes(mark)] + network_sockets() + unix_sockets()
            + glob.glob("/dev/shm/*"))
