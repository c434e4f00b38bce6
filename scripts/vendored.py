"""Fetch the scripts of other projects that our pages use, through npm; with --check, say whether the files are the pinned ones.

Names of packages select some (`vendored.py axe-core`). To move to another version, change it, run this, and put the hashes
that it prints here: each is compared, so nothing else than what somebody looked at gets into the package.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
REST = ROOT / "src/modules/llm_platform/presentation/rest"


@dataclass(frozen=True)
class Package:
    """A package of npm, and the files of it that we use: path in the package, name here, SHA-256."""

    name: str
    version: str
    integrity: str  # `npm view NAME@VERSION dist.integrity`, without `sha512-`
    folder: Path
    files: Mapping[str, tuple[str, str]]
    is_shipped: bool = True  # a part of our package, not only of its tests


PACKAGES = (
    Package(
        "swagger-ui-dist",
        "5.35.0",
        "U06rpMtW9V3XPGOBeamTUSr0Z09jMX4IJuANpE/EZbAhw0G8CgwrzU4YmXkn/h0wCDNsXdGarTNNHC3sU8yVUQ==",
        REST / "swagger_ui",
        {
            name: (name, digest)
            for name, digest in {
                "swagger-ui-bundle.js": "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
                "swagger-ui.css": "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
                "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
                "NOTICE": "0d20d1adef18aee3f40dd258172155521ce702ac445cb5f7b7d60ed32dad2fb2",
                "swagger-ui-bundle.js.LICENSE.txt": "37eb6e7e59aed57b2c1acf076574b818ea07b74265717e0bd67b59e0baf9abbb",
            }.items()
        },
    ),
    Package(
        "markdown-it",
        "15.0.3",
        "+Az7Ojz3iRGu8KYMvJ6xVhvrxP3eE+vEtJX75Ow88XBpcQNV/0lGX5ZynIIBftREo4DC2jsveAMDaeltmm8QvQ==",
        REST / "page/vendor",
        {
            "dist/browser/markdown-it.umd.min.js": (
                "markdown-it.js",
                "391f2aa638e75e6c7859d0a5c5650ef0956722a45998f17e05b83bc655778e1e",
            ),
            "LICENSE": ("markdown-it.LICENSE", "792c48c5a849a15fdf9e37e8bcf9e6d1dd13b32b46c642a748a0a46a9919d473"),
        },
    ),
    Package(
        "dompurify",
        "3.4.18",
        "ofe3wI/uNm68HInABYFJYqQxRw1EaKAjNdrFVKqjUY+UZurvNd2L/HuQe097s/4RivWiZyP6tT7aoT8atjfhwg==",
        REST / "page/vendor",
        {
            "dist/purify.min.js": (
                "dompurify.js",
                "8053ee2a6a09f9d50f7fcd6fb7f07072f52c7f3fa9aa12147cab4feaf65ee970",
            ),
            "LICENSE": ("dompurify.LICENSE", "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"),
        },
    ),
    Package(
        "temml",
        "0.13.5",
        "aPkDDgunanpLNL0ql32HbolqLep+w8DRcVXRql7rWrMt/PhczdLgL4UBYYVU3BYjCNjkGq4EqwIicu/zWr1iOg==",
        REST / "page/vendor",
        {
            "dist/temml.mjs": ("temml.js", "49753197751c1ff7fa2c76c3b8503b6cee03774c7c92ccd71c3c4b7fa5b31fe1"),
            "LICENSE": ("temml.LICENSE", "12b4e5592a12baaf50637881f2cb9d66667b26b8d51a73cd8f0d6bcefe176ab6"),
        },
    ),
    Package(
        "axe-core",
        "4.14.1",
        "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
        ROOT / "build/axe-core",
        {"axe.min.js": ("axe.min.js", "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c")},
        is_shipped=False,
    ),
)


def main(arguments: list[str]) -> int:
    """0 when the files are, or become, the pinned ones. Without names: the packages that are parts of ours."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    chosen = [package for package in PACKAGES if (package.name in names if names else package.is_shipped)]
    work = _wrong if "--check" in arguments else _fetch
    wrong = [line for package in chosen for line in work(package)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def _fetch(package: Package) -> list[str]:
    """Write the files; what differs from the pinned hashes, and then nothing is written."""
    if not _wrong(package):
        return []
    with tempfile.TemporaryDirectory() as folder:
        name = f"{package.name}@{package.version}"
        command = ["npm", "pack", "--silent", "--pack-destination", folder, name]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (tarball,) = Path(folder).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if digest != package.integrity:
            return [f"{tarball.name} is sha512-{digest}, and sha512-{package.integrity} is pinned"]
        unpacked = Path(folder) / "files"
        unpacked.mkdir()
        with tarfile.open(tarball) as archive:
            for path, (own_name, _) in package.files.items():
                member = archive.extractfile(str(PurePosixPath("package", path)))
                (unpacked / own_name).write_bytes(member.read() if member else b"")
        wrong = _wrong(package, unpacked)
        if not wrong:
            package.folder.mkdir(parents=True, exist_ok=True)
            for own_name, _ in package.files.values():
                (package.folder / own_name).write_bytes((unpacked / own_name).read_bytes())
        return wrong


def _wrong(package: Package, folder: Path | None = None) -> list[str]:
    paths = [((folder or package.folder) / name, pinned) for name, pinned in package.files.values()]
    found = [
        (p, hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "missing", pinned) for p, pinned in paths
    ]
    return [f"{path.name} is {digest}, and {pinned} is pinned" for path, digest, pinned in found if digest != pinned]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
