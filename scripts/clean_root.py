"""Carries out the Dockerfile without a container engine: each RUN, COPY, ENV and USER, in a clean Debian root.

    sudo .venv/bin/python scripts/clean_root.py build/image        (make image-test does it, and then starts the result)

A stage is a folder, which begins as what debootstrap makes of the Debian release that FROM names, from the mirror that apt
uses here. A RUN line runs in a chroot with a process table and mounts of its own. What differs from `docker build`: the
network is this machine's, there are no layers, debootstrap's minimal Debian takes the place of the image that FROM names,
and pip's settings of this machine are the secret pip.conf, with the certificates that they name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CODENAMES: Final[Mapping[str, str]] = {"12": "bookworm", "13": "trixie"}
TOOLS: Final = ("debootstrap", "unshare", "setpriv", "chroot")
DOCKER_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES: Final = "null zero full random urandom tty"
RECORDED: Final = frozenset({"EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD", "LABEL"})
# $1 is the root; $2 "ro" for a root that cannot be written to; then "source target options" for each mount, "--", the command.
ENTER: Final = f"""
root=$1 mode=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
ln -s /proc/self/fd "$root/dev/fd"
for device in {DEVICES}; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
[ "$mode" = rw ] || mount -o remount,bind,ro "$root"
while [ "$1" != -- ]; do
    if [ "$1" = tmpfs ]; then mount -t tmpfs tmpfs "$root$2"
    else mount --bind "$1" "$root$2"; [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"; fi
    shift 3
done
shift
exec "$@"
"""


class DockerfileError(ValueError):
    """The Dockerfile has a line that this script does not carry out."""


@dataclass(frozen=True)
class Instruction:
    name: str
    flags: Mapping[str, str]
    text: str

    @property
    def words(self) -> list[str]:
        """The list of the exec form, or the words of the line."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return shlex.split(self.text)


@dataclass
class Stage:
    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class Image:
    """What the last stage says about a container; `root` is its folder."""

    root: str = ""
    env: dict[str, str] = field(default_factory=lambda: {"PATH": DOCKER_PATH})
    user: str = "0:0"
    workdir: str = "/"
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    healthcheck: list[str] = field(default_factory=list)
    stopsignal: str = "SIGTERM"
    expose: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine in the root; the source `tmpfs` is an empty folder in memory."""

    source: str
    target: str
    options: str = "ro"


def parse_dockerfile(text: str) -> list[Stage]:
    """Return the stages with their instructions. DockerfileError for what `build` does not carry out."""
    stages: list[Stage] = []
    for line in _logical_lines(text):
        name, _, rest = line.partition(" ")
        flags, rest = _split_flags(rest.strip())
        if name == "FROM":
            base, _, alias = rest.partition(" AS ")
            stages.append(Stage(base.strip(), alias.strip() or str(len(stages))))
        elif name not in RECORDED | {"RUN", "COPY", "ENV", "USER", "WORKDIR"}:
            raise DockerfileError(f"{name} is an instruction that scripts/clean_root.py does not carry out")
        else:
            stages[-1].instructions.append(Instruction(name, flags, rest))
    return stages


def _logical_lines(text: str) -> Iterator[str]:
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    joined = ""
    for line in lines:
        if line.endswith("\\"):
            joined += line[:-1].strip() + " "
        else:
            yield joined + line.strip()
            joined = ""


def _split_flags(text: str) -> tuple[dict[str, str], str]:
    flags: dict[str, str] = {}
    while match := re.match(r"--([a-z-]+)=(\S+)\s+", text):
        flags[match[1]] = match[2]
        text = text[match.end() :]
    return flags, text


def copy_context(source: Path, target: Path) -> None:
    """Copy what .dockerignore lets through."""
    rules = [line for line in (source / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    listed = subprocess.run(command, cwd=source, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (source / name).is_file() and not is_ignored(name, rules):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)


def is_ignored(name: str, rules: Sequence[str]) -> bool:
    """Return whether .dockerignore leaves this path out: the last rule that matches it, or a folder above it, decides."""
    parts = name.split("/")
    paths = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    ignored = False
    for rule in rules:
        pattern = re.escape(rule.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, path) for path in paths):
            ignored = not rule.startswith("!")
    return ignored


def enter_command(
    root: Path, command: Sequence[str], *, image: Image, mounts: Sequence[Mount] = (), read_only: bool = False
) -> list[str]:
    """Return the command line that runs `command` as process 1 of the root, as the image's user, without any capability."""
    flat = [word for mount in mounts for word in (mount.source, mount.target, mount.options)]
    return [
        "unshare",
        "--mount",
        "--pid",
        "--ipc",
        "--uts",
        "--fork",
        "--kill-child",
        "--propagation",
        "private",
        "sh",
        "-ec",
        ENTER,
        "enter",
        str(root),
        "ro" if read_only else "rw",
        *flat,
        "--",
        shutil.which("chroot") or "chroot",
        str(root),
        *as_user(image, command),
    ]


def as_user(image: Image, command: Sequence[str]) -> list[str]:
    """`command` with the environment, the working directory and the user of the image, for a process in its root."""
    uid, _, gid = image.user.partition(":")
    environment = [f"{name}={value}" for name, value in image.env.items()]
    rights = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"] if uid != "0" else []
    return [
        "/usr/bin/env",
        "-i",
        f"--chdir={image.workdir}",
        *environment,
        "/usr/bin/setpriv",
        f"--reuid={uid}",
        f"--regid={gid or uid}",
        "--clear-groups",
        *rights,
        "--",
        *command,
    ]


class Build:
    """Carries out the stages of a Dockerfile below `folder`."""

    def __init__(self, folder: Path, context: Path) -> None:
        self._folder, self._context = folder, context
        self._images: dict[str, Image] = {}

    def run(self, stages: Sequence[Stage]) -> Image:
        for stage in stages:
            print(f"stage {stage.name} from {stage.base}", flush=True)
            self._images[stage.name] = image = self._begin(stage)
            for instruction in stage.instructions:
                print(f"  {instruction.name} {instruction.text}", flush=True)
                getattr(self, f"_{instruction.name.lower()}", self._record)(image, instruction)
        return self._images[stages[-1].name]

    def _begin(self, stage: Stage) -> Image:
        image = Image(root=str(self._folder / f"stage-{stage.name}"))
        if stage.base in self._images:
            base = self._images[stage.base]
            image.env, image.user, image.workdir = dict(base.env), base.user, base.workdir
            source = Path(base.root)
        else:
            source = clean_debian(stage.base, self._folder)
        subprocess.run(["cp", "--archive", "--reflink=auto", str(source), image.root], check=True)
        return image

    def _run(self, image: Image, instruction: Instruction) -> None:
        with tempfile.TemporaryDirectory() as secrets:
            mounts = [Mount("/etc/resolv.conf", "/etc/resolv.conf")]
            if "mount" in instruction.flags:
                mounts += _secret(instruction.flags["mount"], Path(secrets))
            for mount in mounts:
                (target := Path(image.root + mount.target)).parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            command = enter_command(Path(image.root), ["/bin/sh", "-c", instruction.text], image=image, mounts=mounts)
            if subprocess.run(command, check=False).returncode:
                raise DockerfileError(f"this line failed: RUN {instruction.text}")

    def _copy(self, image: Image, instruction: Instruction) -> None:
        *sources, target = instruction.words
        source_root = self._images[instruction.flags["from"]].root if "from" in instruction.flags else self._context
        position = Path(image.root + str(Path(image.workdir, target)))
        for name in sources:
            source = Path(f"{source_root}/{name}")
            is_folder = source.is_dir()
            into = position / source.name if not is_folder and (target.endswith("/") or len(sources) > 1) else position
            into.parent.mkdir(parents=True, exist_ok=True)
            owner = [] if "from" in instruction.flags else ["--no-preserve=ownership"]
            subprocess.run(["cp", "-a", *owner, f"{source}/." if is_folder else str(source), str(into)], check=True)
            if mode := instruction.flags.get("chmod"):
                into.chmod(int(mode, 8))

    def _env(self, image: Image, instruction: Instruction) -> None:
        image.env.update(word.partition("=")[::2] for word in instruction.words)

    def _user(self, image: Image, instruction: Instruction) -> None:
        image.user = instruction.text

    def _workdir(self, image: Image, instruction: Instruction) -> None:
        image.workdir = instruction.text
        Path(image.root + instruction.text).mkdir(parents=True, exist_ok=True)

    def _record(self, image: Image, instruction: Instruction) -> None:
        text = instruction.text.removeprefix("CMD ") if instruction.name == "HEALTHCHECK" else instruction.text
        words = Instruction(instruction.name, {}, text).words
        setattr(image, instruction.name.lower(), words[0] if instruction.name == "STOPSIGNAL" else words)


def clean_debian(base: str, folder: Path) -> Path:
    """Return a minimal Debian of the release that the image's tag names, made once by debootstrap."""
    match = re.fullmatch(r"(?:docker\.io/library/)?debian:(\d+)\.\d+-slim", base)
    if match is None or match[1] not in CODENAMES:
        raise DockerfileError(
            f"FROM {base}: only a stage, or debian:N.N-slim of {', '.join(CODENAMES)}, can be made here"
        )
    codename = CODENAMES[match[1]]
    ready, draft = folder / f"debian-{codename}", folder / f"debian-{codename}.draft"
    if not ready.exists():
        shutil.rmtree(draft, ignore_errors=True)
        mirror, security = debian_mirrors()
        subprocess.run(["debootstrap", "--variant=minbase", codename, str(draft), mirror], check=True)
        suites = f"deb {mirror} {codename} main\ndeb {mirror} {codename}-updates main\n"
        (draft / "etc/apt/sources.list").write_text(suites + f"deb {security} {codename}-security main\n")
        draft.rename(ready)
    return ready


def debian_mirrors() -> tuple[str, str]:
    """Return the addresses of Debian and of its security updates that apt uses here."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    mirror = next((uri for uri in listed if uri.rstrip("/").endswith("/debian")), "http://deb.debian.org/debian")
    return mirror, next((uri for uri in listed if "security" in uri), mirror.rstrip("/") + "-security")


def _secret(flag: str, folder: Path) -> list[Mount]:
    """The mounts of `--mount=type=secret,id=pip.conf,target=…`: pip's settings of this machine, and their certificates."""
    options = dict(part.partition("=")[::2] for part in flag.split(","))
    if options.get("type") != "secret" or options.get("id") != "pip.conf":
        raise DockerfileError(f"--mount={flag} is a mount that scripts/clean_root.py does not carry out")
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    config, mounts = ConfigParser(interpolation=None), []
    config["global"] = {}
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        name, value = key.rpartition(".")[2], value.strip("'")
        if name in {"index-url", "extra-index-url", "cert", "trusted-host", "timeout", "proxy"}:
            config["global"][name] = value
        if name == "cert":
            mounts.append(Mount(value, "/run/pip-certificates.pem"))
            config["global"]["cert"] = "/run/pip-certificates.pem"
    with (folder / "pip.conf").open("w") as file:
        config.write(file)
    return [*mounts, Mount(str(folder / "pip.conf"), options["target"])]


def check_machine() -> str | None:
    """Return why the Dockerfile cannot be carried out here; None when it can."""
    if sys.platform != "linux":
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root, for debootstrap, chroot and mounts: run it with sudo"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}: apt-get install debootstrap util-linux"
    return None


def build(folder: Path) -> Image:
    """Carry out the Dockerfile below `folder`, and write what it says of a container to image.json there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.json").unlink(missing_ok=True)
    for old in [*folder.glob("stage-*"), folder / "context"]:
        shutil.rmtree(old, ignore_errors=True)
    copy_context(ROOT, folder / "context")
    image = Build(folder, folder / "context").run(parse_dockerfile((ROOT / "Dockerfile").read_text()))
    for stage in folder.glob("stage-*"):
        if str(stage) != image.root:
            shutil.rmtree(stage)
    (folder / "image.json").write_text(json.dumps(asdict(image), indent=1))
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description="Carry out the Dockerfile in a clean Debian root, as root.")
    parser.add_argument("folder", type=Path, help="where the roots are made; a clean Debian is kept there")
    folder = parser.parse_args().folder.resolve()
    if (reason := check_machine()) is not None:
        sys.exit(f"clean_root: {reason}")
    try:
        image = build(folder)
    except (DockerfileError, subprocess.CalledProcessError) as error:
        sys.exit(f"clean_root: {error}")
    print(f"the root is in {image.root}")


if __name__ == "__main__":
    main()
