-- What a poll does when there is no memory for Lua. Runs in memory_test.
local atbus = require "atbus"

local failed = 0

-- A handler raises, and the memory ends after `count` allocations of the poll: the next poll is as any other.
local function poll_without_memory(count)
  local node = assert(atbus.node(1))
  local text = "raised"
  node:on("message", function() error(text, 0) end)
  assert(node:send(1, 0, "data"))
  local poll = node.poll
  collectgarbage()
  collectgarbage "stop"
  take_references()
  end_memory_after(count)
  local went, problem = pcall(poll, node)
  end_memory_after(nil)
  collectgarbage "restart"
  if not went and problem ~= text then
    assert(problem:find "memory", problem)
    failed = failed + 1
  end
  local got
  node:on("message", function(_, _, data) got = data end)
  assert(node:send(1, 0, "again"))
  for _ = 1, 10 do
    assert(node:poll())
  end
  assert(got == "again", "the node delivers nothing any more")
  assert(node:close())
end

for count = 0, 20 do
  poll_without_memory(count)
end
assert(failed > 0, "the memory has never ended")
print(("a poll goes on after %d ends of memory"):format(failed))
