# SPDX-License-Identifier: BSD-2-Clause
"""upstream_tests.py DIR MODULE...: runs test modules of mpi4py's source.

Left out is what Open MPI 4.1 itself cannot do over its mtl/ofi, with any libfabric: cancelling a send
(it follows a null pointer), and a synchronous send to itself before its receive (it waits for ever).
"""
import sys
import unittest

SKIPPED = (
    ("TestP2PObj", "testCancel"),
    ("TestP2PBuf", "testCancel"),
    ("TestP2PObj", "testISSendAndRecv"),
)


def chosen(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from chosen(test)
        elif not any(c in type(test).__name__ and test._testMethodName == m for c, m in SKIPPED):
            yield test


sys.path.insert(0, sys.argv[1])
suite = unittest.TestSuite(chosen(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])))
result = unittest.TextTestRunner(verbosity=1).run(suite)
sys.exit(not result.wasSuccessful())
