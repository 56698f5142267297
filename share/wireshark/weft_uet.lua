-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark and tshark: Ultra Ethernet's packet delivery (PDS) and semantics (SES) over UDP.
--   tshark -X lua_script:weft_uet.lua -r FILE
-- Port 4793, and those of -o weft_uet.ports:RANGE; the figures are in docs/design/uet.md. A Wireshark that has a
-- dissector of its own for the port keeps it; "Decode as" chooses.

local uet = Proto("weft_uet", "Ultra Ethernet Transport")
uet.prefs.ports = Pref.range("UDP ports", "4793", "Ports that are looked at", 65535)

local types = {"TSS", "RUD", "ROD", "RUDI", "RUDI response", "UUD", "ACK", "ACK_CC", "ACK_CCX", "NACK", "Control",
    "NACK_CCX", "RUD_CC", "ROD_CC"}
local nexts = {[0] = "none", "small request", "medium request", "standard request", "response",
    "response with data", "small response with data"}
local controls = {[0] = "NOOP", "ACK_REQ", "CLEAR", "CLEAR_REQ", "CLOSE", "CLOSE_REQ", "PROBE", "CREDIT", "CREDIT_REQ",
    "NEGOTIATION"}
local nacks = {"TRIMMED", "TRIMMED_LASTHOP", "TRIMMED_ACK", "NO_PDC_AVAIL", "NO_CCC_AVAIL", "NO_BITMAP",
    "NO_PKT_BUFFER", "NO_GTD_DEL_AVAIL", "NO_SES_MSG_AVAIL", "NO_RESOURCE", "PSN_OOR_WINDOW", "reserved", "ROD_OOO",
    "INV_DPDCID", "PDC_HDR_MISMATCH", "CLOSING", "CLOSING_IN_ERR", "PKT_NOT_RCVD", "GTD_RESP_UNAVAIL", "ACK_WITH_DATA",
    "INVALID_SYN", "PDC_MODE_MISMATCH", "NEW_START_PSN", "RCVD_SES_PROCG", "UNEXP_EVENT", "RCVR_INFER_LOSS"}
local opcodes = {[0] = "NO_OP", "WRITE", "READ", "ATOMIC", "FETCHING_ATOMIC", "SEND", "RENDEZVOUS_SEND", "DATAGRAM_SEND",
    "DEFERRABLE_SEND", "TAGGED_SEND", "RENDEZVOUS_TSEND", "DEFERRABLE_TSEND", "DEFERRABLE_RTR", "TSEND_ATOMIC",
    "TSEND_FETCH_ATOMIC", "MSG_ERROR"}
local answers = {[0] = "DEFAULT_RESPONSE", "RESPONSE", "RESPONSE_W_DATA", "NO_RESPONSE"}
local lists = {[0] = "EXPECTED", "OVERFLOW"}
local codes = {[0] = "NULL", "OK", "BAD_GENERATION", "DISABLED", "DISABLED_GEN", "NO_MATCH", "UNSUPPORTED_OP",
    "UNSUPPORTED_SIZE", "AT_INVALID", "AT_PERM", "AT_ATS_ERROR", "AT_NO_TRANS", "AT_OUT_OF_RANGE", "HOST_POISONED",
    "HOST_UNSUCCESS_CMPL", "AMO_UNSUPPORTED_OP", "AMO_UNSUPPORTED_DT", "AMO_UNSUPPORTED_SIZE", "AMO_UNALIGNED",
    "AMO_FP_NAN", "AMO_FP_UNDERFLOW", "AMO_FP_OVERFLOW", "AMO_FP_INEXACT", "PERM_VIOLATION", "OP_VIOLATION",
    "BAD_INDEX", "BAD_PID", "BAD_JOB_ID", "BAD_MKEY", "BAD_ADDR", "CANCELLED", "UNDELIVERABLE", "UNCOR", "UNCOR_TRNSNT",
    "TOO_LONG", "INITIATOR_ERR", "DROPPED"}
local atomics = {[0] = "MIN", "MAX", "SUM", "DIFF", "PROD", "LOR", "LAND", "BOR", "BAND", "LXOR", "BXOR", "READ", "WRITE",
    "CSWAP", "CSWAP_NE", "CSWAP_LE", "CSWAP_LT", "CSWAP_GE", "CSWAP_GT", "MSWAP", "INVAL"}
local datatypes = {[0] = "INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64", "INT128", "UINT128",
    "FLOAT", "DOUBLE", "FLOAT_COMPLEX", "DOUBLE_COMPLEX", "LONG_DOUBLE", "LONG_DOUBLE_COMPLEX", "BF16", "FP16"}

local f = {}
local function field(name, make, ...)
    f[name] = ProtoField[make]("weft_uet." .. name, ...)
end
field("type", "uint16", "Type", base.DEC, types, 0xf800)
field("next", "uint16", "Next header", base.DEC, nexts, 0x0780)
field("control", "uint16", "Control", base.DEC, controls, 0x0780)
field("flags", "uint16", "Flags", base.HEX, nil, 0x007f)
field("retx", "bool", "Sent again", 16, nil, 0x10)
field("ar", "bool", "Acknowledge now", 16, nil, 0x08)
field("syn", "bool", "SYN", 16, nil, 0x04)
field("marked", "bool", "Congestion mark", 16, nil, 0x20)
field("is_rod", "bool", "Ordered PDC", 16, nil, 0x20)
field("is_probe", "bool", "Answer to a probe", 16, nil, 0x08)
field("wants", "uint16", "Wants", base.DEC, {[0] = "nothing", "CLEAR", "CLOSE", "reserved"}, 0x06)
field("nt_rudi", "bool", "Of RUDI", 16, nil, 0x08)
field("clear_offset", "int16", "CLEAR_PSN - PSN")
field("ack_offset", "int16", "Acknowledged PSN - CACK")
field("opaque", "uint16", "Number of the probe")
field("psn", "uint32", "PSN")
field("cack", "uint32", "CACK PSN")
field("pkt_id", "uint32", "Packet number")
field("spdcid", "uint16", "PDC of the sender")
field("dpdcid", "uint16", "PDC of the receiver")
field("pdc_info", "uint16", "PDC info", base.HEX, nil, 0xf000)
field("psn_offset", "uint16", "PSN - Start_PSN", base.DEC, nil, 0x0fff)
field("nack_code", "uint8", "NACK", base.HEX, nacks)
field("vendor_code", "uint8", "Vendor code", base.HEX)
field("payload_word", "uint32", "Payload of the header")
field("ccc_id", "uint8", "CCC")
field("credit_target", "uint24", "Credit target")
field("cc_type", "uint8", "CC type", base.DEC, {[0] = "NSCC", "CREDIT"}, 0xf0)
field("mpr", "uint8", "MP_RANGE, in 128")
field("sack_offset", "int16", "SACK base - CACK")
field("sack", "uint64", "SACK bitmap", base.HEX)
field("service_time", "uint16", "Service time, in 128 ns")
field("restore", "bool", "Restore the window", 8, nil, 0x80)
field("penalty", "uint8", "Penalty", base.DEC, nil, 0x7f)
field("received", "uint24", "Received, in 256 bytes")
field("ooo", "uint16", "Out of order")
field("cc_state", "bytes", "CC state")
field("opcode", "uint8", "Opcode", base.DEC, opcodes, 0x3f)
field("version", "uint8", "Version", base.DEC, nil, 0xc0)
field("dc", "bool", "Delivery complete", 8, nil, 0x20)
field("ie", "bool", "Initiator in error", 8, nil, 0x10)
field("rel", "bool", "Relative addressing", 8, nil, 0x08)
field("hd", "bool", "With data", 8, nil, 0x04)
field("eom", "bool", "End of message", 8, nil, 0x02)
field("som", "bool", "Start of message", 8, nil, 0x01)
field("message_id", "uint16", "Message")
field("generation", "uint8", "Generation")
field("job", "uint24", "Job")
field("pid", "uint16", "PIDonFEP", base.DEC, nil, 0x0fff)
field("index", "uint16", "Resource index", base.DEC, nil, 0x0fff)
field("length", "uint32", "Length")
field("short_length", "uint16", "Length", base.DEC, nil, 0x3fff)
field("offset", "uint64", "Offset", base.HEX)
field("initiator", "uint32", "Initiator")
field("key", "uint64", "Key or match bits", base.HEX)
field("data", "uint64", "Header data", base.HEX)
field("payload_length", "uint16", "Payload length", base.DEC, nil, 0x3fff)
field("message_offset", "uint32", "Offset in the message")
field("atomic", "uint8", "Atomic", base.DEC, atomics)
field("datatype", "uint8", "Datatype", base.DEC, datatypes)
field("compare", "bytes", "Compare")
field("swap", "bytes", "Swap")
field("control_bits", "uint8", "Semantic control", base.HEX)
field("eager_length", "uint32", "Eager length")
field("read_generation", "uint8", "Generation of the read")
field("read_pid", "uint24", "PIDonFEP of the read", base.DEC, nil, 0xfff000)
field("read_index", "uint24", "Resource index of the read", base.DEC, nil, 0x000fff)
field("read_offset", "uint64", "Offset of the read", base.HEX)
field("read_key", "uint64", "Key of the read", base.HEX)
field("initiator_token", "uint32", "Restart token of the initiator", base.HEX)
field("target_token", "uint32", "Restart token of the target", base.HEX)
field("has_ssi", "bool", "With a source id (SSI)", 8, nil, 0x04)
field("an", "bool", "Key number (AN)", 8, nil, 0x01)
field("sdi", "uint24", "Secure domain (SDI)", base.HEX)
field("ssi", "uint32", "Secure source (SSI)", base.HEX)
field("epoch", "uint16", "Epoch")
field("counter", "uint64", "Counter")
field("list", "uint8", "List", base.DEC, lists, 0xc0)
field("answer", "uint8", "Opcode", base.DEC, answers, 0x3f)
field("code", "uint8", "Return code", base.DEC, codes, 0x3f)
field("modified", "uint32", "Modified length")
field("read_id", "uint16", "Message of the read")
field("request_psn", "uint32", "PSN of the request")
field("data_bytes", "bytes", "Payload")
uet.fields = (function()
    local all = {}
    for _, one in pairs(f) do all[#all + 1] = one end
    return all
end)()

local bad = ProtoExpert.new("weft_uet.bad", "Cut short", expert.group.MALFORMED, expert.severity.ERROR)
local wrong = ProtoExpert.new("weft_uet.wrong", "A receiver must refuse this", expert.group.PROTOCOL, expert.severity.WARN)
uet.experts = {bad, wrong}

-- What each type has: bytes, flags.
local forms = {[2] = {12, 0x1c}, [3] = {12, 0x1c}, [4] = {8, 0x10}, [5] = {8, 0x30}, [6] = {4, 0}, [7] = {12, 0x3e},
    [8] = {32, 0x3e}, [9] = {40, 0x3e}, [10] = {16, 0x38}, [11] = {16, 0x3c}, [12] = {32, 0x38}, [13] = {16, 0x1c},
    [14] = {16, 0x1c}}

-- The headers that may follow.
local requests, responses = {[1] = true, [2] = true, [3] = true}, {[0] = true, [4] = true, [5] = true, [6] = true}
local both = {[1] = true, [2] = true, [3] = true, [5] = true, [6] = true}
local carried = {[2] = both, [3] = both, [4] = requests, [5] = {[4] = true, [5] = true, [6] = true}, [6] = requests,
    [7] = responses, [8] = responses, [9] = responses, [10] = {[0] = true}, [12] = {[0] = true}, [13] = both, [14] = both}

local function refuse(tree, why) tree:add_proto_expert_info(wrong, why) end

-- ---- TSS ----

local function add_security(tree, buf)
    local size = buf:len() > 0 and bit.band(buf(0, 1):uint(), 4) ~= 0 and 16 or 12
    if buf:len() < size then
        tree:add_proto_expert_info(bad)
        return
    end
    tree:add(f.has_ssi, buf(0, 1))
    tree:add(f.an, buf(0, 1))
    tree:add(f.sdi, buf(1, 3))
    if size == 16 then tree:add(f.ssi, buf(4, 4)) end
    tree:add(f.epoch, buf(size - 8, 2))
    tree:add(f.counter, buf(size - 6, 6), buf(size - 6, 6):uint64())
    if bit.band(buf(0, 1):uint(), 2) ~= 0 then refuse(tree, "Reserved bit") end
    refuse(tree, "Encrypted: there is no security here")
    if buf:len() > size then tree:add(f.data_bytes, buf(size)) end
end

-- ---- PDS ----

local function is_request(kind) return kind == 2 or kind == 3 or kind == 13 or kind == 14 end
local function is_ack(kind) return kind >= 7 and kind <= 9 end

local function add_flags(tree, range, kind)
    tree:add(f.flags, range)
    if kind ~= 6 then tree:add(f.retx, range) end
    if is_request(kind) or kind == 11 then
        tree:add(f.ar, range)
        tree:add(f.syn, range)
    end
    if kind == 11 then tree:add(f.is_rod, range) end
    if is_ack(kind) then
        tree:add(f.marked, range)
        tree:add(f.is_probe, range)
        tree:add(f.wants, range)
    end
    if kind == 10 or kind == 12 then tree:add(f.nt_rudi, range) end
end

local function add_ids(tree, buf, kind, flags)
    tree:add(f.spdcid, buf(8, 2))
    if bit.band(flags, 4) ~= 0 and (is_request(kind) or kind == 11) then
        tree:add(f.pdc_info, buf(10, 2))
        tree:add(f.psn_offset, buf(10, 2))
    else
        tree:add(f.dpdcid, buf(10, 2))
    end
    if buf(8, 2):uint() == 0 and kind ~= 10 and kind ~= 12 then tree:add_proto_expert_info(wrong, "PDC 0") end
end

local function add_cc(tree, buf, kind)
    tree:add(f.cc_type, buf(12, 1))
    tree:add(f.mpr, buf(13, 1))
    tree:add(f.sack_offset, buf(14, 2))
    tree:add(f.sack, buf(16, 8))
    if kind == 9 or bit.rshift(buf(12, 1):uint(), 4) ~= 0 then
        tree:add(f.cc_state, buf(24, kind == 9 and 16 or 8))
        return
    end
    tree:add(f.service_time, buf(24, 2))
    tree:add(f.restore, buf(26, 1))
    tree:add(f.penalty, buf(26, 1))
    tree:add(f.received, buf(27, 3))
    tree:add(f.ooo, buf(30, 2))
end

local function add_rest(tree, buf, kind, flags)
    if kind == 6 then return end
    if kind == 4 or kind == 5 then
        tree:add(f.pkt_id, buf(4, 4))
        return
    end
    tree:add(is_ack(kind) and f.cack or f.psn, buf(4, 4))
    add_ids(tree, buf, kind, flags)
    if is_request(kind) then
        tree:add(f.clear_offset, buf(2, 2))
        if kind > 12 then
            tree:add(f.ccc_id, buf(12, 1))
            tree:add(f.credit_target, buf(13, 3))
        end
    elseif is_ack(kind) then
        tree:add(bit.band(flags, 8) ~= 0 and f.opaque or f.ack_offset, buf(2, 2))
        if kind > 7 then add_cc(tree, buf, kind) end
    elseif kind == 11 then
        tree:add(f.opaque, buf(2, 2))
        tree:add(f.payload_word, buf(12, 4))
    else
        tree:add(f.nack_code, buf(2, 1))
        tree:add(f.vendor_code, buf(3, 1))
        tree:add(f.payload_word, buf(12, 4))
    end
end

-- ---- SES ----

local function is_atomic(opcode) return opcode == 3 or opcode == 4 or opcode == 13 or opcode == 14 end
local function is_rendezvous(opcode) return opcode == 6 or opcode == 10 end
local function is_deferrable(opcode) return opcode == 8 or opcode == 11 end

local function add_atomic(tree, buf)
    if buf:len() < 4 then return nil end
    local kind = buf(0, 1):uint()
    tree:add(f.atomic, buf(0, 1))
    tree:add(f.datatype, buf(1, 1))
    tree:add(f.control_bits, buf(2, 1))
    if kind > 20 then refuse(tree, "Atomic operation") end
    if buf(1, 1):uint() > 17 then refuse(tree, "Atomic datatype") end
    if kind < 13 or kind > 19 then return 4 end
    if buf:len() < 36 then return nil end
    tree:add(f.compare, buf(4, 16))
    tree:add(f.swap, buf(20, 16))
    return 36
end

local function add_rendezvous(tree, buf, length)
    if buf:len() < 24 then return nil end
    tree:add(f.eager_length, buf(0, 4))
    tree:add(f.read_generation, buf(4, 1))
    tree:add(f.read_pid, buf(5, 3))
    tree:add(f.read_index, buf(5, 3))
    tree:add(f.read_offset, buf(8, 8))
    tree:add(f.read_key, buf(16, 8))
    if buf(0, 4):uint() > length then refuse(tree, "More is eager than there is") end
    return 24
end

-- The bytes of the extension of an opcode; nil: cut short.
local function add_extension(tree, buf, kind, opcode, length)
    if is_atomic(opcode) then return add_atomic(tree, buf) end
    if not is_rendezvous(opcode) then return 0 end
    if kind < 3 then refuse(tree, "Rendezvous in a short header") end
    return add_rendezvous(tree, buf, length)
end

local function add_common(tree, buf, kind)
    tree:add(f.opcode, buf(0, 1))
    tree:add(f.version, buf(1, 1))
    for _, name in ipairs({"dc", "ie", "rel", "hd", "eom", "som"}) do tree:add(f[name], buf(1, 1)) end
    tree:add(kind == 3 and f.message_id or f.short_length, buf(2, 2))
    tree:add(f.generation, buf(4, 1))
    tree:add(f.job, buf(5, 3))
    tree:add(f.pid, buf(8, 2))
    tree:add(f.index, buf(10, 2))
    local opcode, flags = bit.band(buf(0, 1):uint(), 0x3f), buf(1, 1):uint()
    if bit.band(flags, 0xc0) ~= 0 then refuse(tree, "Version") end
    if opcode > 15 then refuse(tree, "Opcode") end
    if bit.band(flags, 0x10) ~= 0 then refuse(tree, "Initiator in error") end
    if kind < 3 and bit.band(flags, 3) ~= 3 then refuse(tree, "Part of a message in a short header") end
    if kind == 1 and bit.band(flags, 4) ~= 0 then refuse(tree, "Data in a small header") end
    if kind == 3 and buf(2, 2):uint() == 0 and opcode ~= 0 and opcode ~= 7 then refuse(tree, "Message 0") end
    if is_atomic(opcode) and bit.band(flags, 3) ~= 3 then refuse(tree, "Atomic of several packets") end
end

-- Lengths that disagree: of the message, of the payload that follows.
local function check_lengths(tree, buf, kind, opcode, payload)
    local flags = bit.band(buf(1, 1):uint(), 3)
    local length = kind < 3 and bit.band(buf(2, 2):uint(), 0x3fff) or buf(40, 4):uint()
    if opcode == 2 then
        if payload > 0 then refuse(tree, "Payload of a read") end
    elseif opcode == 0 or opcode == 15 or opcode == 12 or is_atomic(opcode) or is_rendezvous(opcode) then
        return
    elseif flags == 3 and payload ~= length then
        refuse(tree, "Length of the payload, which is the whole message")
    elseif bit.band(flags, 1) == 0 and buf(36, 4):uint() + payload > length then
        refuse(tree, "Beyond the message")
    elseif payload > length then
        refuse(tree, "Payload beyond the message")
    end
end

local function add_tokens(tree, range)
    tree:add(f.initiator_token, range(0, 4))
    tree:add(f.target_token, range(4, 4))
    if range(0, 4):uint() == 0 then refuse(tree, "No token") end
end

local function add_request(tree, buf, kind)
    local size = ({20, 32, 44})[kind]
    if buf:len() < size then return nil end
    local opcode, first = bit.band(buf(0, 1):uint(), 0x3f), bit.band(buf(1, 1):uint(), 1) ~= 0
    add_common(tree, buf, kind)
    if kind == 2 and (opcode == 0 or opcode > 4) then
        tree:add(f.data, buf(12, 8))
    else
        tree:add(f.offset, buf(12, 8))
    end
    if kind > 1 then
        tree:add(f.initiator, buf(20, 4))
        tree:add(f.key, buf(24, 8))
    end
    if is_deferrable(opcode) and kind == 3 then add_tokens(tree, buf(12, 8)) end
    if opcode == 12 and kind == 3 then add_tokens(tree, buf(24, 8)) end
    if kind == 3 then
        if first then
            tree:add(f.data, buf(32, 8))
        else
            tree:add(f.payload_length, buf(34, 2))
            tree:add(f.message_offset, buf(36, 4))
        end
        tree:add(f.length, buf(40, 4))
    end
    local length = kind == 3 and buf(40, 4):uint() or 0
    local more = add_extension(tree, buf:len() > size and buf(size):tvb() or ByteArray.new(), kind, opcode, length)
    if more then check_lengths(tree, buf, kind, opcode, buf:len() - size - more) end
    return more and size + more, opcodes[opcode] or "?"
end

local function add_response(tree, buf, kind)
    local size = kind == 5 and 20 or 12
    if buf:len() < size then return nil end
    tree:add(f.list, buf(0, 1))
    tree:add(f.answer, buf(0, 1))
    tree:add(f.version, buf(1, 1))
    tree:add(f.code, buf(1, 1))
    tree:add(f.job, buf(5, 3))
    if kind == 6 then
        tree:add(f.payload_length, buf(2, 2))
        tree:add(f.request_psn, buf(8, 4))
    else
        tree:add(f.message_id, buf(2, 2))
    end
    if kind == 4 then
        tree:add(f.generation, buf(4, 1))
        tree:add(f.modified, buf(8, 4))
    elseif kind == 5 then
        tree:add(f.read_id, buf(8, 2))
        tree:add(f.payload_length, buf(10, 2))
        tree:add(f.modified, buf(12, 4))
        tree:add(f.message_offset, buf(16, 4))
    end
    local code, answer = bit.band(buf(1, 1):uint(), 0x3f), bit.band(buf(0, 1):uint(), 0x3f)
    if bit.band(buf(1, 1):uint(), 0xc0) ~= 0 then refuse(tree, "Version") end
    if (code > 36 and code < 48) or code == 63 then refuse(tree, "Return code") end
    if answer > 3 and answer < 48 then refuse(tree, "Opcode of a response") end
    return size, (answers[bit.band(buf(0, 1):uint(), 0x3f)] or "?") .. " " .. (codes[code] or code)
end

-- ---- A packet ----

function uet.dissector(buf, info, root)
    info.cols.protocol = "UET"
    local tree = root:add(uet, buf(), "Ultra Ethernet Transport")
    if buf:len() < 2 then
        tree:add_proto_expert_info(bad)
        return
    end
    local prologue = buf(0, 2):uint()
    local kind, flags = bit.rshift(prologue, 11), bit.band(prologue, 0x7f)
    local following = bit.band(bit.rshift(prologue, 7), 15)
    local form = forms[kind]
    tree:add(f.type, buf(0, 2))
    if kind == 1 then
        add_security(tree, buf)
        info.cols.info = "TSS"
        return
    end
    tree:add(kind == 11 and f.control or f.next, buf(0, 2))
    add_flags(tree, buf(0, 2), kind)
    if not form then
        tree:add_proto_expert_info(wrong, "Type")
        return
    end
    if bit.band(flags, bit.bnot(form[2])) ~= 0 then tree:add_proto_expert_info(wrong, "Reserved flags") end
    if buf:len() < form[1] then
        tree:add_proto_expert_info(bad)
        return
    end
    if kind == 11 and following > 9 then refuse(tree, "Kind of control") end
    if carried[kind] and not carried[kind][following] then refuse(tree, "Header that this type does not carry") end
    if is_ack(kind) and bit.band(flags, 6) == 6 then refuse(tree, "Wants CLEAR and CLOSE") end
    add_rest(tree, buf, kind, flags)
    local text, at = types[kind], form[1]
    if kind == 11 then
        text = controls[following] or "Control"
    elseif kind == 10 then
        text = "NACK " .. (nacks[buf(2, 1):uint()] or "")
    elseif following > 0 and following < 7 and buf:len() <= at then
        tree:add_proto_expert_info(bad)
        return
    elseif following > 0 and following < 7 then
        local sub, more, what = tree:add(uet, buf(at), "Semantics: " .. nexts[following]), nil, nil
        if following < 4 then
            more, what = add_request(sub, buf(at):tvb(), following)
        else
            more, what = add_response(sub, buf(at):tvb(), following)
        end
        if not more then
            sub:add_proto_expert_info(bad)
            return
        end
        text, at = text .. " " .. what, at + more
    end
    if at < buf:len() and kind ~= 11 then tree:add(f.data_bytes, buf(at)) end
    info.cols.info = text
end

local function listen(range)
    DissectorTable.get("udp.port"):add(range, uet)
end

local listening = "4793"
function uet.prefs_changed()
    DissectorTable.get("udp.port"):remove(listening, uet)
    listening = uet.prefs.ports
    listen(listening)
end
listen(listening)
