# SPDX-License-Identifier: BSD-2-Clause
# For the scripts here. $tools: where the programs are; one line for each failed expectation.
tools=${WEFT_BUILD:?}/tools
export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS:-}"
unset FI_PROVIDER FI_HOOK FI_EXPLAIN FI_LOG_LEVEL
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
}

# run STATUS COMMAND...: stdout and stderr go to $out, exit code must be STATUS
run() {
    wanted=$1
    shift
    out=$("$@" 2>&1)
    status=$?
    [ "$status" = "$wanted" ] || fail "$*: exit code $status, not $wanted: $out"
}

# says TEXT: a line of $out contains it
says() {
    case $out in *"$1"*) ;; *) fail "no '$1' in: $out" ;; esac
}

says_not() {
    case $out in *"$1"*) fail "'$1' in: $out" ;; esac
}

finish() {
    [ $failures = 0 ]
}
