local found = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(found) ~= 'string' then return {'', -2} end
return {found, redis.call('PTTL', KEYS[1])}
