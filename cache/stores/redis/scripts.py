"""What Redis does in one step, in Lua, and how it is asked to. The scripts know the layout in `names`, no more.

Whatever stands in a value, no script fails over it, and none reads one that is longer than ours are. Tokens are
compared as texts: Lua's numbers are doubles. A fence says `<token>`, or `<token> done` once that lease was given back;
one that no clock explains says nothing.

Who writes needs EVALSHA alone: an administrator loads them (`warmgraph install-scripts`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .requests import nodes_of

Argument = str | bytes | int
MAX_VARIANTS = 64  # under one key: those written longest ago go


@dataclass(frozen=True, slots=True)
class Script:
    """Lua that is sent once and then asked for by its sha1, as Redis wants it."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest())

    def run(self, redis: Any, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """One round trip; two when the server does not know the script, as after a restart, and we may send it."""
        from redis.exceptions import NoPermissionError, NoScriptError

        try:
            return redis.evalsha(self.sha, len(keys), *keys, *arguments)
        except NoScriptError as missing:
            try:
                return redis.eval(self.text, len(keys), *keys, *arguments)
            except NoPermissionError:
                raise missing from None


def install(redis: Any) -> int:
    """Load all scripts, on every node; how many there are. For who may use SCRIPT."""
    for node in nodes_of(redis):
        for script in ALL:
            if node.script_load(script.text) not in (script.sha, script.sha.encode()):
                raise ValueError("not the answer to SCRIPT LOAD")
    return len(ALL)


# text: a string, if it is one and not longer than ours; '' else. number: the digits of a token, or of a fence that says
# `done`; '0' for what is no number, or too far ahead of this server's clock to be a token.
# finish: note in the fence that this token's lease was given back, so that nobody takes it for forgotten.
_READING = """
local function text(key, most)
  local length = redis.pcall('STRLEN', key)
  if type(length) ~= 'number' or length == 0 or length > most then return '' end
  return redis.call('GETRANGE', key, 0, most)
end
"""
_NUMBERS = (
    _READING
    + """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local function number(said)
  local digits = string.match(said, '^(%d+)$') or string.match(said, '^(%d+) done$')
  if not digits or #digits > 16 or tonumber(digits) > now + 86400000000 then return '0' end
  return (string.gsub(digits, '^0+(%d)', '%1'))
end
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local function finish(fence, token)
  if token ~= '0' and number(text(fence, 64)) == token then
    redis.call('SET', fence, token .. ' done', 'PX', 86400000)
  end
end
"""
)

# split: the entries in a value (see `names`), as far as it is one: {variant, generation, sealed, all of it}.
_ENTRIES = """
local function split(all)
  local found, at = {}, 1
  while #found < VARIANTS do
    local first, last, variant, generation, size = string.find(all, '^([%w_-]+) (%d+) (%d+)\\n', at)
    if not first or #size > 9 or last + tonumber(size) > #all then break end
    local stop = last + tonumber(size)
    found[#found + 1] = {variant, generation, string.sub(all, last + 1, stop), string.sub(all, at, stop)}
    at = stop + 1
  end
  return found
end
""".replace("VARIANTS", str(MAX_VARIANTS))

# KEYS: entries, lease, fence. ARGV: variant, generation, sealed, seconds to live, the most bytes of all, token.
# What lies there and is no list of entries is written over, whatever its type. An entry that was made under the lease
# ends it: nobody has to wait until that is asked for.
PUT_ENTRY = Script(
    _NUMBERS
    + _ENTRIES
    + """
local kept, most = {ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. #ARGV[3] .. '\\n' .. ARGV[3]}, tonumber(ARGV[5])
local size = #kept[1]
for _, one in ipairs(split(text(KEYS[1], most))) do
  if one[1] ~= ARGV[1] and size + #one[4] <= most then
    size = size + #one[4]
    kept[#kept + 1] = one[4]
  end
end
redis.call('SET', KEYS[1], table.concat(kept), 'EX', ARGV[4])
if ARGV[6] ~= '0' then
  if string.match(text(KEYS[2], 1024), '^%d+') == ARGV[6] then redis.call('DEL', KEYS[2]) end
  finish(KEYS[3], ARGV[6])
end
return 1
"""
)

# KEYS: entries. ARGV: variant, the most bytes of all entries, the generation that is to go ('' for any), and its bytes
# from which place on. 0: another one has taken its place, and nothing was changed.
REMOVE_ENTRY = Script(
    _READING
    + _ENTRIES
    + """
local kept, gone = {}, 0
for _, one in ipairs(split(text(KEYS[1], tonumber(ARGV[2])))) do
  local same = ARGV[3] == '' or (one[2] == ARGV[3] and string.sub(one[3], ARGV[4] + 1) == ARGV[5])
  if one[1] == ARGV[1] and same then gone = 1 else kept[#kept + 1] = one[4] end
end
if gone == 0 then return 0 end
if #kept == 0 then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], table.concat(kept), 'KEEPTTL') end
return 1
"""
)

# KEYS: an address of the index of resemblances. ARGV: key, record, seconds to live, how many may lie there, the most
# bytes of one.
RELATE = Script(
    _READING
    + """
local kept = {ARGV[2]}
for line in string.gmatch(text(KEYS[1], ARGV[4] * (ARGV[5] + 1)), '[^\\n]+') do
  if #kept < tonumber(ARGV[4]) and #line <= tonumber(ARGV[5]) and string.match(line, '^%d+ (%w+)') ~= ARGV[1] then
    kept[#kept + 1] = line
  end
end
redis.call('SET', KEYS[1], table.concat(kept, '\\n'), 'EX', ARGV[3])
return 1
"""
)

# KEYS: the list of revocations. ARGV: a statement, the most bytes of all. What is no string is written over.
REVOKE = Script(
    _READING
    + """
local all = text(KEYS[1], tonumber(ARGV[2]))
redis.call('SET', KEYS[1], #all + #ARGV[1] <= tonumber(ARGV[2]) and all .. ARGV[1] or ARGV[1])
return 1
"""
)

# KEYS: lease, fence. ARGV: owner, milliseconds; of the last one seen with it: its token ('' for none), and 'early'
# if its lease cannot have expired yet; for how many seconds we know this server ('' for not at all); 'waits' if nothing
# is to be given out once the one last seen gave it back.
# {1, token}; {0, what the lease says, milliseconds it lasts}; {2, ''}: forgotten, and {3, ''}: given back; nothing is
# given out.
# Forgotten is what went without having been given back: a server that was restarted, or evicts.
# Nobody's is what lasts for ever, or for longer than any lease of ours: it is taken.
ACQUIRE = Script(
    _NUMBERS
    + """
local held = text(KEYS[1], 1024)
if held ~= '' then
  if string.sub(held, -#ARGV[1] - 1) == ' ' .. ARGV[1] then  -- asked again, as the first answer was lost
    return {1, number(string.match(held, '^%d+') or '')}
  end
  local left = redis.call('PTTL', KEYS[1])
  if left >= 0 and left <= 600000 then return {0, held, left} end
end
local fence = text(KEYS[2], 64)
local last, seen = number(fence), number(ARGV[3])
if less(last, seen) then return {2, ''} end
if ARGV[6] == 'waits' and seen ~= '0' and string.match(fence, ' done$') then return {3, ''} end
if ARGV[4] == 'early' and seen ~= '0' and fence == seen then return {2, ''} end
local known = tonumber(ARGV[5])
if fence == '' and known then
  local info = redis.pcall('INFO', 'server')
  local up = type(info) == 'string' and tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  if up and up + 1 < known and up * 3000 < (tonumber(ARGV[2]) or 0) then return {2, ''} end
end
local given = string.format('%.0f', math.max(now, tonumber(last) + 1))
redis.call('SET', KEYS[1], given .. ' ' .. ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], given, 'PX', 86400000)
return {1, given}
"""
)

# KEYS: lease, fence. ARGV: what the lease says when it is ours, token, milliseconds.
# 1: it is prolonged; 0: it is not ours any more; 2: it was given back, and stays so.
# Gone (the server was restarted, or we stalled) and nobody had it since: it is ours still.
BEAT = Script(
    _NUMBERS
    + """
local held = text(KEYS[1], 1024)
if held == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
local fence = text(KEYS[2], 64)
if fence == ARGV[2] .. ' done' then return 2 end
if held ~= '' then return 0 end
if number(fence) ~= '0' and fence ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', 86400000)
return 1
"""
)

# KEYS: lease, fence. ARGV: how it ends when it is ours, what to leave in its place ('' for nothing), milliseconds.
RELEASE = Script(
    _NUMBERS
    + """
local held = text(KEYS[1], 1024)
if held ~= '' and string.sub(held, -#ARGV[1]) ~= ARGV[1] then return 0 end
finish(KEYS[2], number(string.match(held ~= '' and held or ARGV[1], '^%d+') or ''))
if held == '' then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
"""
)

ALL = (PUT_ENTRY, REMOVE_ENTRY, RELATE, REVOKE, ACQUIRE, BEAT, RELEASE)
