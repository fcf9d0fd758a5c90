//! What the store does in one step. A script is loaded when a connection begins, and called by its hash.
//!
//! What stands under a name may have been written by somebody else: a value of another type, or one that can't be, is
//! taken for none.

/// Everything that is loaded; [`Script`] is a place in it.
pub(super) const ALL: [&str; 3] = [TAKE, GET, ADD];

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Script {
    Take = 0,
    Get = 1,
    Add = 2,
}

/// Moves a point in time ahead, in microseconds, by the clock of the store; gives how long to wait, or 0. A point that
/// is further ahead than calls can have moved it is none of ours, or the clock was set back.
const TAKE: &str = "
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
";

/// A value up to a number of bytes, and for how many milliseconds it is there yet.
const GET: &str = "
local found = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[1])
if type(found) ~= 'string' then return {'', -2} end
return {found, redis.call('PTTL', KEYS[1])}
";

/// Adds a member to a group that has less than so many, and keeps the group for so many milliseconds.
const ADD: &str = "
local count = redis.pcall('HLEN', KEYS[1])
if type(count) ~= 'number' then redis.call('DEL', KEYS[1]) count = 0 end
if count >= tonumber(ARGV[3]) and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
";
