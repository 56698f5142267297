# SPDX-License-Identifier: BSD-2-Clause
# Sourced, after clients.sh: the folder of mpi4py's own tests in $tests, and what runs them. Debian's
# binary package has none. They are those of $WEFT_MPI4PY_TESTS, or of Debian's source package from where
# the machine's packages come from, kept in the build folder. Else the test is skipped.
need mpirun
python=/usr/bin/python3
"$python" -c 'import mpi4py' 2>/dev/null || { echo "no mpi4py"; exit 77; }

fetch_source() { # INTO: with lists of apt's own making, the machine's configuration stays as it is
    mkdir -p "$work/lists/partial" "$work/parts" "$work/unpacked"
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
        sed -n 's/^deb /deb-src /p' >"$work/src.list" || true
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
    done
    local options=(-qq -o "Dir::Etc::sourcelist=$work/src.list" -o APT::Sandbox::User=root
        -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists"
        -o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15)
    timeout 60 apt-get "${options[@]}" update && (cd "$work" &&
        timeout 60 apt-get "${options[@]}" source --download-only mpi4py) || return 1
    tar xf "$work"/mpi4py_*.orig.tar.* -C "$work/unpacked" --strip-components=1 &&
        rm -rf "$1" && mv "$work/unpacked" "$1"
}

tests=${WEFT_MPI4PY_TESTS:-$build/mpi4py-source/test}
if [ -z "${WEFT_MPI4PY_TESTS:-}" ] && [ ! -e "$tests/mpiunittest.py" ]; then
    if ! fetch_source "$build/mpi4py-source" >"$work/fetch.log" 2>&1; then
        echo "no source package of mpi4py to be had, and WEFT_MPI4PY_TESTS is not set:"
        grep '^[EW]:' "$work/fetch.log" | tail -n 3 || true
        exit 77
    fi
fi
[ -e "$tests/mpiunittest.py" ] || { echo "$tests does not hold mpi4py's tests"; exit 1; }

# shellcheck disable=SC2034
rails="mrail(same=yes);[rxm;tcp(iface=lo)+rxm;tcp(iface=lo)]"

# One job for all modules named. Says where each rank was when it does not end well.
suite() { # LAUNCHER SPEC RANKS MODULE...
    local launcher=$1 spec=$2 ranks=$3 rc=0
    echo "--- FI_PROVIDER='$spec', $ranks ranks, $launcher"
    rm -f "$work"/test.*
    (cd "$work" && "$launcher" "$spec" "$ranks" "$python" "$WEFT_SOURCE/tests/clients/mpi4py_suite.py" \
        "$tests" "$work/test" "${@:4}") >"$work/output" 2>&1 || rc=$?
    sed -n 's/^end: //p' "$work/test.0" 2>/dev/null || true
    [ $rc != 0 ] || return 0
    tail -n 60 "$work/output"
    tail -n 1 "$work"/test.*
    echo "exit code $rc"
    return 1
}

all_modules() { # of mpi4py's tests, less those given
    local file name
    for file in "$tests"/test_*.py; do
        name=$(basename "$file" .py)
        case " $* " in *" $name "*) ;; *) echo "$name" ;; esac
    done
}
