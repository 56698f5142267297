-- SPDX-License-Identifier: BSD-2-Clause
-- Wireshark and tshark: the packets of arq over UDP, and of rxd in them, at any port.
--   tshark -X lua_script:weft_arq.lua -r FILE
-- The figures are in core/arq/packet.h and docs/design/rxd.md.

local arq = Proto("arq", "Weft reliable packets (arq)")
local rxd = Proto("weft_rxd", "Weft messages (rxd)")

local VERSION, HEADER, BRIEF, TOKEN = 2, 56, 24, 24
local DATA, ACK, PIECE = 3, 4, 8
local types = {[0] = "OPEN", "TOKEN", "ACCEPT", "DATA", "ACK", "PROBE", "RESET", "CLOSE", "PIECE"}
local kinds = {"MSG", "WRITE", "READ", "ATOMIC", "BYE", "PULL", "DATA", "DONE", "GONE", "FOLLOW", "LENT", "ASK",
    "HERE"}

local a = {
    version = ProtoField.uint8("arq.version", "Version", base.DEC, nil, 0xf0),
    type = ProtoField.uint8("arq.type", "Type", base.DEC, types, 0x0f),
    now = ProtoField.bool("arq.now", "Acknowledge at once", 16, nil, 1),
    asks = ProtoField.bool("arq.asks", "Asks for the limit, or for an acknowledgement soon", 16, nil, 2),
    marks = ProtoField.bool("arq.marks", "Its packets may be marked", 16, nil, 4),
    all = ProtoField.bool("arq.all", "Lower numbers have come, too", 16, nil, 8),
    number = ProtoField.uint32("arq.number", "Number"),
    to = ProtoField.uint64("arq.to", "To", base.HEX),
    from = ProtoField.uint64("arq.from", "From", base.HEX),
    serial = ProtoField.uint32("arq.serial", "Serial"),
    limit = ProtoField.uint32("arq.limit", "Limit"),
    finish = ProtoField.uint32("arq.end", "Numbers have come below"),
    marked = ProtoField.uint32("arq.marked", "Marked packets"),
    below = ProtoField.uint64("arq.below", "Numbers that have come", base.HEX),
    kept = ProtoField.uint16("arq.kept", "Acknowledgement kept, in 4 us"),
    piece = ProtoField.uint16("arq.piece", "Piece"),
    pieces = ProtoField.uint16("arq.pieces", "Pieces"),
    size = ProtoField.uint16("arq.size", "Size"),
    token = ProtoField.bytes("arq.token", "Token"),
    words = ProtoField.bytes("arq.words", "Further numbers that have come"),
    payload = ProtoField.bytes("arq.payload", "Payload"),
}
arq.fields = a

local r = {
    version = ProtoField.uint8("weft_rxd.version", "Version"),
    intro = ProtoField.bool("weft_rxd.intro", "Introduction", 8, nil, 1),
    ordered = ProtoField.bool("weft_rxd.ordered", "Ordered", 8, nil, 2),
    proposes = ProtoField.bool("weft_rxd.proposes", "Proposes its life", 8, nil, 4),
    renews = ProtoField.bool("weft_rxd.renews", "Has left its former life", 8, nil, 8),
    number = ProtoField.uint32("weft_rxd.number", "Number of the sender"),
    sequence = ProtoField.uint32("weft_rxd.sequence", "Sequence"),
    ack = ProtoField.uint32("weft_rxd.ack", "Carried out below"),
    life = ProtoField.uint32("weft_rxd.life", "Life", base.HEX),
    view = ProtoField.uint32("weft_rxd.view", "Life of the receiver that it knows", base.HEX),
    giving = ProtoField.uint32("weft_rxd.giving", "Number given"),
    unasked = ProtoField.uint8("weft_rxd.unasked", "Takes unasked, in KiB"),
    addr = ProtoField.bytes("weft_rxd.addr", "Address"),
    kind = ProtoField.uint8("weft_rxd.kind", "Kind", base.DEC, kinds),
    tagged = ProtoField.bool("weft_rxd.tagged", "Tagged", 8, nil, 1),
    has_data = ProtoField.bool("weft_rxd.has_data", "With data", 8, nil, 2),
    wants_done = ProtoField.bool("weft_rxd.wants_done", "Wants DONE", 8, nil, 4),
    readable = ProtoField.bool("weft_rxd.readable", "Memory may be read", 8, nil, 8),
    to_context = ProtoField.bool("weft_rxd.to_context", "To a receive context", 8, nil, 16),
    followed = ProtoField.bool("weft_rxd.followed", "Bytes follow", 8, nil, 32),
    again = ProtoField.bool("weft_rxd.again", "Bytes that followed are asked for", 8, nil, 64),
    length = ProtoField.uint16("weft_rxd.length", "Payload length"),
    id = ProtoField.uint32("weft_rxd.id", "Id"),
    size = ProtoField.uint64("weft_rxd.size", "Size"),
    tag = ProtoField.uint64("weft_rxd.tag", "Tag", base.HEX),
    data = ProtoField.uint64("weft_rxd.data", "Data", base.HEX),
    taker = ProtoField.uint32("weft_rxd.taker", "Taker"),
    memory = ProtoField.uint64("weft_rxd.memory", "Memory", base.HEX),
    key = ProtoField.uint64("weft_rxd.key", "Key", base.HEX),
    context = ProtoField.uint32("weft_rxd.context", "Receive context"),
    follows = ProtoField.uint32("weft_rxd.follows", "Bytes that follow"),
    places = ProtoField.bytes("weft_rxd.places", "Remote memory"),
    payload = ProtoField.bytes("weft_rxd.payload", "Payload"),
}
rxd.fields = r
local bad = ProtoExpert.new("weft_rxd.bad", "Cut short, or no record", expert.group.MALFORMED,
    expert.severity.ERROR)
rxd.experts = {bad}

local function is_rxd(range)
    return range:len() >= 16 and range(0, 2):string() == "Wx"
end

-- A record at `at`: where the next one is; nil: it is none. first: of a message in several packets, of which this is the
-- first, so the last record's payload goes on in the others.
local function record(range, at, tree, first)
    local left = range:len() - at
    if left < 16 then return nil end
    local kind, flags, len = range(at, 1):uint(), range(at + 1, 1):uint(), range(at + 2, 2):le_uint()
    if not kinds[kind] then return nil end
    local sub = tree:add(rxd, range(at), "Record: " .. kinds[kind])
    sub:add(r.kind, range(at, 1))
    sub:add(r.tagged, range(at + 1, 1))
    sub:add(r.has_data, range(at + 1, 1))
    sub:add(r.wants_done, range(at + 1, 1))
    sub:add(r.readable, range(at + 1, 1))
    sub:add(r.to_context, range(at + 1, 1))
    sub:add(r.followed, range(at + 1, 1))
    sub:add(r.again, range(at + 1, 1))
    sub:add_le(r.length, range(at + 2, 2))
    sub:add_le(r.id, range(at + 4, 4))
    sub:add_le(r.size, range(at + 8, 8))
    local pos = at + 16
    local function take(field, count)
        if pos + count > range:len() then return false end
        sub:add_le(field, range(pos, count))
        pos = pos + count
        return true
    end
    if flags % 2 == 1 and not take(r.tag, 8) then return nil end
    if math.floor(flags / 2) % 2 == 1 and not take(r.data, 8) then return nil end
    if math.floor(flags / 8) % 2 == 1 and not (take(r.memory, 8) and take(r.key, 8)) then return nil end
    if math.floor(flags / 16) % 2 == 1 and not take(r.context, 4) then return nil end
    if math.floor(flags / 32) % 2 == 1 and not take(r.follows, 4) then return nil end
    if (kind == 3 or kind == 4 or kind == 6 or kind == 11) and not take(r.taker, 4) then return nil end
    if kind >= 2 and kind <= 4 or kind == 11 then
        if pos + 4 > range:len() then return nil end
        if not take(r.places, 4 + 24 * range(pos, 1):uint()) then return nil end
    end
    if first and pos + len > range:len() then len = range:len() - pos end
    if len > 0 and not take(r.payload, len) then return nil end
    sub:set_len(pos - at)
    return pos, kinds[kind]
end

local function show_rxd(buffer, pinfo, tree, first)
    local range, at = buffer:range(), 16
    local sub = tree:add(rxd, range)
    sub:add(r.version, range(2, 1))
    sub:add(r.intro, range(3, 1))
    sub:add(r.ordered, range(3, 1))
    sub:add(r.proposes, range(3, 1))
    sub:add(r.renews, range(3, 1))
    sub:add_le(r.number, range(4, 4))
    sub:add_le(r.sequence, range(8, 4))
    sub:add_le(r.ack, range(12, 4))
    if range(3, 1):uint() % 2 == 1 then
        if range:len() < 56 then sub:add_proto_expert_info(bad) return end
        sub:add_le(r.life, range(16, 4))
        sub:add_le(r.view, range(20, 4))
        sub:add_le(r.giving, range(24, 4))
        sub:add(r.unasked, range(range(28, 1):uint() == 1 and 30 or 29, 1))
        sub:add(r.addr, range(28, 28))
        at = 56
    end
    local names = {}
    while at < range:len() do
        local after, name = record(range, at, sub, first)
        if not after then sub:add_proto_expert_info(bad) break end
        names[#names + 1] = name
        at = after
    end
    pinfo.cols.info:append(" rxd " .. table.concat(names, ", "))
end

local full = {{a.number, 4}, {a.to, 8}, {a.from, 8}, {a.serial, 4}, {a.limit, 4}, {a.finish, 4}, {a.marked, 4},
    {a.below, 8}, {a.kept, 2}, {a.piece, 2}, {a.pieces, 2}, {a.size, 2}}
local brief = {{a.number, 4}, {a.to, 8}, {a.serial, 4}, {a.piece, 1}, {a.pieces, 1}, {a.size, 2}}

local function header_of(type)
    return type == PIECE and BRIEF or HEADER
end

function arq.dissector(buffer, pinfo, tree)
    local range = buffer:range()
    local type = range(1, 1):uint() % 16
    local header = header_of(type)
    local sub = tree:add(arq, range(0, header))
    pinfo.cols.protocol = "arq"
    pinfo.cols.info = types[type] .. " number " .. range(4, 4):uint()
    sub:add(a.version, range(1, 1))
    sub:add(a.type, range(1, 1))
    sub:add(a.now, range(2, 2))
    sub:add(a.asks, range(2, 2))
    sub:add(a.marks, range(2, 2))
    sub:add(a.all, range(2, 2))
    local at, value = 4, {}
    for _, field in ipairs(type == PIECE and brief or full) do
        sub:add(field[1], range(at, field[2]))
        value[field[1]] = field[2] < 8 and range(at, field[2]):uint()
        at = at + field[2]
    end
    local pieces = (type == DATA or type == PIECE) and value[a.pieces] or 1
    if pieces > 1 then
        pinfo.cols.info:append(", piece " .. value[a.piece] + 1 .. " of " .. pieces)
    end
    if range:len() == header then return range:len() end
    local rest = range(header)
    if type <= 1 and rest:len() >= TOKEN then
        sub:add(a.token, rest(0, TOKEN))
    elseif type == ACK then
        sub:add(a.words, rest)
    elseif type == DATA and is_rxd(rest) then
        show_rxd(rest:tvb(), pinfo, tree, pieces > 1)
    elseif type == DATA or type == PIECE then
        sub:add(a.payload, rest)
    end
    return range:len()
end

-- Ahead of what stands at a well-known port: any of those may be the number here.
pcall(set_preference, "udp.try_heuristic_first", true)

arq:register_heuristic("udp", function(buffer, pinfo, tree)
    if buffer:len() < BRIEF or buffer(0, 1):uint() ~= 0xa7 then return false end
    local type = buffer(1, 1):uint() - VERSION * 16
    if not types[type] or buffer:len() < header_of(type) or buffer(2, 2):uint() > 15 then return false end
    arq.dissector(buffer, pinfo, tree)
    return true
end)
