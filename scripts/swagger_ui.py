"""Fetch Swagger UI, the script behind /docs, through npm; with --check, say whether the files are those that are pinned.

To move to another version, change VERSION, run this, and put the hashes that it prints into the constants: each is
compared, so nothing else than what somebody looked at gets into the package.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "5.35.0"
# `npm view swagger-ui-dist@VERSION dist.integrity`
TARBALL_SHA512 = "U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ=="
FILES = {  # name in the package's folder: SHA-256
    "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
    "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
    "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
    "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
}
FOLDER = Path(__file__).parent.parent / "src/modules/llm_platform/presentation/rest/swagger_ui"


def main(arguments: list[str]) -> int:
    """0 when the files are, or become, the pinned ones."""
    wrong = _wrong(FOLDER) if "--check" in arguments else _fetch()
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def _fetch() -> list[str]:
    """Write the files; what differs from the pinned hashes, and then nothing is written."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--pack-destination", folder, f"swagger-ui-dist@{VERSION}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (tarball,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if digest != TARBALL_SHA512:
            return [f"{tarball.name} is sha512-{digest}, and sha512-{TARBALL_SHA512} is pinned"]
        unpacked = Path(folder) / "files"
        unpacked.mkdir()
        with tarfile.open(tarball) as archive:
            for name in FILES:
                member = archive.extractfile(f"package/{name}")
                (unpacked / name).write_bytes(member.read() if member else b"")
        wrong = _wrong(unpacked)
        if not wrong:
            FOLDER.mkdir(parents=True, exist_ok=True)
            for name in FILES:
                (FOLDER / name).write_bytes((unpacked / name).read_bytes())
        return wrong


def _wrong(folder: Path) -> list[str]:
    found = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() if (folder / name).is_file() else "missing"
        for name in FILES
    }
    return [f"{name} is {found[name]}, and {pinned} is pinned" for name, pinned in FILES.items() if found[name] != pinned]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
