-- Messages per second between two processes over shared memory, 64 bytes, sent one by one and received by a handler.
--
-- usage: lua bench/speed.lua [MESSAGES [ROUNDS]]
local atbus = require "atbus"

local data = ("x"):rep(64)
local name = "atbus-lua-speed-" .. tostring({}):gsub("%W", "")

local function receive(address, count)
  local node = assert(atbus.node(2))
  local got, start = 0, nil
  node:on("message", function()
    got = got + 1
    start = start or os.clock()
  end)
  assert(node:listen(address))
  while got < count do
    if node:poll() == 0 then
      node:wait(1)
    end
  end
  print(count / (os.clock() - start))
  assert(node:send(1, 0, "done"))
  node:shutdown(1)
end

local function send(address, count)
  local node = assert(atbus.node(1))
  local is_done = false
  node:on("message", function() is_done = true end)
  assert(node:connect(2, address))
  local connected
  node:on("endpoint", function() connected = true end)
  while not connected do
    node:poll()
    node:wait(0.01)
  end
  local start = os.clock()
  for _ = 1, count do
    while not node:send(2, 0, data) do
      node:poll()
    end
  end
  local rate = count / (os.clock() - start)
  while not is_done do
    node:poll()
    node:wait(0.01)
  end
  return rate
end

if arg[1] == "receive" then
  return receive(arg[2], tonumber(arg[3]))
end
local count, rounds = tonumber(arg[1] or 1000000), tonumber(arg[2] or 5)
local sent, received = {}, {}
for round = 1, rounds do
  local address = ("shm://%s-%d"):format(name, round)
  local command = ("%s %s receive %s %d"):format(arg[-1], arg[0], address, count)
  local receiver = assert(io.popen(command))
  sent[round] = send(address, count) / 1e6
  received[round] = receiver:read("*n") / 1e6
  receiver:close()
  for _, kind in ipairs({ "segment", "bell" }) do
    os.remove(("/dev/shm/atbus-%s.%s-%d"):format(kind, name, round))
  end
end
for what, rates in pairs({ sent = sent, received = received }) do
  table.sort(rates)
  print(("%-8s %5.2f M/s of CPU time (%.2f to %.2f)"):format(what, rates[math.ceil(#rates / 2)], rates[1], rates[#rates]))
end
