-- Messages per second between two processes, 64 bytes, sent one by one and received by a handler, beside those of
-- LuaSocket over TCP, in turns.
--
-- usage: lua bench/speed.lua [MESSAGES [ROUNDS [FILE]]]   FILE: the values as JSON, for tools/compare/languages.py
-- It needs LuaSocket, whose clock it reads too.
local atbus = require "atbus"
local socket = require "socket"

local data = ("x"):rep(64)
local name = "atbus-lua-speed-" .. tostring({}):gsub("%W", "")
local interpreter = jit and "LuaJIT" or _VERSION

local function wait_until(node, holds)
  while not holds() do
    if node:poll() == 0 then
      node:wait(0.01)
    end
  end
end

-- `receive` prints how many it takes a second, `send` returns that of its own.
local systems = {
  {
    name = "atbus, shm://",
    address = function(round) return ("shm://%s-%d"):format(name, round) end,
    receive = function(address, count)
      local node = assert(atbus.node(2))
      local got, start = 0, nil
      node:on("message", function()
        got = got + 1
        start = start or socket.gettime()
      end)
      assert(node:listen(address))
      wait_until(node, function() return got == count end)
      print(count / (socket.gettime() - start))
      assert(node:send(1, 0, "done"))
      node:shutdown(1)
    end,
    send = function(address, count)
      local node = assert(atbus.node(1))
      local is_done, is_connected = false, false
      node:on("message", function() is_done = true end)
      node:on("endpoint", function() is_connected = true end)
      assert(node:connect(2, address))
      wait_until(node, function() return is_connected end)
      local start = socket.gettime()
      for _ = 1, count do
        while not node:send(2, 0, data) do
          node:poll()
        end
      end
      local rate = count / (socket.gettime() - start)
      wait_until(node, function() return is_done end)
      return rate
    end,
    clean = function(round)
      for _, kind in ipairs({ "segment", "bell" }) do
        os.remove(("/dev/shm/atbus-%s.%s-%d"):format(kind, name, round))
      end
    end,
  },
  {
    name = "LuaSocket, TCP",
    address = function()
      local free = assert(socket.bind("127.0.0.1", 0))
      local _, port = free:getsockname()
      free:close()
      return tostring(port)
    end,
    receive = function(port, count)
      local listener = assert(socket.bind("127.0.0.1", tonumber(port)))
      local from = assert(listener:accept())
      local start
      for _ = 1, count do
        assert(from:receive(#data))
        start = start or socket.gettime()
      end
      print(count / (socket.gettime() - start))
      from:send("done")
    end,
    send = function(port, count)
      local to
      repeat
        to = socket.connect("127.0.0.1", tonumber(port))
      until to
      to:setoption("tcp-nodelay", true)
      local start = socket.gettime()
      for _ = 1, count do
        assert(to:send(data))
      end
      local rate = count / (socket.gettime() - start)
      to:receive(4)
      return rate
    end,
    clean = function() end,
  },
}

if arg[1] == "receive" then
  return systems[tonumber(arg[2])].receive(arg[3], tonumber(arg[4]))
end
local count, rounds = tonumber(arg[1] or 1000000), tonumber(arg[2] or 5)
local rows = {}
for what = 1, 2 do
  for i, system in ipairs(systems) do
    rows[(what - 1) * #systems + i] = { system = system.name, what = what == 1 and "sent" or "received", values = {} }
  end
end
for round = 1, rounds do
  for i, system in ipairs(systems) do
    local address = system.address(round)
    local receiver = assert(io.popen(("%s %s receive %d %s %d"):format(arg[-1], arg[0], i, address, count)))
    table.insert(rows[i].values, system.send(address, count) / 1e6)
    table.insert(rows[#systems + i].values, receiver:read("*n") / 1e6)
    receiver:close()
    system.clean(round)
  end
end
local lines = {}
for i, row in ipairs(rows) do
  table.sort(row.values)
  local values = row.values
  print(("%-16s %-8s %6.2f M/s (%.2f to %.2f)"):format(row.system, row.what, values[math.ceil(#values / 2)], values[1],
    values[#values]))
  lines[i] = ('{"language": "%s", "system": "%s", "what": "%s", "unit": "M/s", "values": [%s]}'):format(interpreter,
    row.system, row.what, table.concat(values, ", "))
end
if arg[3] then
  local file = assert(io.open(arg[3], "w"))
  file:write("[", table.concat(lines, ",\n"), "]\n")
  file:close()
end
