-- The peer of the interoperation test in Lua; interop_test.py says what a peer does.
local atbus = require "atbus"

local role, address, token, last = arg[1], arg[2], arg[3], arg[4]

local function receive()
  local lines = assert(io.open(last, "a"))
  lines:setvbuf("line")
  local node = assert(atbus.node(2, { token = token }))
  node:on("message", function(_, _, data, redelivered)
    if data == "end" then
      node:stop()
    else
      lines:write(data, redelivered and " again" or "", "\n")
    end
  end)
  node:on("request", function(request) assert(request:reply(request:data() .. "!")) end)
  assert(node:listen(address))
  node:run()
  node:shutdown(1)
end

local function send()
  local node = assert(atbus.node(1, { token = token }))
  assert(node:connect(2, address))
  for i = 0, tonumber(last) - 1 do
    while true do
      local sent, text, code = node:send(2, 0, ("%d"):format(i))
      if sent then
        break
      end
      assert(code == "would_block", text)
      node:poll()
      node:wait(0.01)
    end
    if i % 50 == 0 then
      node:poll()
    end
  end
  node:spawn(function()
    local answers = 0
    while answers < 10 do
      local reply, text, code = node:request(2, 7, "ask", 60)
      assert(reply == "ask!" or code == "outcome_unknown", text)
      answers = answers + (reply and 1 or 0)
    end
    node:stop()
  end)
  node:run()
  assert(node:send(2, 0, "end"))
  assert(node:shutdown(30))
end

if role == "receive" then
  receive()
else
  send()
end
