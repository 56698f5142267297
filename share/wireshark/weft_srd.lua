-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark and tshark: packets of libfabric's efa (FI_PROTO_EFA, version 4), as srd sends them.
--   tshark -X lua_script:weft_srd.lua -r FILE
-- A heuristic for UDP: the emulator of EFA devices writes its captures so (WEFT_EMULATOR_PCAP), and srd;udp sends so.
-- The figures are in docs/design/srd.md. Numbers are little-endian.

local srd = Proto("weft_srd", "EFA RDM protocol")

-- Type, name, and fields behind the first 4 bytes: {name, offset, bytes}.
local message = {"msg_id", 4, 4}
local types = {
    [3] = {"CTS", {"connid", 4, 4}, {"send_id", 8, 4}, {"recv_id", 12, 4}, {"window", 16, 8}},
    [4] = {"CTSDATA", {"recv_id", 4, 4}, {"seg_length", 8, 8}, {"seg_offset", 16, 8}},
    [5] = {"READRSP", {"connid", 4, 4}, {"recv_id", 8, 4}, {"send_id", 12, 4}, {"seg_length", 16, 8}},
    [7] = {"EOR", {"send_id", 4, 4}, {"recv_id", 8, 4}, {"connid", 12, 4}},
    [8] = {"ATOMRSP", {"connid", 4, 4}, {"recv_id", 12, 4}, {"seg_length", 16, 8}},
    [9] = {"HANDSHAKE", {"words", 4, 4}, {"features", 8, 8}},
    [10] = {"RECEIPT", {"send_id", 4, 4}, {"msg_id", 8, 4}, {"connid", 12, 4}},
    [11] = {"READ_NACK", {"send_id", 4, 4}, {"recv_id", 8, 4}, {"connid", 12, 4}},
    [12] = {"PEER_ERROR", {"op_id", 4, 4}, {"ref_kind", 8, 4}, {"prov_errno", 12, 4}, {"connid", 16, 4}},
    [64] = {"EAGER_MSGRTM", message},
    [65] = {"EAGER_TAGRTM", message, {"tag", 8, 8}},
    [66] = {"MEDIUM_MSGRTM", message, {"msg_length", 8, 8}, {"seg_offset", 16, 8}},
    [67] = {"MEDIUM_TAGRTM", message, {"msg_length", 8, 8}, {"seg_offset", 16, 8}, {"tag", 24, 8}},
    [68] = {"LONGCTS_MSGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}},
    [69] = {"LONGCTS_TAGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}, {"tag", 24, 8}},
    [70] = {"EAGER_RTW", {"places", 4, 4}},
    [71] = {"LONGCTS_RTW", {"places", 4, 4}, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}},
    [72] = {"SHORT_RTR", {"places", 4, 4}, {"msg_length", 8, 8}, {"recv_id", 16, 4}, {"window", 20, 4}},
    [73] = {"LONGCTS_RTR", {"places", 4, 4}, {"msg_length", 8, 8}, {"recv_id", 16, 4}, {"window", 20, 4}},
    [74] = {"WRITE_RTA", message, {"places", 8, 4}, {"datatype", 12, 4}, {"op", 16, 4}},
    [75] = {"FETCH_RTA", message, {"places", 8, 4}, {"datatype", 12, 4}, {"op", 16, 4}, {"recv_id", 20, 4}},
    [76] = {"COMPARE_RTA", message, {"places", 8, 4}, {"datatype", 12, 4}, {"op", 16, 4}, {"recv_id", 20, 4}},
    [128] = {"LONGREAD_MSGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"reads", 20, 4}},
    [129] = {"LONGREAD_TAGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"reads", 20, 4}, {"tag", 24, 8}},
    [130] = {"LONGREAD_RTW", {"places", 4, 4}, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"reads", 20, 4}},
    [133] = {"DC_EAGER_MSGRTM", message, {"send_id", 8, 4}},
    [134] = {"DC_EAGER_TAGRTM", message, {"send_id", 8, 4}, {"tag", 16, 8}},
    [135] = {"DC_MEDIUM_MSGRTM", message, {"send_id", 8, 4}, {"msg_length", 16, 8}, {"seg_offset", 24, 8}},
    [136] = {"DC_MEDIUM_TAGRTM", message, {"send_id", 8, 4}, {"msg_length", 16, 8}, {"seg_offset", 24, 8}, {"tag", 32, 8}},
    [137] = {"DC_LONGCTS_MSGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}},
    [138] = {"DC_LONGCTS_TAGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}, {"tag", 24, 8}},
    [139] = {"DC_EAGER_RTW", {"places", 4, 4}, {"send_id", 8, 4}},
    [140] = {"DC_LONGCTS_RTW", {"places", 4, 4}, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"credits", 20, 4}},
    [141] = {"DC_WRITE_RTA", message, {"places", 8, 4}, {"datatype", 12, 4}, {"op", 16, 4}, {"send_id", 20, 4}},
    [145] = {"RUNTREAD_MSGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"reads", 20, 4},
        {"seg_offset", 24, 8}, {"runt_length", 32, 8}},
    [146] = {"RUNTREAD_TAGRTM", message, {"msg_length", 8, 8}, {"send_id", 16, 4}, {"reads", 20, 4},
        {"seg_offset", 24, 8}, {"runt_length", 32, 8}, {"tag", 40, 8}},
}

local names, f = {}, {}
for number, type in pairs(types) do
    names[number] = type[1]
    for i = 2, #type do
        local name, bytes = type[i][1], type[i][3]
        f[name .. bytes] = ProtoField["uint" .. bytes * 8]("weft_srd." .. name, name, base.DEC)
    end
end
f.type = ProtoField.uint8("weft_srd.type", "Type", base.DEC, names)
f.version = ProtoField.uint8("weft_srd.version", "Version")
f.flags = ProtoField.uint16("weft_srd.flags", "Flags", base.HEX)
f.length = ProtoField.uint32("weft_srd.length", "Length of the packet")
local all = {}
for _, field in pairs(f) do
    all[#all + 1] = field
end
srd.fields = all

local short = ProtoExpert.new("weft_srd.short", "Shorter than its header", expert.group.MALFORMED, expert.severity.ERROR)
local past = ProtoExpert.new("weft_srd.past", "The piece begins past the end of its message",
    expert.group.PROTOCOL, expert.severity.WARN)
srd.experts = {short, past}

local function dissect(buffer, pinfo, root)
    local type = types[buffer(0, 1):uint()]
    local tree = root:add(srd, buffer())
    local info, values = type[1], {}
    pinfo.cols.protocol = "EFA"
    tree:add(f.type, buffer(0, 1))
    tree:add(f.version, buffer(1, 1))
    tree:add_le(f.flags, buffer(2, 2))
    tree:add(f.length, buffer:len()):set_generated()
    for i = 2, #type do
        local name, offset, bytes = type[i][1], type[i][2], type[i][3]
        if offset + bytes > buffer:len() then
            tree:add_proto_expert_info(short)
            break
        end
        tree:add_le(f[name .. bytes], buffer(offset, bytes))
        values[name] = bytes == 8 and buffer(offset, bytes):le_uint64() or buffer(offset, bytes):le_uint()
        info = info .. " " .. name .. "=" .. tostring(values[name])
    end
    if values.seg_offset and values.msg_length and values.seg_offset > values.msg_length then
        tree:add_proto_expert_info(past)
    end
    pinfo.cols.info = info
end

-- Ahead of what stands at a well-known port: any of those may be the number here.
pcall(set_preference, "udp.try_heuristic_first", true)

-- Version 4, and a type that there is.
srd:register_heuristic("udp", function(buffer, pinfo, root)
    if buffer:len() < 8 or buffer(1, 1):uint() ~= 4 or not types[buffer(0, 1):uint()] then
        return false
    end
    dissect(buffer, pinfo, root)
    return true
end)
