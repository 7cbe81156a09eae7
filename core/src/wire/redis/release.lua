-- Deletes the lease if exactly the expected value stands there.
--
--   KEYS[1]  the lease                ARGV[1]  the value that must stand there
--
--   {1}               deleted
--   {0, value, pttl}  refused; nothing was written

local held = redis.call('GET', KEYS[1])
if held ~= ARGV[1] then
  return {0, held, redis.call('PTTL', KEYS[1])}
end
redis.call('DEL', KEYS[1])
return {1}
