"""What Redis does in one step, in Lua, and how it is asked to. The scripts know the layout in `names`, no more.

Numbers that only grow are compared as texts: Lua's are doubles, exact to 2^53 only.
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


# KEYS: entries, fence. ARGV: variant, its generation's field, generation, sealed, seconds to live.
# 0: a later lease was given out, or a newer entry is there, and nothing was changed.
PUT_ENTRY = Script("""
local function number(text)
  if type(text) == 'string' and #text <= 20 and string.match(text, '^%d+$') then
    return (string.gsub(text, '^0+(%d)', '%1'))
  end
  return '0'
end
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local ours = number(ARGV[3])
if less(ours, number(redis.call('GET', KEYS[2]))) then return 0 end
if less(ours, number(redis.call('HGET', KEYS[1], ARGV[2]))) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[4], ARGV[2], ours)
redis.call('EXPIRE', KEYS[1], ARGV[5])
return 1
""")

# KEYS: lease, fence. ARGV: owner, milliseconds, a token that was given out before ('' for none).
# {1, token}; {0, what the lease says}; {2, ''}: the server has forgotten that token, and gives out nothing.
ACQUIRE = Script("""
local held = redis.call('GET', KEYS[1])
if held then return {0, held} end
if ARGV[3] ~= '' and tonumber(redis.call('GET', KEYS[2]) or '0') < tonumber(ARGV[3]) then return {2, ''} end
local now = redis.call('TIME')
local token = now[1] * 1000000 + now[2]
local fence = tonumber(redis.call('GET', KEYS[2]) or '0')
if fence and fence >= token and fence < 9007199254740991 then token = fence + 1 end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[1], text .. ' ' .. ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], text, 'PX', 86400000)
return {1, text}
""")

# KEYS: lease, fence. ARGV: what the lease says when it is ours, token, milliseconds. 0: it is not ours any more.
# Gone (the server was restarted, or we stalled) and nobody had it since: it is ours still.
BEAT = Script("""
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
if held then return 0 end
local fence = redis.call('GET', KEYS[2])
if fence and fence ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', 86400000)
return 1
""")

# KEYS: lease. ARGV: how it ends when it is ours, what to leave in its place ('' for nothing), milliseconds.
RELEASE = Script("""
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, -#ARGV[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
""")
