-- Writes a value, or its time anew, if exactly the expected value stands there.
--
--   KEYS[1]  the lease                ARGV[1]  the value that must stand there
--                                     ARGV[2]  the value to write
--                                     ARGV[3]  ttl in ms; none: for ever
--
--   {1}               written
--   {0, value, pttl}  refused; nothing was written

local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then
  return {0, held, redis.call('PTTL', KEYS[1])}
end
local ttl = ARGV[3]
if ARGV[2] == held then
  -- Not SET: a server that is out of memory refuses that, and would lose us the lease.
  if ttl then
    redis.call('PEXPIRE', KEYS[1], ttl)
  else
    redis.call('PERSIST', KEYS[1])
  end
elseif ttl then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ttl)
else
  redis.call('SET', KEYS[1], ARGV[2])
end
return {1}
