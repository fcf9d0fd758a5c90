local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local gap, slack = tonumber(ARGV[1]), tonumber(ARGV[2])
local found = redis.pcall('GET', KEYS[1])
local point = type(found) == 'string' and tonumber(found) or 0
local ahead = point - now
if not (ahead > 0 and ahead <= slack + gap) then ahead = 0 end
if ahead > slack then return ahead - slack end
redis.call('SET', KEYS[1], string.format('%.0f', now + ahead + gap), 'PX', math.ceil((ahead + gap) / 1000) + 1)
return 0
