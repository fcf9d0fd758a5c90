local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local emission_interval, burst_tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = redis.pcall('GET', KEYS[1])
local point = type(found) == 'string' and tonumber(found) or 0
local ahead = point - now
if not (ahead > 0 and ahead <= burst_tolerance + emission_interval) then ahead = 0 end
if ahead > burst_tolerance then return ahead - burst_tolerance end
ahead = ahead + emission_interval
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000) + 1)
return 0
