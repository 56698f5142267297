# SPDX-License-Identifier: BSD-2-Clause
# Sourced by check: runs named steps, counts what they passed, shows the end of the log of one that fails.
#   step NAME COMMAND...         one check, passed when the command returns 0
#   step_counted NAME COMMAND... the same, but the command's own count of tests is taken: meson test's
#                                table, or a last line "N passed, N failed". Exit code 77: it could not be
#                                run, for the reason in its last line; that counts as one skipped
#   finish                       prints the totals; returns non-zero after a failure. With keep_going it
#                                first says again what failed, each with the end of its output, and
#                                then the causes alone, in a few lines each
# keep_going=1 goes on after a failure, which step then returns; otherwise the first one ends the run.
passed=0
failed=0
skipped=0
keep_going=${keep_going:-0}
logs=${logs:-$(mktemp -d)}
run_started=$SECONDS
failures=$(mktemp)
causes=$(mktemp)

# count_of LABEL FILE: the number behind "LABEL:" in meson test's closing table
count_of() {
    sed -n "s/^$1: *\([0-9][0-9]*\) *$/\1/p" "$2" | tail -n 1
}

report() { # STATE NAME SECONDS [DETAIL]
    printf '%-7s %-46s %4d s%s\n' "$1" "$2" "$3" "${4:+   $4}"
}

# end_of LOG: what says why. Of meson test's output each test that failed, with the end of what it
# printed; the last lines of any other log.
end_of() {
    awk -v most=40 '
        function flush_test(   line) {
            for (line = count > most ? count - most + 1 : 1; line <= count; line++) print kept[line]
            count = inside = 0
        }
        /^Summary of Failures:/ { exit }
        /^ *[0-9]+\/[0-9]+ / {
            flush_test()
            if ($0 ~ / (FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS|INTERRUPT) +[0-9.]+s/) {
                print
                inside = found = 1
            }
            next
        }
        inside { kept[++count] = $0 }
        END { flush_test(); exit !found }' "$1" || tail -n 20 "$1"
}

# causes_of LOG: of each test of meson that failed the lines that tell why, a dozen at most: the cases
# that the conformance suite repeats, the places of a sanitizer's report, the seed.
causes_of() {
    awk -v most=12 '
        /^Summary of Failures:/ { exit }
        /^ *[0-9]+\/[0-9]+ / {
            inside = $0 ~ / (FAIL|TIMEOUT|ERROR|UNEXPECTEDPASS|INTERRUPT) +[0-9.]+s/
            count = 0
            if (inside) print substr($0, 1, 150)
            next
        }
        inside && /^FAILED: |Sanitizer: |^ *#[0-9]+ .* in |runtime error: |^run: status|^\[  FAILED  \]/ &&
            ++count <= most { print "    " substr($0, 1, 150) }' "$1"
}

step_failed() { # NAME SECONDS LOG
    report FAILED "$1" "$2"
    causes_of "$3" >>"$causes"
    { echo "FAILED  $1"; end_of "$3" | sed 's/^/    /'; } >>"$failures"
    echo "---- the end of $3"
    end_of "$3"
    echo "----"
    [ "$keep_going" = 1 ] && return 1
    finish
    exit 1
}

step() {
    local name=$1 started=$SECONDS log
    shift
    log=$logs/${name//[^A-Za-z0-9]/_}.log
    if "$@" >"$log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        report ok "$name" $((SECONDS - started))
    else
        failed=$((failed + 1))
        step_failed "$name" $((SECONDS - started)) "$log"
    fi
}

step_counted() {
    local name=$1 started=$SECONDS log rc ok bad skip last label count
    shift
    log=$logs/${name//[^A-Za-z0-9]/_}.log
    "$@" >"$log" 2>&1 </dev/null
    rc=$?
    if [ $rc = 77 ]; then
        skipped=$((skipped + 1))
        report skipped "$name" $((SECONDS - started)) "$(tail -n 1 "$log")"
        return 0
    fi
    last=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    if [ -n "$last" ]; then
        ok=${last%% *}
        bad=${last##*, }
        bad=${bad%% *}
        skip=0
    else
        ok=$(count_of Ok "$log")
        bad=0
        for label in Fail Timeout 'Unexpected Pass'; do
            count=$(count_of "$label" "$log")
            bad=$((bad + ${count:-0}))
        done
        skip=$(count_of Skipped "$log")
    fi
    # A command that failed before it could count anything is one failure.
    [ $rc = 0 ] || [ "${bad:-0}" -gt 0 ] || bad=1
    passed=$((passed + ${ok:-0}))
    failed=$((failed + ${bad:-0}))
    skipped=$((skipped + ${skip:-0}))
    if [ "${bad:-0}" = 0 ]; then
        report ok "$name" $((SECONDS - started)) \
            "${ok:-0} passed$([ "${skip:-0}" = 0 ] || echo ", $skip skipped")"
    else
        step_failed "$name" $((SECONDS - started)) "$log"
    fi
}

finish() {
    local spent=$((SECONDS - run_started))
    echo
    if [ "$keep_going" = 1 ] && [ -s "$failures" ]; then
        cat "$failures"
        echo
        if [ -s "$causes" ]; then
            cat "$causes"
            echo
        fi
    fi
    rm -f "$failures" "$causes"
    [ "$skipped" = 0 ] || echo "$skipped skipped"
    echo "took $((spent / 60)) min $((spent % 60)) s"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
