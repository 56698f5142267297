/* SPDX-License-Identifier: BSD-2-Clause */
/* Compiled, as C11 and as C++17, by check_headers: every published fact about the interface. */
#include <assert.h>
#include <stddef.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_ext_efa.h>
#include <rdma/fi_profile.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_peer.h>
#include <rdma/providers/fi_prov.h>

#include "layouts.h"
#include "signatures.h"
#include "values.h"

/* No table says what these mean. */
VALUE(FI_VERSION(2, 6), 0x20006)
VALUE(FI_MAJOR(FI_VERSION(2, 6)), 2)
VALUE(FI_MINOR(FI_VERSION(2, 6)), 6)
/* Programs ask the preprocessor, too. */
#if FI_VERSION_LT(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), FI_VERSION(2, 6)) ||             \
    FI_MAJOR(FI_VERSION(2, 6)) != 2
#error "versions compare in #if"
#endif
VALUE(FI_VERSION_GE(FI_VERSION(1, 10), FI_VERSION(1, 9)), 1)
VALUE(FI_VERSION_LT(FI_VERSION(1, 9), FI_VERSION(2, 0)), 1)
VALUE(FI_VERSION_LT(FI_VERSION(2, 0), FI_VERSION(2, 0)), 0)

/* Names that programs use as macros: they test them with #ifdef. */
#if !defined(FI_HMEM) || !defined(FI_MR_HMEM) || !defined(FI_COLLECTIVE) ||                        \
    !defined(FI_CONTEXT2) || !defined(FI_ATOMIC) || !defined(FI_MR_LOCAL) ||                       \
    !defined(FI_MR_BASIC) || !defined(FI_EXT_INI) || !defined(FI_LOG) || !defined(FI_WARN) ||      \
    !defined(FI_TRACE) || !defined(FI_INFO) || !defined(FI_DBG) || !defined(FI_ADDR_NOTAVAIL) ||   \
    !defined(FI_ADDR_UNSPEC) || !defined(FI_MAJOR_VERSION) || !defined(FI_MR_DMABUF) ||            \
    !defined(FI_SET_OPS_HMEM_OVERRIDE)
#error "a public macro is missing"
#endif
