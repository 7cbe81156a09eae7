-- Takes a free lease, or replaces exactly the value that was seen, and draws a fencing number.
--
--   KEYS[1]  the lease                ARGV[1]  our value, the same for all attempts of a claim
--   KEYS[2]  the fence counter        ARGV[2]  ttl in ms
--                                     ARGV[3]  the value to replace; none: there must be none
--
--   {1, fence}               taken
--   {2, value, pttl, fence}  ours already: the reply to an earlier attempt was lost
--   {0, value, pttl}         refused; nothing was written

local seen = ARGV[3] or false -- what GET answers for a missing key
local held = redis.call('GET', KEYS[1])
local ours = held == ARGV[1]
if held ~= seen and not ours then
  return {0, held, redis.call('PTTL', KEYS[1])}
end

-- Nothing rolls a script back. So the number comes first: whatever fails from here on leaves the
-- lease as it was, and costs a number at most.
local counter = redis.call('GET', KEYS[2])
if counter and not string.match(counter, '^%-?%d+$') then
  return redis.error_reply('ERR the fence counter holds no integer')
end
-- Never below the server's clock, so that numbers go on growing even if the counter is lost.
-- Microseconds fit a double exactly until the year 2255.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if counter and tonumber(counter) >= now then
  redis.call('INCR', KEYS[2])
else
  redis.call('SET', KEYS[2], string.format('%.0f', now))
end
-- Read back as text: a number of Lua's would be rounded beyond 2^53.
local fence = redis.call('GET', KEYS[2])

if ours then
  return {2, held, redis.call('PTTL', KEYS[1]), fence}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, fence}
