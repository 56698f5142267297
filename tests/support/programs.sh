# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the scripts of tests/interop and tests/clients: unmodified programs of others, on the
# library that was built (ours) and on the distribution's (theirs).
#   WEFT_BUILD   the build folder, with libfabric.so.1
#   WEFT_SOURCE  the source folder
: "${WEFT_BUILD:?is the build folder, with libfabric.so.1}"
: "${WEFT_SOURCE:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"

. "$WEFT_SOURCE/tests/support/ports.sh"

work=$(mktemp -d)
jobs_to_end=()
failures=0

end_jobs() {
    local pid
    for pid in "${jobs_to_end[@]}"; do
        kill "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap end_jobs EXIT

skip() {
    echo "skipped: $*"
    exit 77
}

need() { # PROGRAM...
    local program
    for program; do
        command -v "$program" >/dev/null || skip "$program is not installed"
    done
}

# The programs are the distribution's, also where a build folder stands first in PATH.
debian() { # PROGRAM
    [ -x "/usr/bin/$1" ] || skip "/usr/bin/$1 is not installed"
    echo "/usr/bin/$1"
}

# words SIDE WHAT: sets `words` to what stands before a command on a side, "ours SPEC" (SPEC -: FI_PROVIDER
# is unset) or "theirs PROVIDER". For the background: $! is the command then, not a shell in front of it,
# so that who ends $! leaves nothing behind.
words() {
    case "$1 $2" in
    "ours -") words=(env -u FI_PROVIDER "LD_LIBRARY_PATH=$WEFT_BUILD") ;;
    "ours "*) words=(env "FI_PROVIDER=$2" "LD_LIBRARY_PATH=$WEFT_BUILD") ;;
    *) words=(env -u LD_LIBRARY_PATH "FI_PROVIDER=$2") ;;
    esac
}

# ours SPEC COMMAND...: with our library
ours() {
    local words
    words ours "$1"
    shift
    "${words[@]}" "$@"
}

# theirs PROVIDER COMMAND...: with the distribution's library
theirs() {
    local words
    words theirs "$1"
    shift
    "${words[@]}" "$@"
}

# A program that was not bound to our library would prove nothing.
check_bound() { # PROGRAM
    ours - ldd "$1" | grep -q "libfabric.so.1 => $WEFT_BUILD/" ||
        { echo "$1 does not get $WEFT_BUILD/libfabric.so.1"; exit 1; }
}

# wait_listening PORT PID: until someone listens on the port, or the process is gone, or a minute
wait_listening() {
    local hex tries
    printf -v hex ':%04X ' "$1"
    for tries in $(seq 1200); do
        grep -qs "$hex.* 0A " /proc/net/tcp /proc/net/tcp6 && return 0
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
    echo "nothing listens on port $1 after $tries tries"
    return 1
}

ok() { echo "ok      $*"; }

bad() { # TEXT FILE...
    echo "FAILED  $1"
    shift
    tail -n 20 "$@" | sed 's/^/        /'
    failures=$((failures + 1))
}

# pingpong LABEL "SERVER SIDE" "CLIENT SIDE" OPTION...
# A side is "ours SPEC" or "theirs PROVIDER". Passes when both end well, with data checked.
pingpong() {
    local label=$1 server_side server_what client_side client_what port server rc server_rc=0 words
    read -r server_side server_what <<<"$2"
    read -r client_side client_what <<<"$3"
    shift 3
    port=$(free_port)
    words "$server_side" "$server_what"
    "${words[@]}" timeout -k 2 300 "$program" -B "$port" -c "$@" \
        >"$work/server" 2>&1 &
    server=$!
    jobs_to_end+=("$server")
    wait_listening "$port" "$server"
    "$client_side" "$client_what" timeout -k 2 300 "$program" -P "$port" -c "$@" 127.0.0.1 \
        >"$work/client" 2>&1
    rc=$?
    [ $rc = 0 ] || kill "$server" 2>/dev/null
    wait "$server" || server_rc=$?
    # One line for each size, at both sides, under the head line.
    if [ "$rc$server_rc" = 00 ] && grep -q '^bytes' "$work/client" && grep -q '^bytes' "$work/server"; then
        ok "$label"
    else
        bad "$label (exit codes: client $rc, server $server_rc)" "$work/client" "$work/server"
    fi
}

# exchange LABEL "ONE SIDE" "OTHER SIDE" [ARGUMENT...]: two of $program that do the same to each other;
# the second has the higher port
exchange() {
    local label=$1 one one_what other other_what low high pid rc=0 words
    read -r one one_what <<<"$2"
    read -r other other_what <<<"$3"
    shift 3
    read -r low high <<<"$(free_ports 2)"
    [ "$low" -lt "$high" ] || { rc=$low low=$high high=$rc rc=0; }
    words "$one" "$one_what"
    "${words[@]}" timeout -k 2 300 "$program" "$one_what" "$low" "$high" "$@" >"$work/one" 2>&1 &
    pid=$!
    jobs_to_end+=("$pid")
    "$other" "$other_what" timeout -k 2 300 "$program" "$other_what" "$high" "$low" "$@" >"$work/other" 2>&1 || rc=1
    wait "$pid" || rc=1
    if [ $rc = 0 ]; then ok "$label"; else bad "$label" "$work/one" "$work/other"; fi
}

finish() {
    [ "$failures" = 0 ] || { echo "$failures failed"; exit 1; }
    exit 0
}
