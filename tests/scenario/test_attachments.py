"""Attachments: what went in comes out, byte for byte (L12)."""
import base64
import os

from reeve_test import check, eq, main


def attach(s, c, *attachments, **more):
    """Sends a message with these; returns what its event says about them."""
    s.say(c, "a", "see attached", attachments=list(attachments), **more)
    return s.events(c)[-1]["payload"]["attachments"]


def of(name, data, kind="application/octet-stream"):
    return {"name": name, "contentType": kind, "content": base64.b64encode(data).decode()}


def fetched(s, number):
    got = s.call("attachment.get", id=number)
    data = base64.b64decode(got["content"], validate=True)
    return got["name"], got["contentType"], got["size"], data


def test_L12_every_byte_value_survives(s):
    c = s.talk()
    cases = {
        "all": bytes(range(256)), "reversed": bytes(reversed(range(256))), "nul": b"\0",
        "empty": b"", "bad-utf8": b"\xff\xfe\x00\x80\xc0\xaf\xed\xa0\x80", "bom": b"\xef\xbb\xbf",
        "crlf": b"\r\n\n\r", "one": b"x", "two": b"xy", "three": b"xyz",
    }
    entries = attach(s, c, *(of(name, data) for name, data in cases.items()))
    sizes = {e["name"]: e["size"] for e in entries}
    eq(sizes, {name: len(data) for name, data in cases.items()}, "names and sizes")
    s.restart()
    for entry, (name, data) in zip(entries, cases.items()):
        eq(set(entry), {"id", "name", "contentType", "size"}, "members in the event: no content")
        eq(fetched(s, entry["id"]), (name, "application/octet-stream", len(data), data), name)


def test_L12_half_a_megabyte_of_noise(s):
    c = s.talk()
    data = os.urandom(500_000)
    (entry,) = attach(s, c, of("noise.bin", data))
    eq(entry["size"], len(data), "size")
    name, _, size, back = fetched(s, entry["id"])
    check((name, size) == ("noise.bin", len(data)) and back == data, "the bytes differ")


def test_text_is_stored_as_utf8(s):
    c = s.talk()
    text = "Grüße 𝄞\r\n\"quoted\"\t\u0001"
    entries = attach(s, c, {"name": "n.txt", "contentType": "text/plain", "text": text},
                     {"name": "empty", "contentType": "text/plain", "text": ""})
    eq(fetched(s, entries[0]["id"])[3], text.encode(), "bytes")
    eq(entries[0]["size"], len(text.encode()), "size counts bytes")
    eq(fetched(s, entries[1]["id"])[3], b"", "an empty one")


def test_names_and_types_are_kept_as_given(s):
    c = s.talk()
    names = ["../../etc/passwd", "ä\"\\\n.txt", "n" * 200, "a/b/c", ".", "NUL"]
    entries = attach(s, c, *(of(n, n.encode(), "text/x-ü; charset=none") for n in names))
    for entry, name in zip(entries, names):
        eq(fetched(s, entry["id"])[:2], (name, "text/x-ü; charset=none"), "name and type")


def test_ids_are_never_shared(s):
    c, d = s.talk(), s.talk()
    ids = [e["id"] for x in (c, d, c) for e in attach(s, x, of("f", b"1"), of("f", b"1"))]
    eq(len(set(ids)), 6, "ids")
    e = s.refused("NOT_FOUND", "attachment.get", id=max(ids) + 1)
    eq((e.data["what"], e.data["id"]), ("attachment", max(ids) + 1), "data")


def test_bad_attachments_are_refused_and_leave_nothing(s):
    c = s.talk()
    good = of("ok", b"ok")
    for wrong in ({"name": "f", "contentType": "x/y"},
                  {"name": "f", "contentType": "x/y", "content": "AA==", "text": "x"},
                  {"name": "f", "contentType": "x/y", "content": "A"},
                  {"name": "f", "contentType": "x/y", "content": "AAA"},
                  {"name": "f", "contentType": "x/y", "content": "AA=="[:3] + "\n="},
                  {"name": "f", "contentType": "x/y", "content": "A-_="},
                  {"name": "f", "contentType": "x/y", "content": "AB=="},
                  {"name": "f", "contentType": "x/y", "content": 7},
                  {"contentType": "x/y", "content": ""},
                  {"name": "", "contentType": "x/y", "text": "x"},
                  {"name": "f", "contentType": "x/y", "text": "x", "id": 5},
                  {"name": 1, "contentType": "x/y", "text": "x"}, [], "f", None):
        e = s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
                      attachments=[good, wrong])
        check("attachments" in e.data["path"] and "1" in e.data["path"], f"{wrong}: {e.data}")
    s.refused("INVALID_PARAMS", "message.send", conversation=c, agentId="a", text="x",
              attachments={})
    eq(len(s.events(c)), 1, "events")


def test_a_repeat_with_attachments_stores_them_once(s):
    c = s.talk()
    first = attach(s, c, of("f", b"1"), clientRequestId="k")
    eq(attach(s, c, of("f", b"1"), clientRequestId="k"), first, "entries")
    s.refused("IDEMPOTENCY_CONFLICT", "message.send", conversation=c, agentId="a",
              text="see attached", finality="none", attachments=[of("f", b"2")],
              clientRequestId="k")
    second = attach(s, c, of("g", b"2"))
    eq(second[0]["id"], first[0]["id"] + 1, "no id was used up in between")


def test_no_attachments_no_member(s):
    c = s.talk()
    s.say(c, "a", "nothing attached")
    check("attachments" not in s.events(c)[-1]["payload"], "attachments")


if __name__ == "__main__":
    main()
