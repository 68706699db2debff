"""What Redis does in one step, in Lua, and how it is asked to. The scripts know the layout in `names`, no more.

Numbers that only grow are compared as texts: Lua's are doubles, exact to 2^53 only. Whatever stands in a value, no
script fails over it. A fence says `<token>`, or `<token> done` once that lease was given back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Argument = str | bytes | int


@dataclass(frozen=True, slots=True)
class Script:
    """Lua that is sent once and then asked for by its sha1, as Redis wants it."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())

    def run(self, redis: Any, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """One round trip; two when the server does not know the script, as after a restart."""
        from redis.exceptions import NoScriptError

        try:
            return redis.evalsha(self.sha, len(keys), *keys, *arguments)
        except NoScriptError:
            return redis.eval(self.text, len(keys), *keys, *arguments)


# number: the digits of a text, '0' for what is no number; also of a fence that says `done`.
# finish: note in the fence that this token's lease was given back, so that nobody takes it for forgotten.
_NUMBERS = """
local function number(text)
  local digits = type(text) == 'string' and (string.match(text, '^(%d+)$') or string.match(text, '^(%d+) done$'))
  if not digits or #digits > 20 then return '0' end
  return (string.gsub(digits, '^0+(%d)', '%1'))
end
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function finish(fence, token)
  if token ~= '0' and number(redis.call('GET', fence)) == token then
    redis.call('SET', fence, token .. ' done', 'PX', 86400000)
  end
end
"""

# KEYS: entries, fence, lease. ARGV: variant, its generation's field, generation, sealed, seconds to live.
# 0: a later lease was given out, or a newer entry is there, and nothing was changed.
# An entry under the lease's own token ends the lease: nobody has to wait until that is asked for.
PUT_ENTRY = Script(
    _NUMBERS
    + """
local ours = number(ARGV[3])
local held = redis.call('GET', KEYS[3])
if less(ours, number(redis.call('GET', KEYS[2]))) then return 0 end
if less(ours, number(redis.call('HGET', KEYS[1], ARGV[2]))) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], ARGV[2], ours)
redis.call('EXPIRE', KEYS[1], ARGV[5])
if held and ours ~= '0' and number(string.match(held, '^%d+')) == ours then redis.call('DEL', KEYS[3]) end
finish(KEYS[2], ours)
return 1
"""
)

# KEYS: entries. ARGV: variant, its generation's field, the generation that is to go ('' for any), and its bytes from
# which place on. 0: another one has taken its place, and nothing was changed.
REMOVE_ENTRY = Script(
    _NUMBERS
    + """
if ARGV[3] ~= '' then
  local there = redis.call('HGET', KEYS[1], ARGV[1])
  if number(redis.call('HGET', KEYS[1], ARGV[2])) ~= number(ARGV[3]) then return 0 end
  if not there or string.sub(there, ARGV[4] + 1) ~= ARGV[5] then return 0 end
end
return redis.call('HDEL', KEYS[1], ARGV[1], ARGV[2]) > 0 and 1 or 0
"""
)

# KEYS: an address of the index of resemblances. ARGV: key, record, seconds to live, how many may lie there.
# A record begins with its time; of too many the oldest go.
RELATE = Script(
    """
if type(redis.pcall('HSET', KEYS[1], ARGV[1], ARGV[2])) == 'table' then  -- something else lies there
  redis.call('DEL', KEYS[1])
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
redis.call('EXPIRE', KEYS[1], ARGV[3])
local all, rows = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  rows[#rows + 1] = {tonumber(string.match(all[i + 1], '^%d+')) or 0, all[i]}
end
table.sort(rows, function(a, b) return a[1] < b[1] end)
for i = 1, #rows - tonumber(ARGV[4]) do redis.call('HDEL', KEYS[1], rows[i][2]) end
return 1
"""
)

# KEYS: lease, fence. ARGV: owner, milliseconds; of the last one seen with it: its token ('' for none), and 'early'
# if its lease cannot have expired yet; for how many seconds we know this server ('' for not at all).
# {1, token}; {0, what the lease says, milliseconds it lasts}; {2, ''}: forgotten, and nothing is given out.
# Forgotten is what went without having been given back: a server that was restarted, or evicts.
ACQUIRE = Script(
    _NUMBERS
    + """
local held = redis.call('GET', KEYS[1])
if held then
  if string.sub(held, -#ARGV[1] - 1) == ' ' .. ARGV[1] then  -- asked again, as the first answer was lost
    return {1, number(string.match(held, '^%d+'))}
  end
  local left = redis.pcall('PTTL', KEYS[1])  -- the user may not be allowed to ask
  return {0, held, type(left) == 'number' and left or -1}
end
local fence = redis.call('GET', KEYS[2])
local last, seen = number(fence), number(ARGV[3])
if less(last, seen) then return {2, ''} end
if ARGV[4] == 'early' and seen ~= '0' and fence == seen then return {2, ''} end
local known = tonumber(ARGV[5])
if not fence and known then
  local info = redis.pcall('INFO', 'server')
  local up = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  if up and up + 1 < known and up * 3000 < (tonumber(ARGV[2]) or 0) then return {2, ''} end
end
local now = redis.call('TIME')
local token = now[1] * 1000000 + now[2]
local before = tonumber(last)
if before >= token and before < 9007199254740991 then token = before + 1 end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[1], text .. ' ' .. ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], text, 'PX', 86400000)
return {1, text}
"""
)

# KEYS: lease, fence. ARGV: what the lease says when it is ours, token, milliseconds.
# 1: it is prolonged; 0: it is not ours any more; 2: it was given back, and stays so.
# Gone (the server was restarted, or we stalled) and nobody had it since: it is ours still.
BEAT = Script(
    _NUMBERS
    + """
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
local fence = redis.call('GET', KEYS[2])
if fence == ARGV[2] .. ' done' then return 2 end
if held then return 0 end
if fence and fence ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', 86400000)
return 1
"""
)

# KEYS: lease, fence. ARGV: how it ends when it is ours, what to leave in its place ('' for nothing), milliseconds.
RELEASE = Script(
    _NUMBERS
    + """
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, -#ARGV[1]) ~= ARGV[1] then return 0 end
finish(KEYS[2], number(string.match(held or ARGV[1], '^%d+')))
if not held then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
"""
)
