-- Nodes in Lua, over real sockets and shared memory. Runs in Lua 5.4 and in LuaJIT: lua test/node_test.lua
local atbus = require "atbus"

local count = 0
local function new_address()
  count = count + 1
  return ("unix://@atbus-lua-%s-%d"):format(tostring({}):gsub("%W", ""), count)
end

local function until_true(nodes, holds)
  for _ = 1, 200000 do
    if holds() then
      return
    end
    for _, node in ipairs(nodes) do
      node:poll()
    end
    nodes[1]:wait(0.0001)
  end
  error("it has not happened", 2)
end

local function equal(a, b)
  if a ~= b then
    error(("%s is not %s"):format(tostring(a), tostring(b)), 2)
  end
end

local function pair(options)
  local one, two = assert(atbus.node(1, options)), assert(atbus.node(2, options))
  assert(two:listen(new_address()))
  assert(one:connect(2, two:addresses()[1]))
  local connected
  one:on("endpoint", function(id, event)
    equal(id, 2)
    connected = event == "connected"
  end)
  until_true({ one, two }, function() return connected end)
  return one, two
end

local tests = {}

function tests.messages_have_their_bytes_and_types()
  local one, two = pair()
  local got = {}
  two:on("message", function(source, type, data, redelivered)
    equal(source, 1)
    equal(redelivered, false)
    got[#got + 1] = type .. ":" .. data
  end)
  assert(one:send(2, 7, "text"))
  assert(one:send("2", 8, "a\0b"))
  assert(one:send_required(2, 4294967295, ""))
  assert(one:broadcast(9, "all"))
  until_true({ one, two }, function() return #got == 4 end)
  equal(got[1], "7:text")
  equal(got[2], "8:a\0b")
  equal(got[3], "4294967295:")
  equal(got[4], "9:all")
  equal(two:stats().delivered, 4)
end

function tests.requests_are_answered_to_functions_and_coroutines()
  local one, two = pair()
  local kept
  two:on("request", function(request)
    equal(request:source(), 1)
    if request:type() == 1 then
      request:reply(request:data():upper())
    elseif request:type() == 2 then
      kept = request
    else
      request:fail("why not")
    end
  end)
  local outcomes = {}
  one:spawn(function()
    outcomes[1] = one:request(2, 1, "shout", 5)
    outcomes[2] = one:request(2, 2, "later", 5)
    local reply, text, code = one:request(2, 3, "")
    outcomes[3] = tostring(reply) .. text .. code
  end)
  assert(one:request(2, 1, "call", 5, function(reply) outcomes[4] = reply end))
  until_true({ one, two }, function() return kept and outcomes[4] end)
  equal(outcomes[1], "SHOUT")
  equal(outcomes[4], "CALL")
  assert(kept:is_wanted())
  assert(kept:reply("now"))
  assert(not pcall(kept.reply, kept, "again"))
  until_true({ one, two }, function() return outcomes[3] end)
  equal(outcomes[2], "now")
  equal(outcomes[3], "nilwhy notrequest_failed")
  local late
  one:request(2, 2, "", 0.01, function(_, _, code) late = code end)
  until_true({ one, two }, function() return late end)
  equal(late, "timed_out")
  -- One that nobody answers fails when it is collected.
  local lost
  one:request(2, 2, "", 60, function(_, _, code) lost = code end)
  kept = nil
  until_true({ one, two }, function() return kept end)
  kept = nil
  collectgarbage()
  until_true({ one, two }, function() return lost end)
  equal(lost, "request_failed")
end

function tests.commands_are_answered()
  local one, two = pair()
  two:on("command", function(command)
    local words = command:words()
    if words[1] == "add" then
      command:reply(tostring(words[2] + words[3]), "sum")
    else
      command:fail("no such command")
    end
  end)
  local sum, why
  one:spawn(function()
    sum = assert(one:command(2, { "add", "2", "3" }, 5))
    local _, text = one:command(2, { "stop" }, 5)
    why = text
  end)
  until_true({ one, two }, function() return why end)
  equal(tonumber(sum[1]), 5)
  equal(sum[2], "sum")
  equal(why, "no such command")
end

function tests.what_fails_says_why()
  local node = assert(atbus.node(1))
  local sent, text, code = node:send(3, 0, "no")
  equal(sent, nil)
  equal(code, "no_route")
  assert(text:find("path"))
  assert(not pcall(node.send, node, 3, -1, "no"))
  assert(not pcall(node.send, node, "three", 0, "no"))
  assert(not pcall(node.send, node, 3, 0))
  assert(not pcall(node.send, {}, 3, 0, "no"))
  for options, part in pairs({
    [{ tokens = "x" }] = "no option tokens",
    [{ token = 7 }] = "token",
    [{ message_limit = -1 }] = "message_limit",
    [{ ping_interval = "x" }] = "ping_interval",
    [{ children = {} }] = "children",
  }) do
    local went, problem = pcall(atbus.node, 1, options)
    assert(not went and problem:find(part), problem)
  end
  local made, why, name = atbus.node(1, { token = "short" })
  equal(made, nil)
  equal(name, "invalid_argument")
  assert(why:find("16"))
  assert(atbus.node(1, { token = { "the first token of this test", "the second of this test" } }))
  equal(select(3, atbus.node(1, { overflow = "never" })), "invalid_argument")
end

function tests.zero_is_none_and_not_the_default()
  local one, two = assert(atbus.node(1, { clients = 0, drain = 0 })), assert(atbus.node(0))
  assert(one:listen(new_address()))
  assert(two:connect(0, one:addresses()[1]))
  local refused
  two:on("endpoint", function(_, event) refused = refused or event == "refused" end)
  until_true({ one, two }, function() return refused end)
end

function tests.the_largest_number_of_32_bits_is_a_number()
  local one, two = assert(atbus.node(1, { clients = 4294967295 })), assert(atbus.node(0))
  assert(one:listen(new_address()))
  assert(two:connect(0, one:addresses()[1]))
  local first
  two:on("endpoint", function(_, event) first = first or event end)
  until_true({ one, two }, function() return first end)
  equal(first, "connected")
end

function tests.strangers_are_limited()
  local one = assert(atbus.node(1, {
    allow_unauthenticated = true,
    send_buffer_number = 100,
    strangers_per_address = 0,
    strangers_first_byte_timeout = 0.05,
    strangers_bytes = 0,
    strangers_handshakes_per_second = 0,
  }))
  assert(one:close())
  local went, problem = pcall(atbus.node, 1, { strangers_bytes = -1 })
  equal(went, false)
  assert(problem:find "strangers_bytes", problem)
end

function tests.a_node_that_is_closed_keeps_no_handler()
  local node = assert(atbus.node(1))
  assert(node:close())
  local held = setmetatable({}, { __mode = "k" })
  for _, what in ipairs { "message", "request", "command", "undelivered", "endpoint", "writable", "log" } do
    local big = {}
    local function handler() return big end
    held[handler] = true
    equal(select(3, node:on(what, handler)), "closed")
  end
  collectgarbage()
  collectgarbage()
  equal(next(held), nil)
end

function tests.errors_of_handlers_are_raised_by_poll()
  local node = assert(atbus.node(1))
  local seen = 0
  node:on("message", function()
    seen = seen + 1
    error({ "of the handler" })
  end)
  assert(node:send(1, 0, ""))
  assert(node:send(1, 0, ""))
  local went, raised = pcall(node.poll, node)
  assert(not went)
  equal(raised[1], "of the handler")
  while seen < 2 do
    pcall(node.poll, node)
  end
  equal(node:poll(), 0)
end

function tests.a_handler_may_raise_nil()
  -- They take the places of the registry that are free: those of the next node are the last ones.
  local holder = assert(atbus.node(2))
  for _ = 1, 1000 do
    assert(holder:request(2, 0, "", 60, function() end))
  end
  local node = assert(atbus.node(1))
  local reply
  node:on("request", function(request) request:reply("text") end)
  node:on("message", function(_, _, data)
    if data == "ask" then
      assert(node:request(1, 0, "", 60, function(got) reply = got end))
    else
      error()
    end
  end)
  assert(node:send(1, 0, ""))
  assert(node:send(1, 0, "ask"))
  local went, raised = pcall(node.poll, node)
  equal(went, false)
  equal(raised, nil)
  until_true({ node }, function() return reply end)
  equal(reply, "text")
  assert(holder:close())
end

function tests.nothing_works_once_it_is_closed()
  local node = assert(atbus.node(1))
  local ended
  node:on("request", function() end)
  assert(node:request(1, 0, "", 60, function(_, _, code) ended = code end))
  assert(node:close())
  assert(node:close())
  equal(ended, "closed")
  equal(node:is_open(), false)
  equal(select(3, node:send(1, 0, "")), "closed")
  equal(select(3, node:poll()), "closed")
  equal(select(3, node:wait(0)), "closed")
  equal(select(3, node:on("message", print)), "closed")
end

function tests.a_handler_may_close_its_node()
  local node = assert(atbus.node(1))
  node:on("message", function() node:close() end)
  assert(node:send(1, 0, ""))
  node:run()
  equal(node:is_open(), false)
end

function tests.run_waits_for_outcomes_after_stop()
  local one, two = pair({ drain = 60 })
  local got
  two:on("message", function(_, _, data) got = data end)
  one:on("message", function()
    assert(one:send_required(2, 0, "bye"))
    one:stop()
  end)
  assert(one:send(1, 0, ""))
  local polls = 0
  local function poll_two()
    polls = polls + 1
    two:poll()
    if polls < 1000 then
      assert(one:request(1, 0, "", 60, poll_two))
    end
  end
  one:on("endpoint", nil)
  poll_two()
  equal(one:run(), true)
  equal(got, "bye")
end

function tests.run_waits_no_longer_than_drain()
  local node = assert(atbus.node(1, { drain = 0.02 }))
  assert(node:connect(2, new_address()))
  node:on("message", function()
    assert(node:send_required(2, 0, "no node 2 is there"))
    node:stop()
  end)
  assert(node:send(1, 0, ""))
  local settled, text, code = node:run()
  equal(settled, nil)
  assert(text)
  equal(code, "timed_out")
  equal(node:is_open(), true)
  assert(node:close())
end

function tests.a_stop_before_run_is_not_forgotten()
  local node = assert(atbus.node(1))
  node:on("message", function() node:stop() end)
  assert(node:send(1, 0, ""))
  node:poll()
  equal(node:run(), true)
  assert(node:send(1, 0, ""))  -- it has ended that one alone
  equal(node:run(), true)
  equal(node:stats().delivered, 2)
end

function tests.nodes_are_collected()
  local alive = setmetatable({}, { __mode = "v" })
  for i = 1, 10 do
    local node = assert(atbus.node(i))
    node:on("message", function() return node end)
    node:close()
    alive[i] = node
  end
  collectgarbage()
  collectgarbage()
  equal(next(alive), nil)
  -- Without close, where no handler refers to it.
  do
    local node = assert(atbus.node(1))
    node:request(1, 0, "", 60, function() end)
  end
  collectgarbage()
  collectgarbage()
end

function tests.what_is_not_delivered_is_told()
  local node = assert(atbus.node(1, { message_deadline = 0.001 }))
  local told
  node:on("undelivered", function(to, type, data, outcome, reason, many)
    told = table.concat({ to, type, data, outcome, reason, many }, " ")
  end)
  assert(node:connect(3, new_address()))
  assert(node:send(3, 5, "late"))
  until_true({ node }, function() return told end)
  assert(told:find("^3 5 late not_delivered timed_out 1"), told)
end

function tests.a_full_queue_tells_when_there_is_room()
  local address = new_address()
  local one, two = assert(atbus.node(1, { send_buffer_size = 1 })), assert(atbus.node(2))
  local writable
  one:on("writable", function(id) writable = id end)
  assert(one:connect(2, address))
  local code
  repeat
    code = select(3, one:send(2, 0, ("x"):rep(1000)))
  until code
  equal(code, "would_block")
  assert(two:listen(address))
  until_true({ one, two }, function() return writable end)
  equal(writable, 2)
end

function tests.a_million_messages_leave_nothing_behind()
  local node = assert(atbus.node(1))
  local got = 0
  node:on("message", function() got = got + 1 end)
  local function send(many)
    for i = 1, many do
      assert(node:send(1, i % 7, "some text"))
      if i % 100 == 0 then
        node:poll()
      end
    end
    until_true({ node }, function() return node:poll() == 0 end)
    collectgarbage()
    collectgarbage()
    return collectgarbage("count")
  end
  local before = send(10000)
  local after = send(1000000)
  equal(got, 1010000)
  assert(after < before + 64, "more KiB than before: " .. after - before)
end

function tests.texts_with_a_zero_byte_are_refused_and_not_cut()
  local cut = "sixteen bytes...\0and more"
  local node = assert(atbus.node(1))
  for _, call in ipairs {
    function() return atbus.node(1, { token = cut }) end,
    function() return atbus.node(1, { token = { "sixteen bytes...", cut } }) end,
    function() return atbus.node(1, { access = cut }) end,
    function() return node:listen(new_address() .. "\0more") end,
    function() return node:connect(2, new_address() .. "\0more") end,
    function() return node:command(1, { "order", "one\0two" }, 1, print) end,
  } do
    local went, problem = pcall(call)
    equal(went, false)
    assert(problem:find "zero byte", problem)
  end
  assert(node:close())
end

-- Nothing but the call has references to what __index makes.
function tests.options_may_come_from_a_function()
  local kept = {}
  local function text(of)
    return of:rep(30) .. "!"
  end
  local options = setmetatable({}, {
    __index = function(_, name)
      collectgarbage()
      for _ = 1, 10 do
        kept[#kept + 1] = text("other--" .. #kept % 10)
      end
      if name == "access" then
        return text "/nowhere"
      elseif name == "token" then
        return { text "secret-a", text "secret-b" }
      end
    end,
  })
  local node, problem = atbus.node(1, options)
  equal(node, nil)
  assert(problem:find(text "/nowhere", 1, true), problem)
end

local names = {}
for name in pairs(tests) do
  names[#names + 1] = name
end
table.sort(names)
local failed = 0
for _, name in ipairs(names) do
  local went, problem = xpcall(tests[name], debug.traceback)
  collectgarbage()
  if not went then
    failed = failed + 1
    print("failed: " .. name .. "\n" .. tostring(problem))
  end
end
print(("%s: %d tests, %d failed"):format(_VERSION .. (jit and ", " .. jit.version or ""), #names, failed))
os.exit(failed == 0)
