# SPDX-License-Identifier: BSD-2-Clause
# Sourced, after clients.sh: runs $programs of scalapack-mpi-test, relative to its folder.
need mpirun
folder=$(echo /usr/lib/*/scalapack/openmpi-tests)
[ -d "$folder" ] || { echo "no ScaLAPACK tests on this machine"; exit 77; }
cd "$work"
ln -s "$folder"/*.dat "$folder"/PBLAS/*.dat "$folder"/BLACS/*.dat .
export OPENBLAS_NUM_THREADS=1

failed=0
for program in $programs; do
    printf '%-20s' "$program"
    : >output
    rc=0
    mpi tcp 4 "$folder/$program" >output 2>&1 || rc=$?
    # Some write what they found into files.
    cat ./*.out ./*.SUMM >>output 2>/dev/null || true
    rm -f ./*.out ./*.SUMM
    passed=$(grep -ciE 'pass' output || true)
    # "0 tests completed and failed" is no failure; a counter that is not 0 is one, or FAILED in a line
    # of one test (not the head of a table).
    if [ $rc != 0 ] || [ "$passed" = 0 ] || grep -E '^ *[1-9][0-9]* tests? .*fail|FAILED *$|FAILED +[*]' output; then
        echo "FAILED (exit code $rc)"
        tail -n 30 output
        failed=$((failed + 1))
    else
        echo "ok, $passed lines of checks"
    fi
done
[ $failed = 0 ]
