/* SPDX-License-Identifier: BSD-2-Clause */
/* Size of every public struct, and offset of every field, as x86-64 programs have them compiled in.
 * Included by check_headers after all public headers. */

#define FIELDS_1(t, f, at) static_assert(offsetof(struct t, f) == (at), #t "." #f);
#define FIELDS_2(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_1(t, __VA_ARGS__)
#define FIELDS_3(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_2(t, __VA_ARGS__)
#define FIELDS_4(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_3(t, __VA_ARGS__)
#define FIELDS_5(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_4(t, __VA_ARGS__)
#define FIELDS_6(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_5(t, __VA_ARGS__)
#define FIELDS_7(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_6(t, __VA_ARGS__)
#define FIELDS_8(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_7(t, __VA_ARGS__)
#define FIELDS_9(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_8(t, __VA_ARGS__)
#define FIELDS_10(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_9(t, __VA_ARGS__)
#define FIELDS_11(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_10(t, __VA_ARGS__)
#define FIELDS_12(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_11(t, __VA_ARGS__)
#define FIELDS_13(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_12(t, __VA_ARGS__)
#define FIELDS_14(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_13(t, __VA_ARGS__)
#define FIELDS_15(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_14(t, __VA_ARGS__)
#define FIELDS_16(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_15(t, __VA_ARGS__)
#define FIELDS_17(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_16(t, __VA_ARGS__)
#define FIELDS_18(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_17(t, __VA_ARGS__)
#define FIELDS_19(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_18(t, __VA_ARGS__)
#define FIELDS_20(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_19(t, __VA_ARGS__)
#define FIELDS_21(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_20(t, __VA_ARGS__)
#define FIELDS_22(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_21(t, __VA_ARGS__)
#define FIELDS_23(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_22(t, __VA_ARGS__)
#define FIELDS_24(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_23(t, __VA_ARGS__)
#define FIELDS_25(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_24(t, __VA_ARGS__)
#define FIELDS_26(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_25(t, __VA_ARGS__)
#define FIELDS_27(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_26(t, __VA_ARGS__)
#define FIELDS_28(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_27(t, __VA_ARGS__)
#define FIELDS_29(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_28(t, __VA_ARGS__)
#define FIELDS_30(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_29(t, __VA_ARGS__)
#define FIELDS_31(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_30(t, __VA_ARGS__)
#define FIELDS_32(t, f, at, ...) FIELDS_1(t, f, at) FIELDS_31(t, __VA_ARGS__)
/* Struct, bytes, number of fields; then each field with its offset. */
#define LAYOUT(t, bytes, count, ...)                                                               \
    static_assert(sizeof(struct t) == (bytes), #t);                                                \
    FIELDS_##count(t, __VA_ARGS__)

/* fabric.h */
LAYOUT(fi_alias, 16, 2, fid, 0, flags, 8)
LAYOUT(fi_bus_attr, 12, 2, bus_type, 0, attr, 4)
LAYOUT(fi_context, 32, 1, internal, 0)
LAYOUT(fi_context2, 64, 1, internal, 0)
LAYOUT(fi_device_attr, 48, 6, name, 0, device_id, 8, device_version, 16, vendor_id, 24, driver, 32,
       firmware, 40)
LAYOUT(fi_domain_attr, 224, 32, domain, 0, name, 8, threading, 16, control_progress, 20,
       data_progress, 24, progress, 24, resource_mgmt, 28, av_type, 32, mr_mode, 36, mr_key_size,
       40, cq_data_size, 48, cq_cnt, 56, ep_cnt, 64, tx_ctx_cnt, 72, rx_ctx_cnt, 80, max_ep_tx_ctx,
       88, max_ep_rx_ctx, 96, max_ep_stx_ctx, 104, max_ep_srx_ctx, 112, cntr_cnt, 120, mr_iov_limit,
       128, caps, 136, mode, 144, auth_key, 152, auth_key_size, 160, max_err_data, 168, mr_cnt, 176,
       tclass, 184, max_ep_auth_key, 192, max_group_id, 200, max_cntr_value, 208,
       max_err_cntr_value, 216)
LAYOUT(fi_ep_attr, 96, 13, type, 0, protocol, 4, protocol_version, 8, max_msg_size, 16,
       msg_prefix_size, 24, max_order_raw_size, 32, max_order_war_size, 40, max_order_waw_size, 48,
       mem_tag_format, 56, tx_ctx_cnt, 64, rx_ctx_cnt, 72, auth_key_size, 80, auth_key, 88)
LAYOUT(fi_fabric_attr, 32, 5, fabric, 0, name, 8, prov_name, 16, prov_version, 24, api_version, 28)
LAYOUT(fi_fid_var, 16, 2, name, 0, val, 8)
LAYOUT(fi_info, 120, 15, next, 0, caps, 8, mode, 16, addr_format, 24, src_addrlen, 32, dest_addrlen,
       40, src_addr, 48, dest_addr, 56, handle, 64, tx_attr, 72, rx_attr, 80, ep_attr, 88,
       domain_attr, 96, fabric_attr, 104, nic, 112)
LAYOUT(fi_ioc, 16, 2, addr, 0, count, 8)
LAYOUT(fi_link_attr, 40, 5, address, 0, mtu, 8, speed, 16, state, 24, network_type, 32)
LAYOUT(fi_mr_map_raw, 40, 5, flags, 0, base_addr, 8, raw_key, 16, key_size, 24, key, 32)
LAYOUT(fi_mr_raw_attr, 32, 4, flags, 0, base_addr, 8, raw_key, 16, key_size, 24)
LAYOUT(fi_ops, 56, 7, size, 0, close, 8, bind, 16, control, 24, ops_open, 32, tostr, 40, ops_set,
       48)
LAYOUT(fi_ops_fabric, 56, 7, size, 0, domain, 8, passive_ep, 16, eq_open, 24, wait_open, 32,
       trywait, 40, domain2, 48)
LAYOUT(fi_param, 32, 4, name, 0, type, 8, help_string, 16, value, 24)
LAYOUT(fi_pci_attr, 6, 4, domain_id, 0, bus_id, 2, device_id, 3, function_id, 4)
LAYOUT(fi_recv_context, 16, 2, ep, 0, context, 8)
LAYOUT(fi_rx_attr, 64, 8, caps, 0, mode, 8, op_flags, 16, msg_order, 24, comp_order, 32,
       total_buffered_recv, 40, size, 48, iov_limit, 56)
LAYOUT(fi_tx_attr, 80, 10, caps, 0, mode, 8, op_flags, 16, msg_order, 24, comp_order, 32,
       inject_size, 40, size, 48, iov_limit, 56, rma_iov_limit, 64, tclass, 72)
LAYOUT(fid, 24, 3, fclass, 0, context, 8, ops, 16)
LAYOUT(fid_fabric, 40, 3, fid, 0, ops, 24, api_version, 32)
LAYOUT(fid_nic, 56, 5, fid, 0, device_attr, 24, bus_attr, 32, link_attr, 40, prov_attr, 48)

/* fi_atomic.h */
LAYOUT(fi_atomic_attr, 16, 2, count, 0, size, 8)
LAYOUT(fi_msg_atomic, 72, 10, msg_iov, 0, desc, 8, iov_count, 16, addr, 24, rma_iov, 32,
       rma_iov_count, 40, datatype, 48, op, 52, context, 56, data, 64)
LAYOUT(fi_msg_compare, 24, 3, msg_iov, 0, desc, 8, iov_count, 16)
LAYOUT(fi_msg_fetch, 24, 3, msg_iov, 0, desc, 8, iov_count, 16)
LAYOUT(fi_ops_atomic, 112, 14, size, 0, write, 8, writev, 16, writemsg, 24, inject, 32, readwrite,
       40, readwritev, 48, readwritemsg, 56, compwrite, 64, compwritev, 72, compwritemsg, 80,
       writevalid, 88, readwritevalid, 96, compwritevalid, 104)

/* fi_cm.h */
LAYOUT(fi_ops_cm, 80, 10, size, 0, setname, 8, getname, 16, getpeer, 24, connect, 32, listen, 40,
       accept, 48, reject, 56, shutdown, 64, join, 72)
LAYOUT(fid_mc, 32, 2, fid, 0, fi_addr, 24)

/* fi_collective.h */
LAYOUT(fi_collective_addr, 16, 2, set, 0, coll_addr, 8)
LAYOUT(fi_collective_attr, 40, 5, op, 0, datatype, 4, datatype_attr, 8, max_members, 24, mode, 32)
LAYOUT(fi_msg_collective, 64, 9, msg_iov, 0, desc, 8, iov_count, 16, coll_addr, 24, root_addr, 32,
       coll, 40, datatype, 44, op, 48, context, 56)
LAYOUT(fi_ops_av_set, 56, 7, size, 0, set_union, 8, intersect, 16, diff, 24, insert, 32, remove, 40,
       addr, 48)
LAYOUT(fi_ops_collective, 96, 12, size, 0, barrier, 8, broadcast, 16, alltoall, 24, allreduce, 32,
       allgather, 40, reduce_scatter, 48, reduce, 56, scatter, 64, gather, 72, msg, 80, barrier2,
       88)
LAYOUT(fid_av_set, 32, 2, fid, 0, ops, 24)

/* fi_domain.h */
LAYOUT(fi_av_attr, 48, 7, type, 0, rx_ctx_bits, 4, count, 8, ep_per_node, 16, name, 24, map_addr,
       32, flags, 40)
LAYOUT(fi_av_set_attr, 56, 7, count, 0, start_addr, 8, end_addr, 16, stride, 24, comm_key_size, 32,
       comm_key, 40, flags, 48)
LAYOUT(fi_hmem_override_ops, 24, 3, size, 0, copy_from_hmem_iov, 8, copy_to_hmem_iov, 16)
LAYOUT(fi_mr_attr, 112, 15, mr_iov, 0, dmabuf, 0, iov_count, 8, access, 16, offset, 24,
       requested_key, 32, context, 40, auth_key_size, 48, auth_key, 56, iface, 64, device, 72,
       hmem_data, 80, page_size, 88, base_mr, 96, sub_mr_cnt, 104)
LAYOUT(fi_mr_auth_key, 16, 2, av, 0, src_addr, 8)
LAYOUT(fi_mr_dmabuf, 32, 4, fd, 0, offset, 8, len, 16, base_addr, 24)
LAYOUT(fi_mr_modify, 120, 2, flags, 0, attr, 8)
LAYOUT(fi_ops_av, 88, 11, size, 0, insert, 8, insertsvc, 16, insertsym, 24, remove, 32, lookup, 40,
       straddr, 48, av_set, 56, insert_auth_key, 64, lookup_auth_key, 72, set_user_id, 80)
LAYOUT(fi_ops_domain, 96, 12, size, 0, av_open, 8, cq_open, 16, endpoint, 24, scalable_ep, 32,
       cntr_open, 40, poll_open, 48, stx_ctx, 56, srx_ctx, 64, query_atomic, 72, query_collective,
       80, endpoint2, 88)
LAYOUT(fi_ops_mr, 32, 4, size, 0, reg, 8, regv, 16, regattr, 24)
LAYOUT(fid_av, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_domain, 40, 3, fid, 0, ops, 24, mr, 32)
LAYOUT(fid_mr, 40, 3, fid, 0, mem_desc, 24, key, 32)

/* fi_endpoint.h */
LAYOUT(fi_msg, 48, 6, msg_iov, 0, desc, 8, iov_count, 16, addr, 24, context, 32, data, 40)
LAYOUT(fi_ops_ep, 64, 8, size, 0, cancel, 8, getopt, 16, setopt, 24, tx_ctx, 32, rx_ctx, 40,
       rx_size_left, 48, tx_size_left, 56)
LAYOUT(fi_ops_msg, 80, 10, size, 0, recv, 8, recvv, 16, recvmsg, 24, send, 32, sendv, 40, sendmsg,
       48, inject, 56, senddata, 64, injectdata, 72)
LAYOUT(fid_ep, 80, 8, fid, 0, ops, 24, cm, 32, msg, 40, rma, 48, tagged, 56, atomic, 64, collective,
       72)
LAYOUT(fid_pep, 40, 3, fid, 0, ops, 24, cm, 32)
LAYOUT(fid_stx, 32, 2, fid, 0, ops, 24)

/* fi_eq.h */
LAYOUT(fi_cntr_attr, 24, 4, events, 0, wait_obj, 4, wait_set, 8, flags, 16)
LAYOUT(fi_cq_attr, 40, 7, size, 0, flags, 8, format, 16, wait_obj, 20, signaling_vector, 24,
       wait_cond, 28, wait_set, 32)
LAYOUT(fi_cq_data_entry, 40, 5, op_context, 0, flags, 8, len, 16, buf, 24, data, 32)
LAYOUT(fi_cq_entry, 8, 1, op_context, 0)
LAYOUT(fi_cq_err_entry, 88, 12, op_context, 0, flags, 8, len, 16, buf, 24, data, 32, tag, 40, olen,
       48, err, 56, prov_errno, 60, err_data, 64, err_data_size, 72, src_addr, 80)
LAYOUT(fi_cq_msg_entry, 24, 3, op_context, 0, flags, 8, len, 16)
LAYOUT(fi_cq_tagged_entry, 48, 6, op_context, 0, flags, 8, len, 16, buf, 24, data, 32, tag, 40)
LAYOUT(fi_eq_attr, 32, 5, size, 0, flags, 8, wait_obj, 16, signaling_vector, 20, wait_set, 24)
LAYOUT(fi_eq_cm_entry, 16, 3, fid, 0, info, 8, data, 16)
LAYOUT(fi_eq_entry, 24, 3, fid, 0, context, 8, data, 16)
LAYOUT(fi_eq_err_entry, 48, 7, fid, 0, context, 8, data, 16, err, 24, prov_errno, 28, err_data, 32,
       err_data_size, 40)
LAYOUT(fi_mutex_cond, 16, 2, mutex, 0, cond, 8)
LAYOUT(fi_ops_cntr, 64, 8, size, 0, read, 8, readerr, 16, add, 24, set, 32, wait, 40, adderr, 48,
       seterr, 56)
LAYOUT(fi_ops_cq, 64, 8, size, 0, read, 8, readfrom, 16, readerr, 24, sread, 32, sreadfrom, 40,
       signal, 48, strerror, 56)
LAYOUT(fi_ops_eq, 48, 6, size, 0, read, 8, readerr, 16, write, 24, sread, 32, strerror, 40)
LAYOUT(fi_ops_poll, 32, 4, size, 0, poll, 8, poll_add, 16, poll_del, 24)
LAYOUT(fi_ops_wait, 16, 2, size, 0, wait, 8)
LAYOUT(fi_poll_attr, 8, 1, flags, 0)
LAYOUT(fi_wait_attr, 16, 2, wait_obj, 0, flags, 8)
LAYOUT(fi_wait_pollfd, 24, 3, change_index, 0, nfds, 8, fd, 16)
LAYOUT(fid_cntr, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_cq, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_eq, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_poll, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_wait, 32, 2, fid, 0, ops, 24)

/* fi_ext.h */
LAYOUT(fi_fid_export, 24, 3, fid, 0, flags, 8, context, 16)
LAYOUT(fi_ops_log, 32, 4, size, 0, enabled, 8, ready, 16, log, 24)
LAYOUT(fi_ops_mem_monitor, 48, 6, size, 0, start, 8, stop, 16, subscribe, 24, unsubscribe, 32,
       valid, 40)
LAYOUT(fi_ops_mem_notify, 16, 2, size, 0, notify, 8)
LAYOUT(fid_logging, 32, 2, fid, 0, ops, 24)
LAYOUT(fid_mem_monitor, 40, 3, fid, 0, export_ops, 24, import_ops, 32)

/* fi_ext_efa.h */
LAYOUT(fi_efa_mr_attr, 8, 4, ic_id_validity, 0, recv_ic_id, 2, rdma_read_ic_id, 4, rdma_recv_ic_id,
       6)
LAYOUT(fi_efa_ops_domain, 8, 1, query_mr, 0)
LAYOUT(fi_efa_wq_attr, 32, 5, buffer, 0, entry_size, 8, num_entries, 12, doorbell, 16, max_batch,
       24)
LAYOUT(fi_efa_cq_attr, 16, 3, buffer, 0, entry_size, 8, num_entries, 12)
LAYOUT(fi_efa_cq_init_attr, 40, 5, flags, 0, ext_mem_dmabuf.buffer, 8, ext_mem_dmabuf.length, 16,
       ext_mem_dmabuf.offset, 24, ext_mem_dmabuf.fd, 32)
LAYOUT(fi_efa_memory_location, 32, 6, ptr, 0, dmabuf.offset, 8, dmabuf.fd, 16, dmabuf.reserved, 20,
       type, 24, reserved, 25)
LAYOUT(fi_efa_comp_cntr_init_attr, 80, 5, comp_mask, 0, flags, 8, reserved, 12, comp_cntr_ext_mem,
       16, err_cntr_ext_mem, 48)
LAYOUT(fi_efa_ops_gda, 48, 6, query_addr, 0, query_qp_wqs, 8, query_cq, 16, cq_open_ext, 24,
       get_mr_lkey, 32, cntr_open_ext, 40)
LAYOUT(fi_efa_feature_ops, 8, 1, query, 0)

/* fi_peer.h */
LAYOUT(fi_ops_av_owner, 24, 3, size, 0, query, 8, ep_addr, 16)
LAYOUT(fi_ops_av_set_owner, 16, 2, size, 0, members, 8)
LAYOUT(fi_ops_cntr_owner, 24, 3, size, 0, inc, 8, incerr, 16)
LAYOUT(fi_ops_cq_owner, 24, 3, size, 0, write, 8, writeerr, 16)
LAYOUT(fi_ops_srx_owner, 56, 7, size, 0, get_msg, 8, get_tag, 16, queue_msg, 24, queue_tag, 32,
       foreach_unspec_addr, 40, free_entry, 48)
LAYOUT(fi_ops_srx_peer, 40, 5, size, 0, start_msg, 8, start_tag, 16, discard_msg, 24, discard_tag,
       32)
LAYOUT(fi_ops_transfer_peer, 24, 3, size, 0, complete, 8, comperr, 16)
LAYOUT(fi_peer_av_context, 16, 2, size, 0, av, 8)
LAYOUT(fi_peer_av_set_context, 16, 2, size, 0, av_set, 8)
LAYOUT(fi_peer_cntr_context, 16, 2, size, 0, cntr, 8)
LAYOUT(fi_peer_cq_context, 16, 2, size, 0, cq, 8)
LAYOUT(fi_peer_domain_context, 16, 2, size, 0, domain, 8)
LAYOUT(fi_peer_eq_context, 16, 2, size, 0, eq, 8)
LAYOUT(fi_peer_match_attr, 24, 3, addr, 0, msg_size, 8, tag, 16)
LAYOUT(fi_peer_rx_entry, 96, 12, srx, 0, addr, 8, msg_size, 16, tag, 24, cq_data, 32, flags, 40,
       context, 48, count, 56, desc, 64, peer_context, 72, owner_context, 80, iov, 88)
LAYOUT(fi_peer_srx_context, 16, 2, size, 0, srx, 8)
LAYOUT(fi_peer_transfer_context, 32, 4, size, 0, info, 8, ep, 16, peer_ops, 24)
LAYOUT(fid_peer_av, 32, 2, fid, 0, owner_ops, 24)
LAYOUT(fid_peer_av_set, 32, 2, fid, 0, owner_ops, 24)
LAYOUT(fid_peer_cntr, 32, 2, fid, 0, owner_ops, 24)
LAYOUT(fid_peer_cq, 32, 2, fid, 0, owner_ops, 24)
LAYOUT(fid_peer_srx, 96, 3, ep_fid, 0, owner_ops, 80, peer_ops, 88)

/* fi_profile.h */
LAYOUT(fi_profile_desc, 48, 7, id, 0, datatype_sel, 4, datatype, 8, flags, 16, size, 24, name, 32,
       desc, 40)
LAYOUT(fi_profile_ops, 64, 8, size, 0, reset, 8, query_vars, 16, query_events, 24, read_var, 32,
       reg_callback, 40, start_reads, 48, end_reads, 56)
LAYOUT(fid_profile, 32, 2, fid, 0, ops, 24)

/* fi_prov.h */
LAYOUT(fi_provider, 72, 7, version, 0, fi_version, 4, context, 8, name, 40, getinfo, 48, fabric, 56,
       cleanup, 64)

/* fi_rma.h */
LAYOUT(fi_msg_rma, 64, 8, msg_iov, 0, desc, 8, iov_count, 16, addr, 24, rma_iov, 32, rma_iov_count,
       40, context, 48, data, 56)
LAYOUT(fi_ops_rma, 80, 10, size, 0, read, 8, readv, 16, readmsg, 24, write, 32, writev, 40,
       writemsg, 48, inject, 56, writedata, 64, injectdata, 72)
LAYOUT(fi_rma_ioc, 24, 3, addr, 0, count, 8, key, 16)
LAYOUT(fi_rma_iov, 24, 3, addr, 0, len, 8, key, 16)

/* fi_tagged.h */
LAYOUT(fi_msg_tagged, 64, 8, msg_iov, 0, desc, 8, iov_count, 16, addr, 24, tag, 32, ignore, 40,
       context, 48, data, 56)
LAYOUT(fi_ops_tagged, 80, 10, size, 0, recv, 8, recvv, 16, recvmsg, 24, send, 32, sendv, 40,
       sendmsg, 48, inject, 56, senddata, 64, injectdata, 72)

/* fi_trigger.h */
LAYOUT(fi_deferred_work, 104, 6, context, 0, threshold, 64, triggering_cntr, 72, completion_cntr,
       80, op_type, 88, op, 96)
LAYOUT(fi_op_atomic, 88, 3, ep, 0, msg, 8, flags, 80)
LAYOUT(fi_op_cntr, 16, 2, cntr, 0, value, 8)
LAYOUT(fi_op_compare_atomic, 136, 5, ep, 0, msg, 8, fetch, 80, compare, 104, flags, 128)
LAYOUT(fi_op_fetch_atomic, 112, 4, ep, 0, msg, 8, fetch, 80, flags, 104)
LAYOUT(fi_op_msg, 64, 3, ep, 0, msg, 8, flags, 56)
LAYOUT(fi_op_rma, 80, 3, ep, 0, msg, 8, flags, 72)
LAYOUT(fi_op_tagged, 80, 3, ep, 0, msg, 8, flags, 72)
LAYOUT(fi_trigger_threshold, 16, 2, cntr, 0, threshold, 8)
LAYOUT(fi_trigger_var, 24, 4, datatype, 0, count, 4, addr, 8, value, 16)
LAYOUT(fi_trigger_xpu, 24, 4, count, 0, iface, 4, device, 8, var, 16)
LAYOUT(fi_triggered_context, 32, 2, event_type, 0, trigger, 8)
LAYOUT(fi_triggered_context2, 64, 2, event_type, 0, trigger, 8)
