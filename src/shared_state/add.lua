local count = redis.pcall('HLEN', KEYS[1])
if type(count) ~= 'number' then redis.call('DEL', KEYS[1]) count = 0 end
if count >= tonumber(ARGV[3]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
