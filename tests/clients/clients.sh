# SPDX-License-Identifier: BSD-2-Clause
# Sourced by the scripts here: runs unmodified programs of others on the library in $WEFT_BUILD.
set -eu
build=${WEFT_BUILD:?run by meson test}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

need() { # COMMAND: skip the test when it is not there
    command -v "$1" >/dev/null || { echo "no $1 on this machine"; exit 77; }
}

# Open MPI 4.1 over its matching transport on libfabric, nothing else: it fails rather than fall back.
# mpi SPEC RANKS PROGRAM...   It matches a prefix of provider names: $mpi_include, or tcp.
# Its files are in $work, where no other mpirun of the same time takes away a folder of theirs.
# $mpi_btl: its byte transports, for one-sided operations; by default all but those on libfabric.
mpi() {
    local spec=$1 ranks=$2
    shift 2
    TMPDIR=$work timeout --kill-after=5 "${mpi_seconds:-400}" \
        env LD_LIBRARY_PATH="$build" FI_PROVIDER="$spec" \
        mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$ranks" \
        -x LD_LIBRARY_PATH -x FI_PROVIDER \
        --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "${mpi_include:-tcp}" \
        --mca btl "${mpi_btl:-^openib,ofi}" "$@"
}

# Does PROGRAM really load our library? A client test on another one would prove nothing.
loads_ours() { # PROGRAM
    LD_LIBRARY_PATH=$build ldd "$(command -v "$1")" | grep -q "libfabric.so.1 => $build"
}

mpi_compile() { # SOURCE: compiles into $work, prints the program's path
    local program
    program=$work/$(basename "$1" .c)
    mpicc -O1 -o "$program" "$1"
    echo "$program"
}

each_stack() { # COMMAND...: runs it once with each stack in $stack
    for stack in "tcp" "rxm;tcp" "noop;rxm;noop;tcp"; do
        echo "--- FI_PROVIDER='$stack'"
        "$@"
    done
}

# One-sided operations on libfabric too, as RMA and atomics (osc rdma over btl ofi), not over Open MPI's
# own shared memory.
mpi_onesided() { # SPEC RANKS PROGRAM...
    local mpi_btl=self,ofi
    mpi "$1" "$2" --mca osc rdma --mca btl_ofi_provider_include "${mpi_include:-tcp}" "${@:3}"
}
