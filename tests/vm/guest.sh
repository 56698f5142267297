# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2034
# Sourced by the scripts that run in the guest: steps that may fail each, and what the device holds after them.
set -u
failed=0
log=$(mktemp -d)
one=10.77.0.1
two=10.77.0.2
[ "${VM_TOPOLOGY:-one}" = pair ] || two=$one

failure() {
    local file
    echo "FAILED: $*"
    for file in "$log"/*; do
        [ -e "$file" ] || continue
        echo "--- ${file##*/}"
        tail -n 30 "$file"
    done
    failed=1
}

# step NAME COMMAND...: prints what it says if it fails, and its last line if not.
step() {
    local name=$1
    shift
    rm -f "$log"/*
    if "$@" >"$log/out" 2>&1; then
        echo "$name: $(tail -n 1 "$log/out")"
    else
        failure "$name"
    fi
}

# forgiven SIDE: is the failure of that side one that a test knows and lets pass?
forgiven() { false; }

# pair "SERVER" "CLIENT" [WORD]: the client comes again until the server listens; WORD is in what each says at last.
pair() {
    local tries=0 server
    rm -f "$log"/*
    # shellcheck disable=SC2086
    timeout 100 $1 >"$log/server" 2>&1 &
    server=$!
    # shellcheck disable=SC2086
    until timeout 100 $2 >"$log/client" 2>&1 || forgiven client; do
        tries=$((tries + 1))
        if [ $tries -ge 20 ] || ! kill -0 "$server" 2>/dev/null; then
            failure "$2"
            kill "$server" 2>/dev/null
            wait "$server" 2>/dev/null
            return
        fi
        sleep 0.2
    done
    wait "$server" || forgiven server || failure "$1"
    for side in server client; do
        [ -z "${3:-}" ] || grep -q "$3" "$log/$side" || failure "no '$3' of the $side, $2"
    done
    echo "passed: $2"
}

# Objects of the devices, but for the context of who asks. Connections are taken down in the background.
objects() {
    rdma resource show
}
objects_at_start=$(objects)
no_leaks() {
    local tries=0
    until [ "$(objects)" = "$objects_at_start" ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { rm -f "$log"/*; objects >"$log/objects"; failure "objects were left on a device"; return; }
        sleep 0.1
    done
}
