"""Fills the queue of every listening TCP socket of this network namespace with idle connections, and keeps them filled,
until it is ended. Usage: flood.py COUNT_PER_SOCKET"""
import resource
import socket
import sys
import time


def listeners():
    found = set()
    for name, family, width in (("tcp", socket.AF_INET, 8), ("tcp6", socket.AF_INET6, 32)):
        with open(f"/proc/net/{name}") as file:
            for line in file.readlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state != "0A":
                    continue
                address, port = local.split(":")
                raw = bytes.fromhex(address)
                raw = b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))
                found.add((family, socket.inet_ntop(family, raw), int(port, 16)))
    return found


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count, kept = int(sys.argv[1]), {}
    print("begun", flush=True)
    while True:
        for target in listeners():
            calls = kept.setdefault(target, [])
            for _ in range(count - len(calls)):
                call = socket.socket(target[0], socket.SOCK_STREAM)
                call.setblocking(False)
                try:
                    call.connect(target[1:])
                except BlockingIOError:
                    pass
                except OSError:
                    call.close()
                    break
                calls.append(call)
            for call in list(calls):  # put out: called again
                try:
                    if call.recv(1) == b"":
                        raise ConnectionResetError
                except BlockingIOError:
                    continue
                except OSError:
                    calls.remove(call)
                    call.close()
        time.sleep(0.02)


main()
