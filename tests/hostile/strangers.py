"""Strangers at every socket of this network namespace, until they are ended. Usage: strangers.py KIND UID
KIND: idle (connections that say nothing), garbage, half (the beginning of a handshake), storm (connections that come and
go), datagrams (forged, to UDP sockets), or all of these by turns."""
import errno
import itertools
import os
import random
import resource
import socket
import struct
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from isolation import network_addresses  # noqa: E402

MAGIC = b"Ter\xf1"  # wire/handshake.cc
IDLE_PER_SOCKET = 400


def named_unix_sockets():
    with open("/proc/net/unix") as file:
        return ["\0" + name[1:] for name in (line.split()[-1] for line in file.readlines()[1:]) if name.startswith("@")]


def rubbish(kind, chance):
    """What a stranger says first."""
    noise = chance.randbytes(chance.choice((1, 7, 60, 4000)))
    if kind == "garbage":
        return chance.choice((noise, b"GET / HTTP/1.0\r\n\r\n", b"\0" * 64, b"SSH-2.0-scan\r\n"))
    # A hello of the right form: stage 1, a body of some length, proof of nothing; cut somewhere.
    body = chance.randbytes(chance.choice((0, 80, 150, 4000, 65535)))
    hello = MAGIC + struct.pack("<BBH", chance.choice((0, 1, 1, 1, 2, 3, 4)), 0, len(body)) + body + chance.randbytes(32)
    return hello[:chance.choice((1, 4, 8, 40, 200, len(hello)))]


def forged_datagram(chance):
    """The head of a real one (wire/datagram.h), and no seal that anybody could check."""
    head = struct.pack("<HBBIQQ", 0x7455, chance.randrange(0, 8), 2, chance.randrange(0, 6), chance.getrandbits(64),
                       chance.randrange(1, 1000))
    return chance.choice((head, head + chance.randbytes(32), head + chance.randbytes(chance.randrange(1400)),
                          chance.randbytes(chance.randrange(1, 1400)), b""))


def call(address, chance, kind):
    """A connection, or None: over TCP to (protocol, address, port), or to a Unix socket's name."""
    if isinstance(address, str):
        made, target = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), address
    else:
        six = address[0].endswith("6")
        made, target = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM), address[1:]
    made.setblocking(False)
    try:
        made.connect(target)
    except BlockingIOError:
        pass
    except OSError:
        made.close()
        return None
    if kind in ("garbage", "half"):
        try:
            made.send(rubbish(kind, chance))
        except OSError:
            pass  # a TCP connection is not there yet
    return made


def say_late(calls, chance, kind):
    """Connections that were on their way when they were made."""
    for made in calls[-8:]:
        try:
            made.send(rubbish(kind, chance))
        except OSError:
            pass


def main():
    kind, uid = sys.argv[1], int(sys.argv[2])
    chance = random.Random(uid)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    print("here", flush=True)
    kept, datagrams = {}, {}
    kinds = itertools.cycle(("idle", "garbage", "half", "storm", "datagrams") if kind == "all" else (kind,))
    while True:
        now = next(kinds)
        addresses = network_addresses()
        for address in [a for a in addresses if a[0].startswith("tcp")] + named_unix_sockets():
            calls = kept.setdefault(address, [])
            for _ in range(8):
                if len(calls) >= IDLE_PER_SOCKET:
                    calls.pop(chance.randrange(len(calls))).close()
                if (made := call(address, chance, now)) is None:
                    break
                calls.append(made)
            if now == "storm":
                while calls:
                    calls.pop().close()
            elif now in ("garbage", "half"):
                say_late(calls, chance, now)
        for address in [a for a in addresses if a[0].startswith("udp")]:
            if now != "datagrams":
                break
            six = address[0].endswith("6")
            sender = datagrams.setdefault(six, socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM))
            target = (address[1] if address[1] not in ("0.0.0.0", "::") else ("::1" if six else "127.0.0.1"), address[2])
            for _ in range(20):
                try:
                    sender.sendto(forged_datagram(chance), socket.MSG_DONTWAIT, target)
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.ECONNREFUSED):
                        break
        time.sleep(0.003)


if __name__ == "__main__":
    main()
