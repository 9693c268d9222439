-- The bus for Lua 5.4 and LuaJIT.
--
--   local atbus = require "atbus"
--   local node = assert(atbus.node(1))
--   assert(node:connect(2, "shm://echo"))
--   node:on("message", function(source, type, data) print(data) node:stop() end)
--   assert(node:send(2, 0, "hello"))
--   node:run()
--
-- What fails returns nil, a text and the name of its code, such as "would_block".
local core = require "atbus.core"

local methods = core.methods
local stopped = setmetatable({}, { __mode = "k" })

local function resume(thread, ...)
  local went, problem = coroutine.resume(thread, ...)
  if not went then
    error(problem, 0)
  end
end

-- The outcome goes to `call`, or to the coroutine that waits for it.
local function start(begin, call)
  if call then
    return begin(call)
  end
  local thread, is_main = coroutine.running()
  if not thread or is_main then
    error("without a function a request has to be made in a coroutine: see node:spawn", 3)
  end
  local began, text, code = begin(function(...)
    resume(thread, ...)
  end)
  if not began then
    return began, text, code
  end
  return coroutine.yield()
end

-- Asks that node something: call(reply), or call(nil, text, code). Without `call`, in a coroutine, it returns that.
function methods:request(to, type, data, timeout, call)
  return start(function(done)
    return self:start_request(to, type, data or "", timeout or 5, done)
  end, call)
end

-- Sends that node a command, a table of words: call(values), or call(nil, text, code). Without `call` as request.
function methods:command(to, words, timeout, call)
  return start(function(done)
    return self:start_command(to, words, timeout or 5, done)
  end, call)
end

-- Runs a function as a coroutine, which may wait for requests. What it raises is raised here, or by the poll that
-- resumed it.
function methods:spawn(run, ...)
  resume(coroutine.create(run), ...)
end

-- Polls and waits until stop is called, and then until all messages have an outcome, for at most the option `drain`: true,
-- also once the node is closed. Where some have none, or it can't run, such as in a handler: nil, a text and the name of
-- the code.
function methods:run()
  while not stopped[self] and self:is_open() do
    self:poll()
    if self:is_open() and not stopped[self] then
      local ready, text, code = self:wait(0.1)
      if ready == nil then
        return nil, text, code
      end
    end
  end
  local settled, text, code = self:settle()
  if code == "invalid_argument" then
    return nil, text, code
  end
  stopped[self] = nil
  if code == "closed" then
    return true
  end
  return settled, text, code
end

-- Makes run return, also one that has not begun.
function methods:stop()
  stopped[self] = true
end

return { node = core.node, version = core.version }
