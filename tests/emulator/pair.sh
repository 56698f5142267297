# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the tests of this folder: runs the two programs of a connection on emulated devices.
run=$WEFT_SOURCE/tests/emulator/run
export WEFT_EMULATOR_NET="test$$" WEFT_EMULATOR_LEAKS=${WEFT_EMULATOR_LEAKS:-1}
log=$(mktemp -d)
server=""
trap 'stop_server; rm -rf "$log"' EXIT
port=$((12000 + $$ % 20000)) # the kernel chooses from 32768 on
passed=0

stop_server() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    server=""
}

# need PROGRAM...: skips the test where one is not installed.
need() {
    for program; do
        command -v "$program" >/dev/null || { echo "no $program here"; exit 77; }
    done
}

# next_port: sets `port` to one that nothing listens on.
next_port() {
    port=$((port + 1))
    while grep -q ":$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6; do port=$((port + 1)); done
}

# wait_for COMMAND...: until it succeeds, or the server has ended, or a minute is over.
wait_for() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] && kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05
    done
}

listens_tcp() {
    grep -q ":$(printf %04X "$port") 0*:0000 0A" /proc/net/tcp /proc/net/tcp6
}

# listens_cm SPACE: bound is not enough; until its rdma_listen the emulator, like a device, refuses.
listens_cm() {
    grep -q " 00010000 .*@weft-emulator/$WEFT_EMULATOR_NET/$1-$port-" /proc/net/unix
}

fail() {
    echo "FAILED: $*"
    for name in server client; do
        [ -e "$log/$name" ] || continue
        echo "--- $name"
        # The whole report of a sanitizer, which stands before the last lines.
        sed -n '/ERROR: [A-Za-z]*Sanitizer\|runtime error:/,$p' "$log/$name" | head -n 200
        tail -n 60 "$log/$name"
    done
    exit 1
}

# try_pair WAIT "SERVER ARGUMENTS" "CLIENT ARGUMENTS": a client's failure is the caller's to judge; the
# server may still run then.
try_pair() {
    # shellcheck disable=SC2086
    timeout 120 "$run" $2 >"$log/server" 2>&1 &
    server=$!
    # shellcheck disable=SC2086
    wait_for $1 || fail "$2 does not listen"
    # shellcheck disable=SC2086
    timeout 120 "$run" $3 >"$log/client" 2>&1 || return 1
    wait "$server" || fail "$2, peer of $3"
    server=""
    passed=$((passed + 1))
}

# pair ...: the same; both must succeed and leave nothing behind.
pair() {
    try_pair "$@" || fail "$3"
}

no_leaks() {
    ! grep -h "weft-emulator.*leak" "$log/server" "$log/client" || fail "objects were left"
}
