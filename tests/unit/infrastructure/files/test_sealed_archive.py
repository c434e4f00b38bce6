"""The file of a sealed answer: every changed byte is noticed, and a hostile archive is refused before it is unpacked."""

from __future__ import annotations

import hashlib
import io
import tracemalloc
import zipfile

import pytest
from tests.support.fuzz import chance, chosen

from modules.llm_platform.domain.dtos.sealed_dtos import Sign, Signature
from modules.llm_platform.domain.exceptions import SealError
from modules.llm_platform.infrastructure.files import sealed_archive
from modules.llm_platform.infrastructure.files.sealed_archive import pack, unpack

MEMBERS = {
    "answer.json": b'{"answer":"\xc3\xa9"}' * 50,
    "index.html": b"<p>It opens anywhere.</p>" * 50,
    "sources/1.txt": b"The tower is 330 metres tall. " * 20,
}
SIGNED = Signature("ab" * 32, "cd" * 64)
PREFIX = "llm-platform sealed answer 1 sha256:"
MEMORY_BYTES = 40_000_000


def reseal(archive: io.BytesIO) -> bytes:
    """Return the bytes of any zip file with a digest that is right: anybody can compute it."""
    with zipfile.ZipFile(archive, "a") as opened:
        opened.comment = bytes(len(PREFIX) + 64)
    return seal_body(archive.getvalue()[: -(len(PREFIX) + 64)])


def seal_body(body: bytes) -> bytes:
    return body + f"{PREFIX}{hashlib.sha256(body).hexdigest()}".encode()


def archive_of(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return reseal(out)


@pytest.mark.parametrize("sign", [None, lambda digest: SIGNED], ids=["unsigned", "signed"])
def test_members_come_back(sign: Sign | None) -> None:
    """With the digest and the signature, and any program for zip files reads them."""
    data = pack(MEMBERS, sign)
    seal = unpack(data)
    assert (dict(seal.members), seal.signature) == (MEMBERS, SIGNED if sign else None)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.comment.decode().startswith(f"{PREFIX}{seal.digest}")


def test_equal_members_give_equal_bytes() -> None:
    """The order of the members does not matter."""
    assert pack(MEMBERS) == pack(dict(reversed(MEMBERS.items())))


@pytest.mark.parametrize("sign", [None, lambda digest: SIGNED], ids=["unsigned", "signed"])
def test_every_changed_byte_is_noticed(sign: Sign | None) -> None:
    """Each byte is changed once, to another value each time. Of the signature, it is the service that notices."""
    data, random = pack(MEMBERS, sign), chance(1)
    for _ in range(chosen(1, 50)):
        for place in range(len(data)):
            changed = bytearray(data)
            changed[place] ^= random.randrange(1, 256)
            try:
                seal = unpack(bytes(changed))
            except SealError:
                continue
            assert seal.signature not in (None, SIGNED), f"byte {place} of {len(data)}"
            assert place >= len(data) - len(":") - 64 - len(":") - 128


@pytest.mark.parametrize("portion", range(3))
def test_cut_grown_and_shuffled_files_are_refused(portion: int) -> None:
    """Whatever happens to a file on its way."""
    data, random = pack(MEMBERS), chance(portion)
    for _ in range(chosen(200, 20_000)):
        start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
        part = data[start:end]
        changed = random.choice(
            (data[:start] + data[end:], data[:end] + part + data[end:], part, data + part, part + data)
        )
        if changed != data:
            with pytest.raises(SealError):
                unpack(changed)


def _link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("answer.json")
    info.external_attr = 0o120777 << 16
    return info


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(archive_of(("../answer.json", b"{}")), id="path"),
        pytest.param(archive_of(("/etc/passwd", b"{}")), id="absolute"),
        pytest.param(archive_of(("sources/..\\1.txt", b"{}")), id="backslash"),
        pytest.param(archive_of(("sources/01.txt", b"{}")), id="another spelling"),
        pytest.param(archive_of(("answer.json", b"{}"), ("run.exe", b"MZ")), id="another member"),
        pytest.param(archive_of((_link(), b"/etc/passwd")), id="link"),
        pytest.param(archive_of(("answer.json", b" " * 50_000_000)), id="bomb"),
        pytest.param(archive_of(("answer.json", b"{}"), method=zipfile.ZIP_LZMA), id="method"),
        pytest.param(archive_of(*((f"sources/{number}.txt", b"") for number in range(1, 1004))), id="entries"),
    ],
)  # fmt: skip
def test_hostile_archives_are_refused(data: bytes) -> None:
    """Although their digest is right."""
    with pytest.raises(SealError, match="refused"):
        unpack(data)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_may_stand_once() -> None:
    """Two programs would read two different answers."""
    with pytest.raises(SealError, match="refused"):
        unpack(archive_of(("answer.json", b"1"), ("answer.json", b"2")))


@pytest.mark.parametrize("is_hidden", [False, True], ids=["one end record", "another inside"])
def test_a_million_entries_cost_no_memory(is_hidden: bool) -> None:
    """The directory is measured before it is read, and it is the directory that the library reads.

    The library takes the last end record that it finds. Inside the measured one, another may name a larger directory.
    """
    entry = b"PK\x01\x02" + bytes(24) + b"\x01\x00" + bytes(16) + b"a"
    directory = entry * 500_000
    size = len(directory).to_bytes(4, "little")
    end = b"PK\x05\x06" + bytes(4) + b"\xff\x00\xff\x00" + size + bytes(4)
    if is_hidden:
        last = entry[:32] + b"\x04\x00" + entry[34:]  # its comment is the signature of the measured end record
        directory = directory[: -len(entry)] + last
        size = (len(directory) + 4).to_bytes(4, "little")
        end = b"PK\x05\x06PK\x05\x06" + b"\x03\x00\x03\x00" + b"\x00\x01\x00\x00" + size
    data = seal_body(b"PK\x03\x04" + directory + end + (len(PREFIX) + 64).to_bytes(2, "little"))
    tracemalloc.start()
    try:
        with pytest.raises(SealError, match="refused"):
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
    finally:
        tracemalloc.stop()


def test_a_second_end_record_is_refused() -> None:
    """The library takes the last signature that it finds, and so would read another directory than the measured one."""
    data = archive_of(("answer.json", b"{}"))
    comment = len(PREFIX) + 64
    end = data[-comment - 22 : -comment]
    for place in (4, 12, 16):  # inside the end record
        hidden = end[:place] + b"PK\x05\x06" + end[place + 4 :]
        with pytest.raises(SealError, match="refused"):
            unpack(seal_body(data[: -comment - 22] + hidden))
    with pytest.raises(SealError, match="refused"):
        unpack(seal_body(data[: -comment - 22] + end[:20] + b"\x00\x00"))


def test_an_offset_beyond_a_file_is_refused() -> None:
    """Zip64 may name 2**63 bytes and more, which no file has."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("answer.json", b"{}")
    raw = out.getvalue()
    start = raw.index(b"PK\x01\x02")
    entry, end = raw[start:-22], bytearray(raw[-22:])
    extra = b"\x01\x00\x08\x00" + (2**63 + 5).to_bytes(8, "little")
    entry = entry[:30] + len(extra).to_bytes(2, "little") + entry[32:42] + b"\xff" * 4 + entry[46:] + extra
    end[12:16] = len(entry).to_bytes(4, "little")
    end[20:22] = (len(PREFIX) + 64).to_bytes(2, "little")
    with pytest.raises(SealError, match="refused"):
        unpack(seal_body(raw[:start] + entry + bytes(end)))


def test_a_long_answer_is_refused() -> None:
    """Its JSON becomes many objects, so it is measured before it is read."""
    random = chance(5)
    answer = random.randbytes(sealed_archive.MAX_ANSWER_BYTES + 1)
    with pytest.raises(SealError, match="refused"):
        unpack(archive_of(("answer.json", answer)))
    with pytest.raises(SealError, match="too long"):
        pack({"answer.json": answer})


def test_a_member_of_another_length_is_refused() -> None:
    """Its directory entry says more or less than the member has."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("answer.json", b"{}")
    for size in (1, 3):
        raw = bytearray(out.getvalue())
        start = raw.index(b"PK\x01\x02")
        raw[start + 24 : start + 28] = size.to_bytes(4, "little")
        raw[-2:] = (len(PREFIX) + 64).to_bytes(2, "little")
        with pytest.raises(SealError, match="refused"):
            unpack(seal_body(bytes(raw)))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"A text", f"{PREFIX}{'0' * 64}".encode()], ids=repr)
def test_other_files_are_no_sealed_answers(data: bytes) -> None:
    """And say so."""
    with pytest.raises(SealError, match="not a sealed answer"):
        unpack(data)


def test_repetitive_text_is_sealed() -> None:
    """The compression ratio would look like a bomb's, so the text is stored uncompressed."""
    members = {**MEMBERS, "sources/1.txt": b"a" * 1_000_000}
    assert unpack(pack(members)).members == members


def test_an_oversized_answer_is_not_sealed() -> None:
    """A file above the limits of reading is not written."""
    with pytest.raises(SealError, match="too long"):
        pack({"sources/1.txt": bytes(sealed_archive.MAX_UNPACKED_BYTES + 1)})
