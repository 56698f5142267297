# SPDX-License-Identifier: BSD-2-Clause
# Sourced by scripts that start programs at ports which they name.

# free_ports COUNT: as many, different, on one line. Nobody listens at them, and they lie below those that
# the kernel chooses by itself, for a connection say, before a program has taken its own.
free_ports() {
    python3 - "$1" <<'PYTHON'
import random, socket, sys

held = []
while len(held) < int(sys.argv[1]):
    sock = socket.socket()
    try:
        sock.bind(("", random.randrange(12000, 32768)))
    except OSError:
        sock.close()
        continue
    held.append(sock)
print(*[sock.getsockname()[1] for sock in held])
PYTHON
}

free_port() {
    free_ports 1
}
