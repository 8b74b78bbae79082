#!/usr/bin/env python3
"""NetTrace V4 streams whose loss is known. The same bytes every time; cases.json holds what real readers say about them.

  make.py                    writes the small streams here
  make.py big DIR [NAME...]  writes the big ones (thousands of threads) into DIR

Every event is flagged sorted and written in time order. A small case is a script in that order:
  a      thread a emits, the event survives       -a  -a*9   dropped, nine times
  +a     the drain writes an info event on a's capture id, naming a (+a/bare, +a/process: other forms of it)
  |      sequence point, every id so far          |ab  only these     |a=7  this number, whatever is true
  a:N    a's counter is N, the next number is N+1
"""
import random, re, struct, sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
START, UNKNOWN_CPU, NO_STACK = 10**9, 2**32 - 1, 1  # ticks of 1 ns; the empty stack is defined as stack 1
TOP, INT64, STRING = 2**32, 11, 18
EVENTS = {  # kind: metadata id, provider, event id, name, keywords, version, level, fields
    "tick": (1, "Peer-Load", 1, "Tick", 0xF00000000001, 0, 4, [(INT64, "index"), (INT64, "thread"), (STRING, "text")]),
    "info": (2, "Diagport", 1, "CaptureThread", 0, 0, 4, [(INT64, "ThreadId"), (STRING, "Name")]),
    "bare": (3, "Diagport", 2, "CaptureThread", 0, 0, 4, []),
    "process": (4, "Microsoft-DotNETCore-EventPipe", 1, "ProcessInfo", 0, 1, 0,
                [(STRING, "CommandLine"), (STRING, "OSInformation"), (STRING, "ArchInformation")]),
}


def varuint(n):
    return bytes([n & 127 | 128]) + varuint(n >> 7) if n > 127 else bytes([n])


def utf16(s):
    return s.encode("utf-16-le") + b"\0\0"


class Stream:  # the container: objects, blocks, compressed event headers
    def __init__(self, kinds):
        self.out = bytearray(b"Nettrace" + struct.pack("<i", 20) + b"!FastSerialization.1")
        self.object("Trace", 4, struct.pack("<8hqqiiii", 2026, 11, 1, 30, 8, 0, 0, 0, START, 10**9, 8, 4242, 2, 10**6), sized=False)
        self.blobs, self.last, self.stack_known = bytearray(), (0,) * 8, False
        for meta, provider, event, name, keywords, version, level, fields in sorted(EVENTS[kind] for kind in kinds):
            payload = struct.pack("<i", meta) + utf16(provider) + struct.pack("<i", event) + utf16(name) + struct.pack(
                "<Qiii", keywords, version, level, len(fields))
            payload += b"".join(struct.pack("<i", code) + utf16(field) for code, field in fields)
            self.blob(0, 0, 0, 0, 4242, 0, START, payload)
        self.end_block("MetadataBlock")

    def object(self, name, version, body, sized=True):
        self.out += b"\5\5\1" + struct.pack("<iii", version, version, len(name)) + name.encode() + b"\6"
        if sized:
            self.out += struct.pack("<i", len(body))
            self.out += bytes(-len(self.out) % 4)
        self.out += body + b"\6"

    def end_block(self, name):
        self.object(name, 2, struct.pack("<HHqq", 20, 1, self.first, self.last[6]) + self.blobs)
        self.blobs, self.last = bytearray(), (0,) * 8

    def blob(self, meta, seq, cap, cpu, tid, stack, ts, payload):
        m, s, c, p, t, k, when, size = self.last
        flags, head = 0x40, b""
        if meta != m:
            flags, head = flags | 1, head + varuint(meta)
        if (seq, cap, cpu) != ((s + (meta != 0)) % TOP, c, p):
            flags, head = flags | 2, head + varuint((seq - s - 1) % TOP) + varuint(cap) + varuint(cpu)
        if tid != t:
            flags, head = flags | 4, head + varuint(tid)
        if stack != k:
            flags, head = flags | 8, head + varuint(stack)
        head += varuint(ts - when)
        if len(payload) != size:
            flags, head = flags | 0x80, head + varuint(len(payload))
        self.first = self.first if self.blobs else ts
        self.blobs += bytes([flags]) + head + payload
        self.last = (meta, seq, cap, cpu, tid, stack, ts, len(payload))

    def flush(self):
        if self.blobs:
            if not self.stack_known:
                self.object("StackBlock", 2, struct.pack("<iii", NO_STACK, 1, 0))
            self.stack_known = True
            self.end_block("EventBlock")

    def point(self, ts, numbers):
        self.flush()
        body = b"".join(struct.pack("<QI", *pair) for pair in numbers)
        self.object("SPBlock", 2, struct.pack("<qi", ts, len(numbers)) + body)
        self.stack_known = False  # a point forgets the stacks


def play(steps):
    """Writes a script of (op, capture id, OS thread id, argument). Returns the stream and the truth about it."""
    steps = list(steps)
    s = Stream({"tick"} | {step[3] for step in steps if step[0] == "info"})
    number, now, attempts, infos, ticks, lost = {}, START, 0, 0, [], {}
    for op, cap, tid, arg in steps:
        if op == "set":
            number[cap] = arg
        elif op == "drop":
            number[cap] = (number.get(cap, 0) + arg) % TOP
            attempts += arg
            lost[tid] = lost.get(tid, 0) + arg
        elif op == "point":
            now += 1000
            listed = [(cap, None) for cap in number] if arg is None else arg
            s.point(now, [(cap, number[cap] if n is None else n) for cap, n in listed if n is not None or cap in number])
        else:
            number[cap] = (number.get(cap, 0) + 1) % TOP
            if op == "tick":
                kind, now = op, now + 1000
                payload = struct.pack("<qq", attempts, tid) + utf16("")
                ticks.append((attempts, tid))
                attempts += 1
            else:  # an info event takes the time of whatever was written last
                kind, infos = arg, infos + 1
                payload = {"info": struct.pack("<q", tid) + utf16("w"), "bare": b"",
                           "process": utf16("load") + utf16("Linux") + utf16("x64")}[kind]
            s.blob(EVENTS[kind][0], number[cap], cap, UNKNOWN_CPU, tid, NO_STACK, now, payload)
            if len(s.blobs) > 60_000:
                s.flush()
    s.flush()
    s.out += b"\1"
    return bytes(s.out), dict(attempts=attempts, infos=infos, ticks=ticks, lost=lost)


def script(words):
    """The small language of the head comment. Thread a has capture id and OS thread id 101, b 102, ..."""
    tid = lambda letter: ord(letter) + 4
    for word in words.split():
        thread = tid(word.lstrip("+-")[0])
        if word[0] == "|":
            listed = [(tid(x), int(n) if n else None) for x, n in re.findall(r"([a-z])(?:=(\d+))?", word)]
            yield "point", 0, 0, listed or None
        elif word[0] == "+":
            yield "info", thread, thread, word[3:] or "info"
        elif word[0] == "-":
            yield "drop", thread, thread, int(word[3:] or 1)
        elif ":" in word:
            yield "set", thread, thread, int(word[2:])
        else:
            yield "tick", thread, thread, None


def churn(threads=10_000, live=50, ids="own", every=None, listed="held", start=None, keep=("----", "--xx", "xx--")):
    """Short threads, `live` at a time in random order; thread k keeps its events by keep[k mod n].
    ids: own, slot (recycled, numbers go on), or how many ids all threads share. every: attempts between points; they list
    the ids that a thread holds now (live) or has held since the last point (held)."""
    rng, lanes, freed, known, attempts = random.Random(7), [], [], set(), 0
    fresh, free = iter(range(threads)), list(range(1, live + 1))
    while True:
        while free and (k := next(fresh, None)) is not None:
            slot, tid = free.pop(0), 20_001 + k
            cap = tid if ids == "own" else slot if ids == "slot" else 1 + k % ids
            if start is not None and cap not in known:
                yield "set", cap, tid, start
            yield "begin", cap, tid, cap not in known
            known.add(cap)
            lanes.append((cap, tid, slot, iter(keep[k % len(keep)])))
        if not lanes or every and attempts == every:
            now = [lane[0] for lane in lanes] + (freed if listed == "held" else [])
            yield "point", 0, 0, [(cap, None) for cap in dict.fromkeys(now)] if every else None
            freed, attempts = [], 0
        if not lanes:
            return
        cap, tid, slot, rest = lane = rng.choice(lanes)
        if fate := next(rest, None):
            yield ("tick", cap, tid, None) if fate == "x" else ("drop", cap, tid, 1)
            attempts += 1
        else:
            lanes.remove(lane)
            free.append(slot)
            freed.append(cap)


def inform(steps, info=None):
    """Adds info events. id or process: number 1 of each id; thread: at the start of each thread; need: before a loss, unless the
    last event written on that id is the losing thread's own."""
    last = {}
    for op, cap, tid, arg in steps:
        if (op == "begin" and (info == "thread" or arg and info in ("id", "process"))
                or op == "drop" and info == "need" and last.get(cap) != tid):
            yield "info", cap, tid, "process" if info == "process" else "info"
        if op in ("tick", "drop"):
            last[cap] = tid
        if op != "begin":
            yield op, cap, tid, arg


SMALL = {  # name: (what it shows, script) or (what, arguments of churn, kind of inform)
    "01-none": ("no loss", "a b c a b c a b c a a b c |"),
    "02-middle": ("between two surviving events", "a b c a -b*3 b a -c c |"),
    "03-tail": ("after the last surviving event", "a b c a b -b*3 c -c*2 a |"),
    "04a-head": ("first surviving number is 5, id not listed before", "b -a*4 a b a |"),
    "04b-head-listed-0": ("id listed with 0 before", "b a:0 |ba -a*4 a b a |"),
    "04c-head-listed-1": ("id listed with 1 before, numbers from 2", "b a:1 |ba -a*4 a b a |"),
    "04d-head-info": ("number 1 is an info event", "b +a -a*4 a b a |"),
    "04d-head-info-bare": ("the info event has no fields", "b +a/bare -a*4 a b a |"),
    "04d-head-info-process": ("the info event is ProcessInfo", "b +a/process -a*4 a b a |"),
    "04e-head-listed-2g": ("id listed with 2^31 before, numbers from 2^31+1", f"b a:{2**31} |ba -a*4 a b a |"),
    "04f-head-listed-true": ("id listed with its 4 losses before its first event", "b -a*4 |ba a b a |"),
    "04g-head-0-then-info": ("id listed with 0, then number 1 is an info event", "b a:0 |ba +a -a*4 a b a |"),
    "05a-silent": ("no event survives, id in the final point only", "b -a*4 b |"),
    "05b-silent-listed-0": ("id listed with 0 before", "b a:0 |ba -a*4 b |"),
    "05c-silent-listed-1": ("id listed with 1 before, numbers from 2", "b a:1 |ba -a*4 b |"),
    "05d-silent-info": ("number 1 is an info event", "b +a -a*4 b |"),
    "07s-4-id": ("90 threads on 4 recycled ids", dict(threads=90, live=4, ids="slot", every=50), "id"),
    "07s-4-need": ("same, info events where needed", dict(threads=90, live=4, ids="slot", every=50), "need"),
    "08b-wrap": ("over 2^32, number 0 survives, no gap behind it", f"a:{TOP-4} a a -a a a a -a*2 a |"),
    "08c-wrap-in-gap": ("number 0 is lost", f"a:{TOP-4} a a -a*4 a -a a |"),
    "08d-wrap-0-then-gap": ("number 0 survives, then a gap", f"a:{TOP-4} a a a a -a*3 a |"),
    "08e-wrap-0-listed": ("a point lists 0 after the wrap, then a gap", f"a:{TOP-4} a a -a*2 | -a*3 a |"),
    "08f-wrap-retired": ("before the wrap the id is listed and given up for a new one", f"a:{TOP-4} a -a*2 |a +b -b*3 b |b"),
    "08g-listed-low": ("a point lists less than was written", "a a a a a |a=3 a a |"),
    "08h-restart": ("numbers restart at 1 on the same id", "a a a a:0 a a a |"),
    "08i-gap-max": ("one gap of 2^31-1", f"a -a*{2**31-1} a |"),
    "08j-gap-2g": ("one gap of 2^31", f"a -a*{2**31} a |"),
    "08k-gap-2g-split": ("the same loss with a point inside", f"a -a*{2**30} | -a*{2**30} a |"),
    "08l-total-4g": ("2^32+5 lost in all, no gap above 2^30", f"a {4 * f'-a*{2**30} a '} -a*5 a |"),
    "09-points": ("loss between, before and across points", "a b -a a | -a -b a | -b*2 -a*2 | a b -a | -b | b a |"),
    "10-unlisted": ("an id left out of points, back later", "a b -a a |ab b |b -a*2 b |b a -b |ab -a | b |"),
    "11s-one-id": ("90 threads share one id, info events where needed", dict(threads=90, live=8, ids=1, every=50), "need"),
}
BIG = {  # 10,000 threads x 4: a third loses all, a third the first two, a third the last two
    "06a-own": ("own id per thread", dict()),
    "06b-own-info": ("own id, number 1 is an info event", dict(), "id"),
    "06c-own-info-points": ("same, points every 1,000, an ended id listed once more", dict(every=1000), "id"),
    "06d-5000": ("5,000 own ids, info events", dict(threads=5000), "id"),
    "06e-5001": ("5,001 own ids, info events", dict(threads=5001), "id"),
    **{f"07-{n}-{p}": (f"{n} recycled ids, points {t}", dict(live=n, ids="slot", every=e), "id")
       for n in (1, 8, 64) for p, t, e in (("end", "at the end", None), ("1000", "every 1,000, ids in use", 1000))},
    "07-8-thread": ("8 recycled ids, an info event per thread", dict(live=8, ids="slot", every=1000), "thread"),
    "07-8-need": ("8 recycled ids, info events where needed", dict(live=8, ids="slot", every=1000), "need"),
    "07-64-live": ("64 recycled ids, a freed one is not listed again", dict(live=64, ids="slot", every=1000, listed="live"), "id"),
    "08a-wrap": ("8 recycled ids over 2^32, no gap behind number 0", dict(live=8, ids="slot", every=1000, start=TOP - 2500), "id"),
    "08a-wrap-gap": ("same, gaps behind number 0", dict(live=8, ids="slot", every=1000, start=TOP - 2501), "id"),
    "11-one-id": ("64 live threads share one id, number 1 is ProcessInfo", dict(live=64, ids=1, every=1000), "process"),
    "12a-6000-own": ("6,000 live threads, own ids, info events", dict(threads=6000, live=6000, every=1000, keep=("x-x-",)), "id"),
    "12b-6000-on-64": ("6,000 live threads share 64 ids", dict(threads=6000, live=6000, ids=64, every=1000, keep=("x-x-",)), "need"),
}


def build(name):
    _, case, *info = (SMALL | BIG)[name]
    return play(script(case) if isinstance(case, str) else inform(churn(**case), *info))


if __name__ == "__main__":
    verb, *rest = sys.argv[1:] or ["small"]
    for name in (rest[1:] or BIG) if verb == "big" else SMALL:
        (Path(rest[0] if rest else HERE) / f"{name}.nettrace").write_bytes(build(name)[0])
