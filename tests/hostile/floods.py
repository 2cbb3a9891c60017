"""Floods from another uid: forged datagrams, connections that come and go, connections that stay. The job that is flooded
must be exact; what it got done, and what it holds of the system during and after, is printed.

Usage: floods.py datagrams|connections|idle COUNT [PATH]   (by hand: 1000000, 1000000, 100000)
  idle: rank 0 computes for more than five connect timeouts meanwhile; its queue holds half of the calls for it."""
import errno
import os
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "launch"))
from common import BUILD, MPIEXEC, SLOW, environment, new_mark  # noqa: E402
from isolation import move_to_own_namespaces, network_addresses, remains  # noqa: E402
from strangers import forged_datagram, rubbish  # noqa: E402

PROGRAM = os.path.abspath(os.path.join(BUILD, "tests/hostile/flooded"))
ATTACKERS, RANKS, TIMEOUT_S = 8, 4, 2
STRANGER = 65534
IP_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>: the port is chosen when the connection is made, for each destination anew


def targets(protocol):
    """Where the job listens: (address, port), of both families for TCP."""
    return [(address if address not in ("0.0.0.0", "::") else "127.0.0.1", port)
            for name, address, port in network_addresses() if name in (protocol, protocol + "6" if protocol == "tcp" else "")]


def call(target, source, number):
    """Begins a connection; over IPv4 from the number-th port of this attacker's addresses 127.1+source.x.1."""
    six = ":" in target[0]
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed at once, nothing waits
    try:
        if not six:
            made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            made.bind((f"127.{1 + source}.{number // 20000}.1", 0))
        made.connect(target)
    except BlockingIOError:
        pass
    except OSError:
        made.close()
        return None
    return made


def stands(made):
    return made.connect_ex(("::1" if made.family == socket.AF_INET6 else "127.0.0.1", 1)) in (0, errno.EISCONN)


def send_datagrams(count, _):
    chance = random.Random(os.getpid())
    forged = [forged_datagram(chance) for _ in range(500)]
    sender, sent, there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0, targets("udp")
    while sent < count:
        if sent % 5000 == 0:
            there = targets("udp") or there
        try:
            sender.sendto(forged[sent % len(forged)], there[sent % len(there)])
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.EAGAIN, errno.ENOBUFS):
                raise
        sent += 1
    return sent, sent


def come_and_go(count, source):
    chance = random.Random(os.getpid())
    words = [b""] * 20 + [rubbish("garbage", chance) for _ in range(20)] + [rubbish("half", chance) for _ in range(20)]
    begun = stood = 0
    there, open_ones = targets("tcp"), []
    while begun < count:
        if begun % 2000 == 0:
            there = targets("tcp") or there
        made = call(there[begun % len(there)], source, begun % 60000)
        begun += 1
        if made is None:
            continue
        if stands(made):
            stood += 1
            try:
                made.send(words[begun % len(words)])
            except OSError:
                pass
        open_ones.append(made)
        if len(open_ones) > 100:
            open_ones.pop(0).close()
    return begun, stood


def stay(count, source):
    """Holds `count` connections or calls until the end; those that are put out are made again."""
    kept, begun = {}, 0
    look, there = select.epoll(), targets("tcp")  # once: the kernel's list is as long as the flood
    while begun < count:
        for target in there:
            if (made := call(target, source, begun)) is not None:
                kept[made.fileno()] = made
                look.register(made.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
                begun += 1
    print(f"holds {sum(map(stands, kept.values()))} connections, {len(kept)} calls", flush=True)
    again = begun
    while os.getppid() == PARENT:
        for descriptor, events in look.poll(0.2):
            if events & (select.EPOLLHUP | select.EPOLLRDHUP | select.EPOLLERR) and descriptor in kept:
                kept.pop(descriptor).close()
        while len(kept) < count:
            made = call(there[again % len(there)], source, again % 200000)
            again += 1
            if made is None:
                break
            kept[made.fileno()] = made
            look.register(made.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    return begun, again


FLOODS = {"datagrams": ("udp", send_datagrams), "connections": ("tcp", come_and_go), "idle": ("tcp", stay)}
PARENT = os.getpid()


def attacker(flood, count, source):
    """A process of another uid that floods; its pipe for what it says."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.close(writer)
        return pid, os.fdopen(reader)
    try:
        os.close(reader)
        os.dup2(writer, 1)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
        print("sent {}, of them {} stood".format(*flood(count, source)), flush=True)
    except OSError as error:
        print("stops:", error, flush=True)
    finally:
        os._exit(0)


def sockets_of_the_kernel():
    with open("/proc/net/sockstat") as file:
        return " ".join(line.strip() for line in file if line.startswith(("TCP", "UDP:")))


def main():
    kind, count = sys.argv[1], int(sys.argv[2])
    path, flood = FLOODS[kind]
    path = sys.argv[3] if len(sys.argv) > 3 else path
    if reason := move_to_own_namespaces():
        print(reason)
        return 77
    if kind == "idle":
        with open("/proc/sys/net/core/somaxconn", "w") as file:
            file.write(str(count // 16))
    mark, small = new_mark(), count < 50000
    seconds, away = {"datagrams": (20, 0), "connections": (60, 0), "idle": (2, 60)}[kind]
    if small:
        seconds, away = (2, 5 * TIMEOUT_S) if away else (3, 0)
    job = subprocess.Popen([MPIEXEC, "-n", str(RANKS), PROGRAM, str(seconds), str(away)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=environment(TERN_PATH=f"self,{path}", TERN_TCP_CONNECT_TIMEOUT_S=str(TIMEOUT_S), TERN_CONFIG="",
                                           TERN_UDP_TIMEOUT_S=str(TIMEOUT_S), LAUNCH_TEST_MARK=mark))
    first = job.stdout.readline()
    time.sleep(0.5 if kind == "idle" else 3)
    begin = time.monotonic()
    attackers = [attacker(flood, count // ATTACKERS, source) for source in range(ATTACKERS)]
    if kind == "idle":
        for _, said in attackers:
            print("attacker", said.readline().strip(), f"after {time.monotonic() - begin:.1f} s", flush=True)
        print("during:", sockets_of_the_kernel(), flush=True)
    else:
        for pid, said in attackers:
            print("attacker", said.readline().strip(), flush=True)
            os.waitpid(pid, 0)
        print(f"the flood took {time.monotonic() - begin:.1f} s and ends in the job's second "
              f"{time.monotonic() - begin + 1:.0f}; after it: {sockets_of_the_kernel()}", flush=True)
    try:
        said, _ = job.communicate(timeout=(seconds + away + 120) * SLOW)
    except subprocess.TimeoutExpired:
        job.kill()
        said = job.communicate()[0] + "hangs"
    print(first + said, end="")
    if kind == "idle":
        for pid, _ in attackers:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    time.sleep(1)
    left = remains(mark)
    print("left:", ", ".join(left) if left else "nothing;", sockets_of_the_kernel())
    return 0 if job.returncode == 0 and said.count("exact") == RANKS and not left else 1


if __name__ == "__main__":
    sys.exit(main())
