-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark dissector of what libfabric's tcp provider and Weft's tcp speak (protocol "xnet": the
-- connection exchange and the records behind it), and of rxm's packets inside of it.
--
--   wireshark -X lua_script:weft_xnet.lua capture.pcapng
--   tshark -X lua_script:weft_xnet.lua -r capture.pcapng -Y xnet -T fields -e xnet.op -e xnet.tag
--
-- Connections are found by their first message, at any port.

local xnet = Proto("xnet", "OFI over TCP (xnet)")
local rxm = Proto("ofi_rxm", "OFI RXM")

local CM_HEAD, RECORD_HEAD, RMA_IOV, RXM_HEAD = 32, 16, 24, 64

local cm_types = { [0] = "request", [1] = "accept", [6] = "reject" }
local ops = {
    [0] = "msg", [1] = "tag", [2] = "read_req", [3] = "read_rsp", [4] = "write", [5] = "tag_rts",
    [6] = "cts", [7] = "data", [9] = "atomic", [10] = "atomic_rsp",
}
local datatypes = {
    [0] = "int8", [1] = "uint8", [2] = "int16", [3] = "uint16", [4] = "int32", [5] = "uint32",
    [6] = "int64", [7] = "uint64", [8] = "float", [9] = "double", [10] = "float complex",
    [11] = "double complex", [12] = "long double", [13] = "long double complex", [14] = "int128",
    [15] = "uint128",
}
local atomics = {
    [0] = "min", [1] = "max", [2] = "sum", [3] = "prod", [4] = "lor", [5] = "land", [6] = "bor",
    [7] = "band", [8] = "lxor", [9] = "bxor", [10] = "read", [11] = "write", [12] = "cswap",
    [13] = "cswap_ne", [14] = "cswap_le", [15] = "cswap_lt", [16] = "cswap_ge", [17] = "cswap_gt",
    [18] = "mswap",
}
local rxm_types = {
    [0] = "eager", [1] = "segment", [2] = "rndv_req", [3] = "rndv_rd_done", [4] = "atomic",
    [5] = "atomic_rsp", [6] = "credit", [7] = "rndv_wr_data", [8] = "rndv_wr_done",
}
local rxm_ops = {
    [0] = "msg", [1] = "tagged", [2] = "read_req", [3] = "read_rsp", [4] = "write",
    [5] = "write_async", [6] = "atomic", [7] = "atomic_fetch", [8] = "atomic_compare",
    [9] = "read_async",
}
local rxm_segments = { [1] = "first", [2] = "middle", [3] = "last" }
local rxm_reasons = { [0] = "unspecified", [1] = "refused", [2] = "already connected" }

local f = {
    version = ProtoField.uint8("xnet.version", "Version"),
    cm_type = ProtoField.uint8("xnet.cm.type", "Type", base.DEC, cm_types),
    cm_len = ProtoField.uint16("xnet.cm.len", "Length of the private data"),
    cm_seg_no = ProtoField.uint32("xnet.cm.seg_no", "Segment number"),
    cm_conn_id = ProtoField.uint64("xnet.cm.conn_id", "Connection"),
    cm_msg_id = ProtoField.uint64("xnet.cm.msg_id", "Message"),
    cm_conn_data = ProtoField.uint64("xnet.cm.conn_data", "Connection data (1: tells the byte order)"),
    cm_data = ProtoField.bytes("xnet.cm.data", "Private data"),
    rdm_version = ProtoField.uint8("xnet.rdm.version", "RDM version", base.DEC, nil, 0x7f),
    rdm_answer = ProtoField.bool("xnet.rdm.answer", "Version is understood", 8, nil, 0x80),
    rdm_features = ProtoField.uint8("xnet.rdm.features", "Features", base.HEX),
    rdm_port = ProtoField.uint16("xnet.rdm.port", "Port of the requester"),
    rdm_pid = ProtoField.uint32("xnet.rdm.pid", "Process"),
    rdm_trailer = ProtoField.bytes("xnet.rdm.trailer", "Trailer"),
    weft_version = ProtoField.uint8("xnet.weft.version", "Version of the trailer"),
    weft_size = ProtoField.uint8("xnet.weft.size", "Length of the trailer"),
    weft_extensions = ProtoField.uint16("xnet.weft.extensions", "Extensions", base.HEX),
    weft_atomics = ProtoField.bool("xnet.weft.extensions.atomics", "Atomics", 16, nil, 0x1),
    weft_contexts = ProtoField.bool("xnet.weft.extensions.contexts", "Contexts", 16, nil, 0x2),
    weft_source = ProtoField.uint8("xnet.weft.source", "Transmit context (0: an endpoint's)"),
    weft_target = ProtoField.uint8("xnet.weft.target", "Receive context"),
    op = ProtoField.uint8("xnet.op", "Operation", base.DEC, ops),
    flags = ProtoField.uint16("xnet.flags", "Flags", base.HEX),
    flag_data = ProtoField.bool("xnet.flags.cq_data", "Remote completion data", 16, nil, 0x1),
    flag_delivery = ProtoField.bool("xnet.flags.delivery", "Delivery complete: wants an ack", 16, nil, 0x4),
    flag_commit = ProtoField.bool("xnet.flags.commit", "Commit complete", 16, nil, 0x8),
    op_data = ProtoField.uint8("xnet.op_data", "Context (of rendezvous; 2 of a msg: ack)"),
    rma_count = ProtoField.uint8("xnet.rma_count", "Remote segments"),
    hdr_size = ProtoField.uint8("xnet.hdr_size", "Length of the headers"),
    id = ProtoField.uint8("xnet.id", "Number of the record"),
    size = ProtoField.uint64("xnet.size", "Length of the record"),
    cq_data = ProtoField.uint64("xnet.cq_data", "Completion data", base.HEX),
    tag = ProtoField.uint64("xnet.tag", "Tag", base.HEX),
    msg_size = ProtoField.uint64("xnet.msg_size", "Length of the message"),
    rma_addr = ProtoField.uint64("xnet.rma.addr", "Remote address", base.HEX),
    rma_len = ProtoField.uint64("xnet.rma.len", "Bytes; elements of atomics"),
    rma_key = ProtoField.uint64("xnet.rma.key", "Remote key", base.HEX),
    atomic_kind = ProtoField.uint8("xnet.atomic.kind", "Kind", base.DEC,
        { [0] = "write", [1] = "fetch", [2] = "compare" }),
    atomic_datatype = ProtoField.uint8("xnet.atomic.datatype", "Datatype", base.DEC, datatypes),
    atomic_op = ProtoField.uint8("xnet.atomic.op", "Atomic operation", base.DEC, atomics),
    atomic_element = ProtoField.uint8("xnet.atomic.element", "Bytes of an element"),
    atomic_precision = ProtoField.uint8("xnet.atomic.precision", "Bits of the mantissa"),
    atomic_status = ProtoField.uint64("xnet.atomic.status", "Status (0, or an FI_E code)"),
    payload_size = ProtoField.uint64("xnet.payload_size", "Bytes of payload"),
    payload = ProtoField.bytes("xnet.payload", "Payload"),
    extra = ProtoField.bytes("xnet.header_rest", "Rest of the header"),
}
xnet.fields = {}
for _, field in pairs(f) do xnet.fields[#xnet.fields + 1] = field end

local e = {
    hdr_size = ProtoExpert.new("xnet.bad_header", "The header's length does not fit the operation",
        expert.group.MALFORMED, expert.severity.ERROR),
    op = ProtoExpert.new("xnet.bad_op", "Unknown operation", expert.group.PROTOCOL,
        expert.severity.WARN),
}
xnet.experts = { e.hdr_size, e.op }

local r = {
    version = ProtoField.uint8("ofi_rxm.version", "Control version"),
    type = ProtoField.uint8("ofi_rxm.type", "Type", base.DEC, rxm_types),
    seg_size = ProtoField.uint16("ofi_rxm.seg_size", "Bytes of the segment"),
    seg_no = ProtoField.uint32("ofi_rxm.seg_no", "Number of the segment"),
    conn_id = ProtoField.uint64("ofi_rxm.conn_id", "Connection, at the receiver", base.HEX),
    msg_id = ProtoField.uint64("ofi_rxm.msg_id", "Message", base.HEX),
    ctrl_data = ProtoField.uint64("ofi_rxm.ctrl_data", "Control data"),
    segment = ProtoField.uint8("ofi_rxm.segment", "Segment", base.DEC, rxm_segments, 0x3),
    op_version = ProtoField.uint8("ofi_rxm.op_version", "Operation version"),
    op = ProtoField.uint8("ofi_rxm.op", "Operation", base.DEC, rxm_ops),
    flags = ProtoField.uint32("ofi_rxm.flags", "Flags", base.HEX),
    size = ProtoField.uint64("ofi_rxm.size", "Length of the message"),
    data = ProtoField.uint64("ofi_rxm.data", "Completion data", base.HEX),
    tag = ProtoField.uint64("ofi_rxm.tag", "Tag", base.HEX),
    datatype = ProtoField.uint8("ofi_rxm.datatype", "Datatype", base.DEC, datatypes),
    atomic = ProtoField.uint8("ofi_rxm.atomic", "Atomic operation", base.DEC, atomics),
    ioc_count = ProtoField.uint8("ofi_rxm.ioc_count", "Remote segments"),
    addr = ProtoField.uint64("ofi_rxm.addr", "Address", base.HEX),
    len = ProtoField.uint64("ofi_rxm.len", "Bytes, or elements"),
    key = ProtoField.uint64("ofi_rxm.key", "Key", base.HEX),
    count = ProtoField.uint8("ofi_rxm.count", "Segments of memory"),
    status = ProtoField.int32("ofi_rxm.status", "Status"),
    result_len = ProtoField.uint32("ofi_rxm.result_len", "Bytes of the result"),
    payload = ProtoField.bytes("ofi_rxm.payload", "Payload"),
    cm_version = ProtoField.uint8("ofi_rxm.cm.version", "Version"),
    cm_endian = ProtoField.uint8("ofi_rxm.cm.endianness", "Byte order", base.DEC,
        { [1] = "big", [2] = "little" }),
    cm_ctrl_version = ProtoField.uint8("ofi_rxm.cm.ctrl_version", "Control version"),
    cm_op_version = ProtoField.uint8("ofi_rxm.cm.op_version", "Operation version"),
    cm_port = ProtoField.uint16("ofi_rxm.cm.port", "Port of the requester"),
    cm_flow = ProtoField.uint8("ofi_rxm.cm.flow_ctrl", "Flow control"),
    cm_eager = ProtoField.uint32("ofi_rxm.cm.eager_limit", "Eager limit"),
    cm_rx_size = ProtoField.uint32("ofi_rxm.cm.rx_size", "Receives"),
    cm_conn = ProtoField.uint64("ofi_rxm.cm.conn_id", "Connection", base.HEX),
    cm_reason = ProtoField.uint8("ofi_rxm.cm.reason", "Reason", base.DEC, rxm_reasons),
}
rxm.fields = {}
for _, field in pairs(r) do rxm.fields[#rxm.fields + 1] = field end

local stream_field = Field.new("tcp.stream")
local port_field = Field.new("tcp.srcport")

-- What connection requests told, by stream: rxm, and by port of the sender the order of its bytes.
local streams = {}

function xnet.init()
    streams = {}
end

local function stream_of()
    local number = stream_field().value
    streams[number] = streams[number] or { order = {} }
    return streams[number]
end

-- Little-endian while nobody said something else; of unlike hosts, numbers are big-endian.
local function is_little(stream)
    for _, order in pairs(stream.order) do
        if order == "big" then return false end
    end
    return true
end

-- Reads numbers in the order of the stream and adds them to trees.
local function adder(tvb, tree, little)
    return function(field, at, len)
        if little then return tree:add_le(field, tvb(at, len)) end
        return tree:add(field, tvb(at, len))
    end
end

local function number(tvb, at, len, little)
    local range = tvb(at, len)
    if len == 8 then
        return little and range:le_uint64() or range:uint64()
    end
    return little and range:le_uint() or range:uint()
end

-- ---- Connection exchange: byte 6 of a record is the length of its headers, here it is 0 ----

local function is_cm(tvb, at)
    return tvb(at + 6, 1):uint() == 0
end

local function rxm_cm(tvb, at, len, kind, tree)
    local sub = tree:add(rxm, tvb(at, len))
    if kind == 6 then
        sub:add(r.cm_version, tvb(at, 1))
        sub:add(r.cm_reason, tvb(at + 1, 1))
    elseif kind == 1 then
        sub:add_le(r.cm_conn, tvb(at, 8))
        sub:add_le(r.cm_rx_size, tvb(at + 8, 4))
        sub:add(r.cm_flow, tvb(at + 12, 1))
    else
        local little = tvb(at + 1, 1):uint() ~= 1
        local add = adder(tvb, sub, little)
        sub:add(r.cm_version, tvb(at, 1))
        sub:add(r.cm_endian, tvb(at + 1, 1))
        sub:add(r.cm_ctrl_version, tvb(at + 2, 1))
        sub:add(r.cm_op_version, tvb(at + 3, 1))
        add(r.cm_port, at + 4, 2)
        sub:add(r.cm_flow, tvb(at + 6, 1))
        add(r.cm_eager, at + 8, 4)
        add(r.cm_rx_size, at + 12, 4)
        add(r.cm_conn, at + 16, 8)
    end
end

local function weft_trailer(tvb, at, len, tree)
    local sub = tree:add(f.rdm_trailer, tvb(at, len))
    if len < 8 or tvb(at, 4):string() ~= "WEFT" then return end
    sub:add(f.weft_version, tvb(at + 4, 1))
    sub:add(f.weft_size, tvb(at + 5, 1))
    sub:add(f.weft_extensions, tvb(at + 6, 2))
    sub:add(f.weft_atomics, tvb(at + 6, 2))
    sub:add(f.weft_contexts, tvb(at + 6, 2))
    if len < 12 then return end
    sub:add(f.weft_source, tvb(at + 8, 1))
    sub:add(f.weft_target, tvb(at + 9, 1))
end

local function rdm_cm(tvb, at, len, tree)
    local sub = tree:add(xnet, tvb(at, len), "Reliable datagrams")
    sub:add(f.rdm_version, tvb(at, 1))
    sub:add(f.rdm_answer, tvb(at, 1))
    sub:add(f.rdm_features, tvb(at + 1, 1))
    sub:add(f.rdm_port, tvb(at + 2, 2))
    sub:add(f.rdm_pid, tvb(at + 4, 4))
    if len > 8 then weft_trailer(tvb, at + 8, len - 8, sub) end
end

local function private_data(tvb, len, kind, tree)
    local at = CM_HEAD
    local stream = stream_of()
    if kind == 0 and len == 24 and tvb(at, 1):uint() == 1 and tvb(at + 2, 1):uint() == 4 then
        stream.rxm = true
    end
    if stream.rxm and (len == 24 or (kind == 1 and len == 16) or (kind == 6 and len == 2)) then
        rxm_cm(tvb, at, len, kind, tree)
    elseif len >= 8 then
        rdm_cm(tvb, at, len, tree)
    else
        tree:add(f.cm_data, tvb(at, len))
    end
end

local function dissect_cm(tvb, pinfo, tree)
    local kind = tvb(1, 1):uint()
    local len = tvb(2, 2):uint()
    local little = tvb(24, 1):uint() == 1
    local sub = tree:add(xnet, tvb(), "xnet connection " .. (cm_types[kind] or "message"))
    if kind ~= 6 then
        stream_of().order[port_field().value] = little and "little" or "big"
    end
    sub:add(f.version, tvb(0, 1))
    sub:add(f.cm_type, tvb(1, 1))
    sub:add(f.cm_len, tvb(2, 2))
    sub:add(f.cm_seg_no, tvb(4, 4))
    sub:add(f.cm_conn_id, tvb(8, 8))
    sub:add(f.cm_msg_id, tvb(16, 8))
    if little then
        sub:add_le(f.cm_conn_data, tvb(24, 8))
    else
        sub:add(f.cm_conn_data, tvb(24, 8))
    end
    if len > 0 then private_data(tvb, len, kind, sub) end
    pinfo.cols.info:append(" " .. (cm_types[kind] or "?"))
end

-- ---- rxm ----

local function rxm_iovs(tvb, sub, add)
    for i = 0, 3 do
        local at = RXM_HEAD + RMA_IOV * i
        if tvb:len() < at + RMA_IOV then return end
        add(r.addr, at, 8)
        add(r.len, at + 8, 8)
        add(r.key, at + 16, 8)
    end
end

local function rxm_tail(tvb, kind, sub, add)
    local rest = tvb:len() - RXM_HEAD
    if kind == 4 or kind == 5 then
        sub:add(r.datatype, tvb(56, 1))
        sub:add(r.atomic, tvb(57, 1))
        sub:add(r.ioc_count, tvb(58, 1))
    else
        add(r.tag, 56, 8)
    end
    if (kind == 2 or kind == 7) and rest >= 104 then
        rxm_iovs(tvb, sub, add)
        sub:add(r.count, tvb(160, 1))
    elseif kind == 4 and rest >= 96 then
        rxm_iovs(tvb, sub, add)
        if rest > 96 then sub:add(r.payload, tvb(160)) end
    elseif kind == 5 and rest >= 8 then
        sub:add(r.status, tvb(64, 4))
        sub:add(r.result_len, tvb(68, 4))
        if rest > 8 then sub:add(r.payload, tvb(72)) end
    elseif rest > 0 then
        sub:add(r.payload, tvb(RXM_HEAD))
    end
end

local function dissect_rxm(tvb, pinfo, tree)
    local kind = tvb(1, 1):uint()
    local sub = tree:add(rxm, tvb(), "RXM " .. (rxm_types[kind] or "packet"))
    local add = adder(tvb, sub, true)
    sub:add(r.version, tvb(0, 1))
    sub:add(r.type, tvb(1, 1))
    if kind == 1 then
        add(r.seg_size, 2, 2)
        add(r.seg_no, 4, 4)
        sub:add(r.segment, tvb(24, 1))
    else
        add(r.ctrl_data, 24, 8)
    end
    add(r.conn_id, 8, 8)
    add(r.msg_id, 16, 8)
    sub:add(r.op_version, tvb(32, 1))
    sub:add(r.op, tvb(34, 1))
    add(r.flags, 36, 4)
    add(r.size, 40, 8)
    add(r.data, 48, 8)
    rxm_tail(tvb, kind, sub, add)
    pinfo.cols.protocol = "RXM"
    pinfo.cols.info:append(" rxm " .. (rxm_types[kind] or "?"))
    return tvb:len()
end

rxm.dissector = dissect_rxm

-- ---- Records ----

local function rma_iovs(tvb, at, count, sub, add)
    for _ = 1, count do
        add(f.rma_addr, at, 8)
        add(f.rma_len, at + 8, 8)
        add(f.rma_key, at + 16, 8)
        at = at + RMA_IOV
    end
    return at
end

-- Atomics: records of Weft's own.
local function atomic_rest(tvb, hdr_size, sub, add)
    local count = tvb(5, 1):uint()
    if hdr_size < 24 + RMA_IOV * count then return nil end
    sub:add(f.atomic_kind, tvb(4, 1))
    sub:add(f.atomic_datatype, tvb(16, 1))
    sub:add(f.atomic_op, tvb(17, 1))
    sub:add(f.atomic_element, tvb(18, 1))
    sub:add(f.atomic_precision, tvb(19, 1))
    return rma_iovs(tvb, 24, count, sub, add)
end

local function atomic_answer(hdr_size, add)
    if hdr_size < 24 then return nil end
    add(f.atomic_status, 16, 8)
    return 24
end

-- What is behind the first 16 bytes. Returns where the header should end; nil: it is too short.
local function header_rest(tvb, op, hdr_size, sub, add, data_flag)
    if op == 9 then return atomic_rest(tvb, hdr_size, sub, add) end
    if op == 10 then return atomic_answer(hdr_size, add) end
    local at, need = RECORD_HEAD, RECORD_HEAD
    local count = (op == 2 or op == 4) and tvb(5, 1):uint() or 0
    local has_data = data_flag and (op == 0 or op == 1 or op == 4 or op == 5)
    need = need + (has_data and 8 or 0) + ((op == 1 or op == 5) and 8 or 0) + (op == 5 and 8 or 0) +
        RMA_IOV * count
    if hdr_size < need then return nil end
    if has_data then
        add(f.cq_data, at, 8)
        at = at + 8
    end
    if op == 1 or op == 5 then
        add(f.tag, at, 8)
        at = at + 8
    end
    if op == 5 then
        add(f.msg_size, at, 8)
        at = at + 8
    end
    return rma_iovs(tvb, at, count, sub, add)
end

local function flag_fields(tvb, sub, little)
    local add = adder(tvb, sub, little)
    add(f.flags, 2, 2)
    add(f.flag_data, 2, 2)
    add(f.flag_delivery, 2, 2)
    add(f.flag_commit, 2, 2)
    return number(tvb, 2, 2, little)
end

local function dissect_payload(tvb, at, op, pinfo, tree, sub)
    local len = tvb:len() - at
    local generated = sub:add(f.payload_size, UInt64(len))
    generated:set_generated()
    if len == 0 then return end
    sub:add(f.payload, tvb(at, len))
    if op == 0 and stream_of().rxm and len >= RXM_HEAD and tvb(at, 1):uint() == 4 then
        dissect_rxm(tvb(at, len):tvb(), pinfo, tree)
    end
end

local function dissect_record(tvb, pinfo, tree)
    local little = is_little(stream_of())
    local op, hdr_size = tvb(1, 1):uint(), tvb(6, 1):uint()
    local name = ops[op] or "unknown"
    if op == 0 and tvb(4, 1):uint() == 2 then name = "ack" end
    local sub = tree:add(xnet, tvb(), "xnet " .. name)
    local add = adder(tvb, sub, little)
    sub:add(f.version, tvb(0, 1))
    local op_item = sub:add(f.op, tvb(1, 1))
    local flags = flag_fields(tvb, sub, little)
    sub:add(f.op_data, tvb(4, 1))
    sub:add(f.rma_count, tvb(5, 1))
    local size_item = sub:add(f.hdr_size, tvb(6, 1))
    sub:add(f.id, tvb(7, 1))
    add(f.size, 8, 8)
    pinfo.cols.info:append(" " .. name)
    if not ops[op] then op_item:add_proto_expert_info(e.op) end
    if hdr_size < RECORD_HEAD or hdr_size > tvb:len() then
        size_item:add_proto_expert_info(e.hdr_size)
        return
    end
    local at = header_rest(tvb, op, hdr_size, sub, add, flags % 2 == 1)
    if not at then
        size_item:add_proto_expert_info(e.hdr_size)
        return
    end
    if at < hdr_size then sub:add(f.extra, tvb(at, hdr_size - at)) end
    dissect_payload(tvb, hdr_size, op, pinfo, tree, sub)
end

-- ---- The stream ----

local function pdu_length(tvb, pinfo, at)
    if is_cm(tvb, at) then
        return CM_HEAD + tvb(at + 2, 2):uint()
    end
    local size = number(tvb, at + 8, 8, is_little(stream_of())):tonumber()
    return size < RECORD_HEAD and RECORD_HEAD or size
end

local function dissect_pdu(tvb, pinfo, tree)
    pinfo.cols.protocol = "xnet"
    if is_cm(tvb, 0) then
        if tvb:len() >= CM_HEAD then dissect_cm(tvb, pinfo, tree) end
    else
        dissect_record(tvb, pinfo, tree)
    end
    return tvb:len()
end

-- (Called as xnet.dissector from a heuristic, it could not ask for more bytes.)
local function dissect_stream(tvb, pinfo, tree)
    pinfo.cols.protocol = "xnet"
    pinfo.cols.info:set("xnet")
    dissect_tcp_pdus(tvb, tree, RECORD_HEAD, pdu_length, dissect_pdu)
    return tvb:len()
end

xnet.dissector = dissect_stream

local function looks_like(tvb)
    if tvb:len() < CM_HEAD or tvb(0, 1):uint() ~= 3 or not cm_types[tvb(1, 1):uint()] then
        return false
    end
    if tvb(2, 2):uint() > 256 or tvb(4, 4):uint() ~= 0 then return false end
    return tvb(8, 8):uint64() == UInt64(0) and tvb(16, 8):uint64() == UInt64(0)
end

-- Ahead of what stands at a well-known port: any of those may be the number here.
pcall(set_preference, "tcp.try_heuristic_first", true)

xnet:register_heuristic("tcp", function(tvb, pinfo, tree)
    if not looks_like(tvb) then return false end
    pinfo.conversation = xnet
    dissect_stream(tvb, pinfo, tree)
    return true
end)
